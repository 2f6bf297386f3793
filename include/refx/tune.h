#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refx/bench.h"
#include "refx/registry.h"

namespace refx {

struct TuneOptions {
  std::vector<TransformationPtr> transformations = {};  // none: all of the registry
  Inputs inputs = {};
  std::int64_t batch = 0;
  int threads = 0;
  std::string device = "cpu";
  double seconds = 3;  // of each comparison of whole models; parts get a fifth
  std::uint64_t seed = 0;
  // Files of trials: what is in them is not measured again, and new ones go to the first.
  std::vector<std::string> trials = {};
  int shard = 0, shards = 1;  // measure only this part, and decide nothing
  OnProgress progress = {};
};

// One way to rewrite a place, as measured against leaving it alone.
struct Trial {
  std::vector<std::string> moves;  // "merge-linears", then "fuse-bias-in-linear"
  double before = 0, after = 0;    // seconds
  double ratio = 1, low = 1, high = 1;
  Speed speed = Speed::no_difference;
  bool remembered = false;  // from a file
};

// Places that are alike: the same operators, shapes, dtypes and strides.
struct PlaceClass {
  std::string key;
  std::vector<std::string> places;  // the sites of each, as they are in the model
  std::vector<Trial> trials;
  int chosen = -1;  // of the trials; -1: left alone
  std::string why;
};

struct Tuning {
  std::string inputs, device, machine;
  int threads = 1;
  std::vector<PlaceClass> classes;
  std::vector<std::string> notes;
  bool changed = false;  // the result differs from the input
  Contest proof;         // the input against the result, where one was tried
};

// Finds the best form of a model on this machine and these inputs: places that are alike are
// measured once, each by itself on the values that it sees in a run of the model; the best ways are
// applied together and proven on the whole model, or taken back. Steps of these transformations
// that the model has already are up for the decision, too. The model becomes the result; on an
// error it stays as it is.
Tuning tune(Model& model, const TuneOptions& options = {});

std::string to_text(const Tuning& tuning);
std::string to_json(const Tuning& tuning);

}  // namespace refx
