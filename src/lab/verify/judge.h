// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>

#include "lab/run/run_once.h"
#include "refx/verify.h"

namespace refx {

// The effect of rounding on the original, measured in fp64: runs with noise of one rounding that
// keep the decisions of the run without noise, and the first of them again with fainter noise. An
// effect that is not proportional to the noise is not one of rounding.
struct Response {
  std::vector<Run> runs;
  Run fainter;
};
// The effect of this fraction of the noise: 1/16 if it is linear, 1/256 if it is quadratic, and
// about the same as before if it comes from a flip. A smaller fraction would drown in fp64's own
// rounding.
inline constexpr double kFainter = 1.0 / 16;

// Runs with kFar times the noise whose decisions may change. Where the output changes by much more
// than in proportion, rounding may flip a decision.
struct FarRuns {
  std::vector<Run> runs;
  std::set<std::string> flipped;  // nodes whose decision changed
};
// As large as kErrorGrowthLimit: a rewrite may round that differently and still pass, so every
// decision that it can flip must show in these runs.
inline constexpr double kFar = 8;

// The original on one set of inputs. The noise is measured when it is first needed: most outputs
// pass without it.
struct Evidence {
  struct NoiseRuns {
    std::function<const Response&(std::size_t runs)> response;  // at least this many runs
    std::function<const FarRuns&()> far;
  };
  const Run& original;        // in its own dtype
  const Run* wide = nullptr;  // in fp64; null: it does not run in fp64
  std::string why_not_wide = {};
  // The dtype with the largest rounding among all results of the original. It sets the limit for an
  // fp32 output that comes from bf16 operators, as under autocast.
  c10::ScalarType coarsest = c10::ScalarType::Undefined;
  NoiseRuns weights;   // perturbs the weights that differ between the models, see Original::changed
  NoiseRuns rounding;  // perturbs all parameters and all results that round
  // False skips the noise runs for errors above the largest possible tolerance: no noise makes them
  // pass, it only finds the reason.
  bool explained = true;
};

// Limits that replace the one of rounding.
struct Allowance {
  double tolerance = 0;  // largest relative error in the model's own dtype
  bool lossy = false;    // the model approximates on purpose, see Lossy
  double budget = 0;     // largest error of a lossy model; 0: it is measured but not judged
};

// The reason of the verdict `not_judged`.
inline constexpr const char* kNoBudget = "no budget given";

// Checks each value that the original or the rewritten model yields. `current` and `wide` are the
// runs of the rewritten model in its own dtype and in fp64; `wide` is null if there is no fp64 run.
std::vector<OutputCheck> judge(const Evidence& evidence, const Run& current, const Run* wide,
                               const Allowance& allowance = {});

// The error of a lossy model in this output.
double loss(const OutputCheck& check);

// The largest fraction of its tolerance that an output uses; above 1 it fails. A failure counts as
// infinite, `cannot_tell` as almost infinite, so that the worst check has the largest fraction.
double fraction_of_tolerance(const OutputCheck& check);

}  // namespace refx
