#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refx/inputs.h"
#include "refx/model.h"

namespace refx {

struct VerifyOptions {
  const Model* against = nullptr;  // null: the model's own original
  // None: the file's sample inputs or generated ones; two more sets where sizes are symbolic.
  std::vector<Inputs> inputs = {};
  double tolerance = 0;  // the largest relative error; 0: see verify()
  bool per_step = false;
  int threads = 1;  // they change the bits of results; 0: as many as there are now
  std::uint64_t seed = 0;
};

// One output, or one tensor that the model writes, on one set of inputs. Errors are the largest
// distance of an element from the reference, relative ones as a part of the largest magnitude
// there.
struct OutputCheck {
  std::string path;    // "output[0]['logits']", "state 'bn.running_mean'", "input 'cache'"
  std::string type;    // "f32[2, 10]"
  bool exact = false;  // integers and the like: compared bit by bit with the original
  double scale = 0;    // the largest magnitude of the reference
  double original_error = 0, current_error = 0;
  double rounding_error = 0;  // what rounding all tensors once more would do, see verify()
  double allowed = 0;
  std::string problem;  // empty: passed

  bool passed() const { return problem.empty(); }
  double original_relative() const { return scale > 0 ? original_error / scale : original_error; }
  double current_relative() const { return scale > 0 ? current_error / scale : current_error; }
};

struct SetCheck {
  std::string origin;  // of the inputs
  std::vector<OutputCheck> outputs;
  bool passed() const;
};

// A step by itself: the original with this step and those it is built on, and no others. So its
// numbers do not depend on which other steps there are, or on errors that cancel each other.
struct StepCheck {
  StepId id;
  std::string transformation, site;
  std::vector<StepId> built_on;
  OutputCheck worst;       // the output that comes nearest to, or farthest beyond, what is allowed
  double added_error = 0;  // relative, to what that output has without the step
  bool passed() const { return worst.passed(); }
};

struct Verification {
  bool in_fp64 = true;  // the reference is the original in fp64; else the original as it is …
  std::string why_not;  // … for this reason
  bool random = false;  // the model draws random numbers: all runs started from the same seed
  int threads = 1;
  std::uint64_t seed = 0;
  std::vector<SetCheck> sets;
  std::vector<StepCheck> steps;
  std::vector<std::string> notes;

  bool passed() const;
};

// Runs the original and the model as it is now, both in their own dtype, and compares both with the
// original in fp64. A rewrite rounds in other places, so it may err as the original does, or as it
// would after one more rounding of every weight and input (measured in fp64, since an original may
// be lucky): an output passes with up to kGrowth times the larger of the two, or kRoundings
// roundings of its largest magnitude. Non-finite values must stand in the same places, and
// everything that is not floating-point must be equal. Writes no tensor of the model, and leaves
// the global random state and the number of threads as they were. Throws Error if one of the forms
// cannot be run.
inline constexpr double kGrowth = 8;
inline constexpr double kRoundings = 16;
Verification verify(const Model& model, const VerifyOptions& options = {});

// A table for people, and an object for programs.
std::string to_text(const Verification& verification);
std::string to_json(const Verification& verification);

}  // namespace refx
