#pragma once

#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "lab/verify/in_double.h"
#include "lab/verify/judge.h"
#include "lab/verify/noise.h"

namespace refx {

// Models in fp64 that share the tensors which they have in common.
class WideForms {
 public:
  Model of(const Model& model);

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
  Roundings parameters;
  Roundings changed;  // entries whose bits the rewritten model does not have
};
Original original_of_forms(const Model& original, const Model& rewritten, WideForms& forms);

// The original on one set of inputs: what it gives, and what rounding does to it.
class Witness {
 public:
  // Throws Error if the original does not run on them.
  Witness(const Original& original, Inputs inputs, std::uint64_t seed);

  const Inputs& inputs() const { return inputs_; }
  const Run& as_it_runs() const { return narrow_; }
  // Runs the original in fp64, too. Empty; or why that gives nothing to compare with.
  std::string run_wide();
  Evidence evidence() const;

  Run run(const Model& form) const;
  Run run_in_fp64(const Model& wide_form, exec::Watcher* watcher = nullptr) const;

 private:
  enum class Noise { weights, all };
  Run disturbed(Noise noise, double roundings, RoundingNoise::Decisions decisions,
                std::uint64_t seed, std::set<std::string>* flipped = nullptr) const;
  const Response& response(Noise noise, std::size_t runs) const;
  const FarRuns& far(Noise noise) const;

  const Original& original_;
  const Inputs inputs_;
  const std::uint64_t seed_;
  Trace trace_;
  Run narrow_;
  std::optional<Run> wide_;
  std::string why_not_wide_;
  mutable std::map<Noise, Response> responses_;
  mutable std::map<Noise, FarRuns> far_;
};

}  // namespace refx
