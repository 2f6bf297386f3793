// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"
#include "refx/progress.h"

namespace refx {

// Which steps of a model make a check fail.

enum class Verdict { good, bad, skip };
REFX_API std::string to_string(Verdict verdict);

// Judges a form of the model that has some of its steps and not the others.
using Check = std::function<Verdict(const Model& form)>;

struct BisectOptions {
  // A file that keeps the verdicts, so that a search that was cut short goes on where it was; it is
  // removed at the end of a search. Empty: none.
  std::string journal = {};
  // What the verdicts are of: those under another key are not used.
  std::string key = {};
  OnProgress progress = {};
};

// A set of steps that makes the check fail, and no part of which does.
struct Culprit {
  std::vector<StepId> steps;     // oldest first
  std::vector<StepId> built_on;  // steps that had to be there with them, which pass by themselves
};

struct Bisection {
  Verdict original = Verdict::good, current = Verdict::bad;
  std::vector<Culprit> culprits;  // none: the check does not fail because of the steps
  std::vector<StepId> repair;     // reversed with what is built on them, the check passes …
  bool repaired = false;          // … as was seen
  bool discards = false;          // what was trained since into rewritten tensors has to be dropped
  std::vector<StepId> unsure;     // steps that could not be told from the culprits: checks skipped
  std::size_t checks = 0, remembered = 0;
};

// The smallest sets of live steps that make the check fail, by delta debugging: first one, then
// with that one repaired the next, until the check passes. Each form keeps the steps that its own
// are built on. There are none if the model passes, or if its original does not.
REFX_API Bisection bisect(const Model& model, const Check& check,
                          const BisectOptions& options = {});

// Passes while verify() does, against the original.
struct VerifyOptions;
REFX_API Check within(const Model& model, const VerifyOptions& options);

// Runs a command of the shell on the form, saved to a file whose path replaces every {}: exit code
// 0 is good, 125 is skip, 1 to 124 are bad; anything else is an Error.
REFX_API Check by_command(std::string command);

// `repair` says how to repair the model in the words of a face; empty: in the library's.
REFX_API std::string to_text(const Bisection& bisection, const Model& model,
                             const std::string& repair = "");
REFX_API std::string to_json(const Bisection& bisection, const Model& model,
                             const std::string& repair = "");

}  // namespace refx
