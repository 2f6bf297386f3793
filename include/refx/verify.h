// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/measure.h"
#include "refx/model.h"

namespace refx {

// What verify() says. Only `pass` is a pass: `not_judged` is the answer for lossy steps without a
// budget, and of `cannot_tell` the reason says what prevents an answer.
enum class Answer : std::uint8_t { pass, not_judged, cannot_tell, fail };
REFX_API std::string to_string(Answer answer);  // "pass", "not judged", "cannot tell", "fail"

struct VerifyOptions {
  const Model* against = nullptr;  // null: the model's own original
  // Without inputs: the file's, generated ones, and other sizes where they are symbolic. It takes
  // as long as it takes, and the models run where they are.
  Measure measure = {};
  std::vector<Inputs> more_inputs = {};  // besides those
  double tolerance = 0;                  // the largest relative error; 0: see verify()
  double budget = 0;  // the largest error of lossy steps, see Lossy; 0: none is given
  bool per_step = false;
  bool by_error = false;  // the steps that cost most come first
  bool power = false;     // for each step the smallest wrong that would be noticed, see StepPower
};

// A largest error and what is allowed where it was found: in the row (along the last dimension)
// that goes farthest into what is allowed, or beyond it.
struct Distance {
  double error = 0, allowed = 0;
};

// One output, or one tensor that the model writes, on one set of inputs. Distances are absolute;
// relative ones are parts of the scale.
struct OutputCheck {
  std::string path;           // "output[0]['logits']", "state 'bn.running_mean'", "input 'cache'"
  std::string type;           // "f32[2, 10]"
  bool exact = false;         // integers and the like: compared bit by bit
  double scale = 0;           // the largest magnitude of the reference
  Distance meaning = {};      // of the model in fp64 from the original in fp64
  Distance now = {};          // of the model as it runs from the reference
  double original_error = 0;  // the largest, of the original as it runs
  double original_l2 = 0, l2 = 0;  // relative: the length of the error as a part of the output's
  double beyond = 0;               // the share of elements whose error is beyond what is allowed
  Answer answer = Answer::pass;
  std::string problem;   // empty: passed
  std::size_t call = 0;  // of a sequence: the one that goes farthest into what is allowed

  bool passed() const { return answer == Answer::pass; }
  double relative(double error) const { return scale > 0 ? error / scale : error; }
};

struct REFX_API SetCheck {
  std::string origin;                // of the inputs
  std::vector<OutputCheck> outputs;  // of a sequence: each where it is worst
  std::size_t calls = 1;             // all of which were judged; state after the last
  Answer answer() const;
  bool passed() const { return answer() == Answer::pass; }
};

// A step by itself: the original with this step and those it is built on, and no others. So its
// numbers do not depend on which other steps there are, or on errors that cancel each other.
struct StepCheck {
  StepId id;
  std::string transformation, site;
  std::vector<StepId> built_on;
  OutputCheck worst;        // the output that comes nearest to, or farthest beyond, what is allowed
  double added_error = 0;   // relative, to what that output has without the step
  bool lossy = false;       // it is, or is built on one that is
  double in_the_whole = 0;  // of a lossy one: what the model's error is larger by than without it
  bool passed() const { return worst.passed(); }
};

// How small a wrong in what a step made would be noticed, on these inputs: every number that the
// step hands on is multiplied by 1 + part or 1 - part. Steps that hand on integers and masks alone
// have none.
struct StepPower {
  StepId id;
  std::string transformation, site;
  std::optional<double> noticed;  // the smallest part; none: not even a part of 1 is noticed
};

// A model that is meant to err: steps of transformations that approximate. Its error is the
// relative L2 of an output, or the share of elements that differ where they are no floating-point
// numbers, and the largest of all outputs and inputs. Steps that approximate nothing are still held
// to rounding, by themselves.
struct Lossy {
  std::vector<StepId> steps;
  double error = 0, budget = 0;  // without a budget the error is measured and not judged
};
// Steps of transformations that do not preserve the computation are marked when they are applied,
// and files keep the mark. Of transformations that ship with refx and are exact it does not count.
REFX_API bool is_lossy(const Step& step);
REFX_API bool is_marked_lossy(const Step& step);

struct REFX_API Verification {
  bool in_fp64 = true;  // the reference is the original in fp64; else the original as it is …
  std::string why_not;  // … for this reason
  bool random = false;  // the model draws random numbers: all runs started from the same seed
  int threads = 1;
  std::uint64_t seed = 0;
  std::vector<SetCheck> sets;
  std::vector<StepCheck> steps;
  std::vector<StepPower> power;
  std::optional<Lossy> lossy;
  std::vector<std::string> warnings;  // steps that these inputs do not test
  std::vector<std::string> notes;

  Answer answer() const;
  bool passed() const { return answer() == Answer::pass; }
  std::string verdict() const;  // the answer; "lossy" if lossy steps are within their budget
  std::string reason() const;   // of the answer; empty for pass
};

// Asks two questions about every output.
//
// Does the model mean the same? Both forms run in fp64. They may differ by what rounding the
// weights that a rewrite made does to the original, measured, and by fp64's own rounding. Values
// that depend on stored tensors and literals alone are computed in the model's own dtypes, also in
// fp64 runs: they are no more exact than the model computes them.
//
// Does it run as well? The model in its own dtype may err as the original does, or as the original
// does in fp64 with one more rounding of every parameter and every result that rounds.
//
// The measured effect of rounding counts only where it is one: it shrinks with the noise, two seeds
// agree, and nothing that the model decides (comparisons, indices, casts) is decided otherwise. An
// output passes with up to kGrowth times that (kGrowthOfL2 for its relative L2), or kRoundings
// roundings of the largest number in its row, but never with more than largest_allowed() of its
// scale. Where rounding alone does more, where the original itself is farther off, where a decision
// is so close that rounding turns it, where a form that means the same errs by more than rounding
// explains but not by more than that part, or where there is no fp64 run and the bits differ, the
// answer is cannot_tell. Non-finite values must stand in the same places, and everything that is
// not floating-point must be equal.
//
// Writes no tensor of the model, and leaves the global random state and the number of threads as
// they were. Throws Error if one of the forms cannot be run.
inline constexpr double kGrowth = 8, kGrowthOfL2 = 3;
inline constexpr double kRoundings = 16;
REFX_API double largest_allowed(c10::ScalarType dtype);  // as a part of the output's scale
REFX_API Verification verify(const Model& model, const VerifyOptions& options = {});

// A planted change of this size that goes unnoticed is a warning.
inline constexpr double kPlanted = 0.01;

// A table for people, and an object for programs.
REFX_API std::string to_text(const Verification& verification);
REFX_API std::string to_json(const Verification& verification);

}  // namespace refx
