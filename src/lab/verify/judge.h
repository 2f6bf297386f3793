// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>

#include "lab/run/run_once.h"
#include "refx/verify.h"

namespace refx {

// What rounding does to the original in fp64: runs with noise of one rounding, whose decisions are
// held; the first of them again with a fainter noise.
struct Response {
  std::vector<Run> runs;
  Run fainter;
};
inline constexpr double kFainter = 1.0 / 16;

// Runs whose noise is kFar times as strong and that decide freely: where they differ by much more
// than the response says, rounding turns a decision.
struct FarRuns {
  std::vector<Run> runs;
  std::set<std::string> flipped;  // the nodes that decided otherwise
};
inline constexpr double kFar = 8;

// What is known of the original on one set of inputs. The noise is measured when it is first
// needed.
struct Evidence {
  struct Noise {
    std::function<const Response&(std::size_t runs)> response;  // with at least as many
    std::function<const FarRuns&()> far;
  };
  const Run& original;        // as it runs
  const Run* wide = nullptr;  // in fp64; null: it does not run there
  std::string why_not_wide = {};
  // The dtype with the largest rounding that the original computes in: where an fp32 output comes
  // from bf16, as under autocast, bf16 says how far off it may be.
  c10::ScalarType coarsest = c10::ScalarType::Undefined;
  Noise weights, rounding;  // of the weights that the forms differ in; of all there is
  // An error that is beyond what may ever be allowed needs no noise to be too large, only to be
  // explained.
  bool explained = true;
};

// What decides instead of rounding.
struct Allowance {
  double tolerance = 0;  // the largest relative error of the form as it runs
  bool lossy = false;    // the form is meant to err …
  double budget = 0;     // … by so much, see Lossy; 0: it is measured and not judged
};

// Why a lossy form is not judged.
inline constexpr const char* kNoBudget = "no budget given";

// One check for each value that the original or the current form gives. `wide` is the current form
// in fp64, null where the original has none.
std::vector<OutputCheck> judge(const Evidence& evidence, const Run& current, const Run* wide,
                               const Allowance& allowance = {});

// The error of a lossy form there.
double loss(const OutputCheck& check);

// How far into what is allowed a check goes; beyond 1 it is too far.
double load(const OutputCheck& check);

}  // namespace refx
