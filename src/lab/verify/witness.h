// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "lab/run/forms.h"
#include "lab/verify/constants.h"
#include "lab/verify/in_double.h"
#include "lab/verify/judge.h"
#include "lab/verify/noise.h"

namespace refx {

// Converts models to fp64. Tensors that several models share are converted once. Constants are
// computed in the model's own dtypes, see ConstantsStored.
class WideForms {
 public:
  Model of(const Model& model) { return of(store_constants(with_regions_inlined(model))); }
  Model of(const ConstantsStored& stored);

 private:
  struct Pair {
    at::Tensor narrow, wide;  // holds `narrow`, so that no other tensor gets its address, the key
  };
  std::unordered_map<const void*, Pair> made_;
};

// An original in its own dtype and in fp64, and the rounding of its tensors.
struct Original {
  Model model;
  std::optional<Model> wide;
  std::string why_not_wide;
  // Roundings of entries of `wide`: of all parameters and computed constants, and of the entries
  // whose bits the rewritten model does not contain.
  Roundings parameters, changed;
};
Original original_of_forms(const Model& original, const Model& rewritten, WideForms& forms);

// The original on one set of inputs, which may be a sequence of calls: its outputs and the effect
// of rounding on them, for each call.
class Witness {
 public:
  // Throws Error if the original does not run on these inputs.
  Witness(const Original& original, Inputs inputs, std::uint64_t seed);

  const Inputs& inputs() const { return inputs_; }
  std::size_t calls() const { return inputs_.calls(); }
  bool is_random() const;
  // Runs the original in fp64. Returns why there is no usable fp64 run; empty if there is one.
  std::string run_wide();
  Evidence evidence(std::size_t call) const;

  // Makes all calls, starting from the state in the file.
  std::vector<Run> run(const Model& form) const;
  std::vector<Run> run_in_fp64(const Model& wide_form, exec::Watcher* watcher = nullptr) const;

  // Judges all calls of a rewritten model, and returns each value in its worst call. `wide` has its
  // fp64 runs, or is null; `why_not_wide` says why there are none although they are needed.
  std::vector<OutputCheck> judge_calls(const std::vector<Run>& current,
                                       const std::vector<Run>* wide, const Allowance& allowance,
                                       const std::string& why_not_wide = "") const;

 private:
  enum class Noise { weights, all };
  std::vector<Run> disturbed(Noise noise, double roundings, RoundingNoise::Decisions decisions,
                             std::uint64_t seed, std::set<std::string>* flipped = nullptr) const;
  const Response& response(Noise noise, std::size_t call, std::size_t runs) const;
  const FarRuns& far(Noise noise, std::size_t call) const;

  const Original& original_;
  const Inputs inputs_;
  const std::uint64_t seed_;
  Trace trace_;
  c10::ScalarType coarsest_ = c10::ScalarType::Undefined;  // of all results of the original
  std::vector<Run> narrow_, wide_;  // for each call; `wide_` is empty if there is no fp64 run
  std::string why_not_wide_;
  mutable std::map<Noise, std::vector<Response>> responses_;  // for each call
  mutable std::map<Noise, std::vector<FarRuns>> far_;
};

}  // namespace refx
