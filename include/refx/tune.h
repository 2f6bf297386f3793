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

// Which rewrites pay, on this machine and these inputs.

// What somebody says of a form of the model: whether it will do, and how good it is if there is a
// number for that.
struct Opinion {
  bool good = true;
  std::optional<double> score = {};
};
using AskAbout = std::function<Opinion(const Model& form)>;

// Runs a command of the shell on the form, saved to a file whose path replaces every {}: exit code
// 0 is good, 1 to 125 are not; anything else is an Error. With `at_least`, the last line that it
// prints is a number, and good is one that is not smaller.
REFX_API AskAbout ask_command(std::string command, std::optional<double> at_least = {});

enum class Prefer : std::uint8_t { speed, size };

struct TuneOptions {
  // None: all of the registry that preserve what a model computes.
  std::vector<TransformationPtr> transformations = {};
  // Which of their sites, and which of their steps that the model has, are up for the decision.
  SiteFilter filter = {};
  Measure measure = {};                 // its seconds are for whole models; parts get a fifth
  std::string record = {};              // a file to which every trial is added; empty: none
  std::vector<std::string> known = {};  // files of trials that need not be made again
  int shard = 0, shards = 0;            // of any: measure only this part, and decide nothing

  // How far the result may be from the original, where transformations approximate: the largest
  // error, see Lossy; 0: any. And whether the result will do, asked before it is taken.
  double budget = 0;
  AskAbout ask = {};
  Prefer prefer = Prefer::speed;
  // Besides those of `measure`. What is chosen on some of them is proven on the others, a third; on
  // generated ones where there is only one set.
  std::vector<Inputs> more_inputs = {};
};

// One way to rewrite a place, as measured against leaving it alone.
struct Trial {
  std::vector<std::string> moves;  // "merge-linears", then "fuse-bias-in-linear"
  double before = 0, after = 0;    // seconds; 0: not measured
  double ratio = 1, low = 1, high = 1;
  Speed speed = Speed::no_difference;
  std::int64_t saved = 0;   // bytes of tensors
  bool remembered = false;  // from a file
};

// What became of one site, where errors count.
struct SiteChoice {
  int chosen = -1;             // of the trials; -1: left alone
  std::vector<double> errors;  // of each trial by itself; 0 for one that approximates nothing
};

// Sites that are alike: the same operators, arguments, shapes, dtypes and strides, and the same
// neighbours.
struct SiteClass {
  std::string key;
  std::vector<std::string> sites;
  std::vector<Trial> trials;
  int chosen = -1;                  // of the trials, at any of the sites; -1: all are left alone
  std::vector<SiteChoice> choices;  // for each site; none where errors do not count
  std::string why;
};

// A form of the whole model that was tried.
struct Attempt {
  std::size_t places = 0;            // that are rewritten
  double error = 0;                  // on the inputs that it was chosen on
  double gain = 0;                   // seconds or bytes, summed up over the places
  std::optional<double> score = {};  // where somebody was asked
  bool good = false;
};

// How errors were counted.
struct WithinBudget {
  double budget = 0;                 // 0: none was given
  double error = 0;                  // of the result, on the inputs that it was proven on
  std::optional<double> score = {};  // of the result, where somebody was asked
  std::string chosen_on, proven_on;  // inputs, in words
  Prefer prefer = Prefer::speed;     // what the gains are of
  std::vector<Attempt> tried;
};

struct Tuning {
  std::string inputs, device, machine;
  int threads = 1;
  std::vector<SiteClass> classes;
  std::vector<std::string> notes;
  bool decided = true;   // false in a process that only measured
  bool changed = false;  // the result differs from the input
  Contest proof;         // the input against the result, where one was tried
  // Of verify(), the result against the input on these inputs, where one was faster; a result that
  // fails is not taken.
  std::optional<Answer> verdict;
  std::optional<WithinBudget> budget;  // where transformations approximate, or somebody is asked
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the tensors
};

// Finds the best form of a model on this machine and these inputs: places that are alike are
// measured once, each by itself on the values that it sees in a run of the model; the best ways are
// applied together and proven on the whole model, speed and results, or taken back. Steps of these
// transformations that the model has already are up for the decision, too. The model becomes the
// result; on an error it stays as it is.
//
// Where transformations approximate, places that are alike are decided each by itself: what each
// way costs is measured by one run of the model with nothing else rewritten, what gains most for
// its squared error is chosen, and the whole is proven on other inputs, or the worst taken back
// until it is within the budget.
//
// Started by torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), the processes share the places
// among them through its store; one of them decides, and Tuning::decided is false in the others.
REFX_API Tuning tune(Model& model, const TuneOptions& options = {});

REFX_API std::string to_text(const Tuning& tuning);
REFX_API std::string to_json(const Tuning& tuning);

}  // namespace refx
