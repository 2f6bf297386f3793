// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"
#include "refx/progress.h"

namespace refx {

// Finds the steps that make a check fail.

enum class BisectVerdict { good, bad, skip };
REFX_API std::string to_string(BisectVerdict verdict);

// Judges a variant of the model that has some of its steps and not the others. `skip` means that
// the variant cannot be tested.
using BisectCheck = std::function<BisectVerdict(const Model& form)>;

struct BisectOptions {
  // A file that stores the verdicts, so that an interrupted search can continue. It is removed when
  // the search ends. Empty: no file.
  std::string journal = {};
  // Identifies the model and the check. Stored verdicts with another key are ignored.
  std::string key = {};
  OnProgress progress = {};
};

// A minimal set of steps that makes the check fail: no subset of it does.
struct Culprit {
  std::vector<StepId> steps;     // oldest first
  std::vector<StepId> built_on;  // steps that they require, which pass by themselves
};

struct Bisection {
  BisectVerdict original = BisectVerdict::good, current = BisectVerdict::bad;
  std::vector<Culprit> culprits;  // empty: the steps are not why the check fails
  std::vector<StepId> repair;     // to reverse, together with the steps that build on them
  bool repaired = false;          // the check passed without these steps
  bool discards = false;          // the reversal discards later changes of rewritten tensors
  std::vector<StepId> unsure;     // may be culprits: their checks were skipped
  std::size_t checks = 0, remembered = 0;
};

// Finds minimal sets of steps that make the check fail, by delta debugging. When one is found, the
// search continues without its last step, until the check passes. Each variant includes the steps
// that its steps build on. There are no culprits if the model passes or the original fails.
REFX_API Bisection bisect(const Model& model, const BisectCheck& check,
                          const BisectOptions& options = {});

struct VerifyOptions;
// Returns a check that calls verify() against the original. The verdict is `skip` if verify()
// cannot tell.
REFX_API BisectCheck check_tolerance(const Model& model, const VerifyOptions& options);

// Returns a check that saves the variant to a file and runs a shell command, with every {} replaced
// by the path of that file. Exit code 0 is good, 125 is skip, 1 to 124 are bad. Any other exit code
// throws Error.
REFX_API BisectCheck check_command(std::string command);

// `repair` tells the user how to repair the model, for example the command to run. Empty: the C++
// call.
REFX_API std::string to_text(const Bisection& bisection, const Model& model,
                             const std::string& repair = "");
REFX_API std::string to_json(const Bisection& bisection, const Model& model,
                             const std::string& repair = "");

}  // namespace refx
