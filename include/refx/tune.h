#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/bench.h"
#include "refx/export.h"
#include "refx/registry.h"
#include "refx/verify.h"

namespace refx {

// Which rewrites pay, on this machine and these inputs.

struct TuneOptions {
  // None: all of the registry that preserve what a model computes.
  std::vector<TransformationPtr> transformations = {};
  Measure measure = {};                 // its seconds are for whole models; parts get a fifth
  std::string record = {};              // a file to which every trial is added; empty: none
  std::vector<std::string> known = {};  // files of trials that need not be made again
  int shard = 0, shards = 0;            // of any: measure only this part, and decide nothing
};

// One way to rewrite a place, as measured against leaving it alone.
struct Trial {
  std::vector<std::string> moves;  // "merge-linears", then "fuse-bias-in-linear"
  double before = 0, after = 0;    // seconds
  double ratio = 1, low = 1, high = 1;
  Speed speed = Speed::no_difference;
  bool remembered = false;  // from a file
};

// Sites that are alike: the same operators, arguments, shapes, dtypes and strides, and the same
// neighbours.
struct SiteClass {
  std::string key;
  std::vector<std::string> sites;
  std::vector<Trial> trials;
  int chosen = -1;  // of the trials; -1: left alone
  std::string why;
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
};

// Finds the best form of a model on this machine and these inputs: places that are alike are
// measured once, each by itself on the values that it sees in a run of the model; the best ways are
// applied together and proven on the whole model, speed and results, or taken back. Steps of these
// transformations that the model has already are up for the decision, too. The model becomes the
// result; on an error it stays as it is.
//
// Started by torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), the processes share the places
// among them through its store; one of them decides, and Tuning::decided is false in the others.
REFX_API Tuning tune(Model& model, const TuneOptions& options = {});

REFX_API std::string to_text(const Tuning& tuning);
REFX_API std::string to_json(const Tuning& tuning);

}  // namespace refx
