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

// The verdict of verify(). Only `pass` is a pass. `not_judged` means that the model has lossy steps
// and no budget was given. `cannot_tell` comes with a reason that says what prevents a verdict.
enum class VerifyVerdict : std::uint8_t { pass, not_judged, cannot_tell, fail };
REFX_API std::string to_string(VerifyVerdict verdict);  // such as "cannot tell"

// How a verification lists the steps: in the order of their numbers, or the largest error first.
enum class StepOrder : std::uint8_t { step, error };

struct VerifyOptions {
  const Model* against = nullptr;  // null: the model's own original
  // Without inputs, verify() uses the sample inputs of the file, generated ones, and generated ones
  // of other sizes if sizes are symbolic. `seconds` is ignored. The models run on their own device.
  Measure measure = {};
  std::vector<Inputs> more_inputs = {};  // used in addition to those
  double tolerance = 0;                  // largest relative error; 0: what rounding explains
  double budget = 0;                     // largest error of lossy steps, see Lossy; 0: no budget
  bool per_step = false;
  StepOrder sort = StepOrder::step;  // with per_step
  bool power = false;  // the smallest error of each step that would be detected, see StepPower
};

// The error and the tolerance of one row (along the last dimension): of the row that uses the
// largest fraction of its tolerance.
struct Distance {
  double error = 0, allowed = 0;
};

// One output, or one tensor that the model writes, on one set of inputs. Errors are absolute unless
// they are called relative, which means divided by the scale.
struct OutputCheck {
  std::string path;            // "output[0]['logits']", "state 'bn.running_mean'", "input 'cache'"
  std::string type;            // "f32[2, 10]"
  bool exact = false;          // integers and booleans: compared bit by bit
  double scale = 0;            // the largest magnitude of the reference
  Distance fp64_error = {};    // between the two models, both in fp64
  Distance native_error = {};  // between the model in its own dtype and the reference
  double original_error = 0;   // largest error of the original in its own dtype
  double original_l2 = 0, l2 = 0;  // relative L2 errors of the original and of the model
  double fraction_exceeding = 0;   // fraction of elements whose error exceeds the tolerance
  VerifyVerdict answer = VerifyVerdict::pass;
  std::string problem;   // empty: passed
  std::size_t call = 0;  // of a sequence: the worst call, counted from 1
  bool lossy = false;    // judged by the budget, see Lossy: there are no tolerances

  bool passed() const { return answer == VerifyVerdict::pass; }
  double relative(double error) const { return scale > 0 ? error / scale : error; }
};

struct REFX_API SetCheck {
  std::string origin;                // where the inputs come from
  std::vector<OutputCheck> outputs;  // of a sequence of calls: each output in its worst call
  std::size_t calls = 1;             // all calls are judged, and the state after the last one
  VerifyVerdict answer() const;
  bool passed() const { return answer() == VerifyVerdict::pass; }
};

// One step by itself: the original with this step and the steps that it builds on, and no others.
// Its numbers do not depend on the other steps of the model, and errors cannot cancel each other.
struct StepCheck {
  StepId id;
  std::string transformation, site;
  std::vector<StepId> built_on;
  OutputCheck worst;          // the output that uses the largest fraction of its tolerance
  double added_error = 0;     // relative: the error of that output minus its error without the step
  bool lossy = false;         // the step, or one that it builds on, is lossy
  double marginal_error = 0;  // if lossy: the error of the whole model minus that without the step
  bool passed() const { return worst.passed(); }
};

// The smallest error in the results of a step that verify() would detect on these inputs. Every
// number that the rest of the model reads from the step is multiplied by 1 + x or 1 - x at random.
// There is no entry for steps that yield only integers and masks.
struct StepPower {
  StepId id;
  std::string transformation, site;
  std::optional<double> detected;  // the smallest x; none: not even x = 1 is detected
};

// The result for a model with steps that approximate on purpose. The error is the relative L2 error
// of an output, or the fraction of elements that differ if they are not floating-point numbers; the
// largest one over all outputs and inputs. The other steps are checked by themselves and must stay
// within rounding.
struct Lossy {
  std::vector<StepId> steps;
  double error = 0, budget = 0;  // budget 0: the error is measured but not judged
};
// Returns true if verify() compares the step with the budget instead of with rounding: the history
// marks it as approximate, and its transformation is not an exact one that ships with refx. The
// second condition is there because anyone can write the mark into a file.
REFX_API bool is_lossy(const Step& step);

struct REFX_API Verification {
  bool in_fp64 = true;  // the reference is the original in fp64; otherwise in its own dtype
  std::string why_not;  // why the original does not run in fp64
  bool random = false;  // the model draws random numbers: every run started from the same seed
  int threads = 1;
  std::uint64_t seed = 0;
  std::vector<SetCheck> sets;
  std::vector<StepCheck> steps;
  std::vector<StepPower> power;
  std::optional<Lossy> lossy;
  std::vector<std::string> warnings;  // steps whose errors would not be detected on these inputs
  std::vector<std::string> notes;

  VerifyVerdict answer() const;
  bool passed() const { return answer() == VerifyVerdict::pass; }
  std::string verdict() const;  // "lossy" if lossy steps are within the budget
  std::string reason() const;   // why it is not a pass; empty for pass
};

// A correct rewrite changes the order and number of roundings, so its error may be several times
// the measured one. The L2 error averages over many elements and varies less.
inline constexpr double kErrorGrowthLimit = 8, kL2GrowthLimit = 3;
// Always allowed, in roundings of the largest number of a row. Sums in another order cause as much.
inline constexpr double kFreeRoundings = 16;
// The largest tolerance for an output of this dtype, as a fraction of the output's scale.
REFX_API double largest_allowed(c10::ScalarType dtype);

// Answers two questions about every output.
//
// Do both models compute the same function? Both run in fp64. They may differ by fp64's own
// rounding, and by the measured effect of rounding the weights that a rewrite created. Values that
// depend only on stored tensors and literals are computed in the model's own dtypes, also in the
// fp64 runs: they are only as exact as the model computes them.
//
// Is the model as accurate in its own dtype? It may have the error that the original has, or the
// error that the original has in fp64 when every parameter, and every result of an operator that
// rounds, is perturbed by one more rounding.
//
// The measured effect counts only if it behaves like rounding: it is proportional to the noise, two
// seeds agree, and all decisions of the model (comparisons, indices, casts) stay the same. A row
// passes if its error is at most kErrorGrowthLimit times the measured effect (kL2GrowthLimit for
// the L2 error), or at most kFreeRoundings roundings of the largest number in the row. The
// tolerance never exceeds largest_allowed() of the output's scale. The verdict is `cannot_tell` if
// rounding alone may cause a larger error than that, if the original itself has a larger error, if
// rounding may flip a decision, if the models agree in fp64 but the error in the model's own dtype
// is larger than rounding explains, or if there is no fp64 run and the bits differ. NaN and inf
// must be at the same positions. Everything that is not floating-point must be equal.
//
// Does not write to the tensors of the model. Restores the global random state and the number of
// threads. Throws Error if one of the models cannot be run.
REFX_API Verification verify(const Model& model, const VerifyOptions& options = {});

// verify() plants an error of this relative size in some steps and warns if it is not detected.
inline constexpr double kPlantedError = 0.01;

// A table for people, and a JSON object for programs.
REFX_API std::string to_text(const Verification& verification);
REFX_API std::string to_json(const Verification& verification);

}  // namespace refx
