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

// Models in fp64 that share the tensors which they have in common. What is constant in them is
// computed in their own dtypes, see ConstantsStored.
class WideForms {
 public:
  Model of(const Model& model) { return of(store_constants(with_regions_inlined(model))); }
  Model of(const ConstantsStored& stored);

 private:
  struct Pair {
    at::Tensor narrow, wide;  // the narrow one lives as long as its address is the key
  };
  std::unordered_map<const void*, Pair> made_;
};

// An original, in its own dtype and in fp64, and how rewritten forms of it may differ.
struct Original {
  Model model;
  std::optional<Model> wide;
  std::string why_not_wide;
  // Of entries of `wide`: of its parameters and constants; and of those entries whose bits the
  // rewritten model does not have.
  Roundings parameters, changed;
};
Original original_of_forms(const Model& original, const Model& rewritten, WideForms& forms);

// The original on one set of inputs, which may be a sequence of calls: what each of them gives, and
// what rounding does to it.
class Witness {
 public:
  // Throws Error if the original does not run on them.
  Witness(const Original& original, Inputs inputs, std::uint64_t seed);

  const Inputs& inputs() const { return inputs_; }
  std::size_t calls() const { return inputs_.calls(); }
  bool is_random() const;
  // Runs the original in fp64, too. Empty; or why that gives nothing to compare with.
  std::string run_wide();
  Evidence evidence(std::size_t call) const;

  // All calls, from fresh state.
  std::vector<Run> run(const Model& form) const;
  std::vector<Run> run_in_fp64(const Model& wide_form, exec::Watcher* watcher = nullptr) const;

  // Judges all calls of a form: each value where it is worst. `wide` are its runs in fp64, if they
  // are needed and there are any; `why_not_wide` says why there are none.
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
  c10::ScalarType coarsest_ = c10::ScalarType::Undefined;  // of what the original computes
  std::vector<Run> narrow_, wide_;  // of each call; no wide ones where it does not run in fp64
  std::string why_not_wide_;
  mutable std::map<Noise, std::vector<Response>> responses_;  // of each call
  mutable std::map<Noise, std::vector<FarRuns>> far_;
};

}  // namespace refx
