// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refx/bench.h"
#include "refx/export.h"
#include "refx/registry.h"
#include "refx/verify.h"

namespace refx {

// Finds the rewrites that make a model faster or smaller, on this machine and these inputs.

// The result of an acceptance test: whether a candidate is accepted, and its score if the test
// gives one.
struct Acceptance {
  bool accepted = true;
  std::optional<double> score = {};
};
using AcceptanceTest = std::function<Acceptance(const Model& candidate)>;

// Saves the candidate to a file and runs a shell command in which every {} is replaced by the path
// of the file. Exit code 0 accepts, 1 to 125 reject; any other exit is an Error. With `at_least`,
// the last line of the command's output is the score, and a score below `at_least` rejects.
REFX_API AcceptanceTest accept_by_command(std::string command, std::optional<double> at_least = {});

enum class Prefer : std::uint8_t { speed, size };

struct TuneOptions {
  // Empty: all of the registry that preserve what a model computes.
  std::vector<TransformationPtr> transformations = {};
  // The sites, and the existing steps of the model, that tune decides about.
  SiteFilter filter = {};
  Measure measure = {};          // `seconds` is for a whole model; a trial of a site gets a fifth
  std::string trials = {};       // the file to which every trial is appended; empty: none
  std::string resume_from = {};  // a file of trials that are not measured again; empty: none

  // Limits on the result where transformations are approximate: the largest relative L2 error of an
  // output (0: no limit), and a test that the result must pass.
  double budget = 0;
  AcceptanceTest accept = {};
  Prefer prefer = Prefer::speed;
  // Inputs besides those of `measure`. The last third of all sets is held out: the choice is made
  // on the others and proven on these. With one set only, other inputs are generated for the proof.
  std::vector<Inputs> more_inputs = {};
};

// One way to rewrite a site, measured against the site as it is.
struct Trial {
  std::vector<std::string> moves;  // "merge-linears", then "fuse-bias-in-linear"
  double before = 0, after = 0;    // seconds; 0: not measured
  double ratio = 1, low = 1, high = 1;
  Speed speed = Speed::no_difference;
  std::int64_t saved = 0;   // bytes of tensors
  bool remembered = false;  // read from a file
};

// The choice for one site, where errors are counted.
struct SiteChoice {
  int chosen = -1;             // the index of the trial; -1: left alone
  std::vector<double> errors;  // of each trial by itself; 0 if it approximates nothing
};

// Sites that are alike: the same operators, arguments, shapes, dtypes and strides, and the same
// neighbors. Sites of several transformations that have a node in common count as one site.
struct SiteClass {
  std::string key;
  std::vector<std::string> sites;
  std::vector<Trial> trials;
  int chosen = -1;                  // the trial that is applied at some site; -1: none
  std::vector<SiteChoice> choices;  // for each site; empty where errors are not counted
  std::string why;                  // "kept: merge-linears is faster"
};

// A form of the whole model that was tried.
struct Attempt {
  std::size_t sites = 0;             // that are rewritten
  double error = 0;                  // on the inputs of the choice
  double gain = 0;                   // seconds or bytes, the sum over the sites
  std::optional<double> score = {};  // if the acceptance test gives one
  bool good = false;                 // within the budget, and accepted
};

// How errors were counted.
struct WithinBudget {
  double budget = 0;                 // 0: none was given
  double error = 0;                  // of the result, on the inputs of the proof
  std::optional<double> score = {};  // of the result, if the acceptance test gives one
  std::string chosen_on, proven_on;  // descriptions of the inputs
  Prefer prefer = Prefer::speed;     // what the gains are of
  std::vector<Attempt> tried;
};

struct Tuning {
  std::string inputs, device, machine;
  int threads = 1;
  std::vector<SiteClass> classes;
  std::vector<std::string> notes;
  bool decided = true;   // false in a process of torchrun that only measured
  bool changed = false;  // the result differs from the input
  Contest proof;         // the input against the result, if a result was tried
  // Of verify(), the result against the input on these inputs, if the result was faster. A result
  // that fails is rejected.
  std::optional<VerifyVerdict> verdict;
  std::optional<WithinBudget>
      budget;  // if transformations approximate or an acceptance test is given
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the tensors
};

// Finds the best form of a model on this machine and these inputs. Sites that are alike are
// measured once, each by itself on the values that it gets in a run of the model. The best ways are
// applied together, and the speed and the results of the whole model are checked; if they do not
// hold, the steps are undone. Existing steps of these transformations are decided about too. The
// model becomes the result; on an error it stays as it is.
//
// If transformations approximate, each site is decided separately, even among sites that are alike.
// The error of each way is measured by one run of the model with nothing else rewritten. The choice
// takes what gains most for its squared error. The whole is proven on other inputs, and the worst
// steps are undone until it is within the budget.
//
// Started by torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), the processes share the sites
// among them through its store. One of them decides, and Tuning::decided is false in the others.
REFX_API Tuning tune(Model& model, const TuneOptions& options = {});

REFX_API std::string to_text(const Tuning& tuning);
REFX_API std::string to_json(const Tuning& tuning);

}  // namespace refx
