// SPDX-License-Identifier: Apache-2.0
#pragma once

// lab/: verify, bench, tune and bisect, each in a folder. run/ has what all of them need: forms of
// a model, on which inputs, where.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "refx/inputs.h"
#include "refx/values.h"

namespace refx {

namespace exec {
class Watcher;
}

// Fixes the number of threads, until it goes away; keeps the global random state, and oneDNN, which
// torch switches off for the whole process where it has no kernel.
class Environment {
 public:
  explicit Environment(int threads, bool onednn = true);  // 0 threads: as many as there are
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  int threads_;
  bool onednn_;
  std::vector<at::Tensor> states_;
};

// "f32[2, 10]", or the kind of what is not a tensor.
std::string type_of_value(const c10::IValue& value);

// All that a run leaves behind: what it returns, and what it has written into state and inputs.
struct Run {
  c10::IValue output;               // nested as in Python
  std::vector<Leaf> values;         // on the CPU
  std::set<std::string> unchanged;  // paths of state that it might have written but did not
  bool random = false;              // it has drawn random numbers
  std::vector<std::pair<std::string, at::Tensor>> state;  // that it may write, where the model is
};

// Inputs that a run may write into.
std::vector<c10::IValue> copies(const std::vector<c10::IValue>& inputs);

// On copies of the inputs and of the state that it writes, from this seed; under a watcher, if any.
Run run_once(const Model& model, const std::vector<c10::IValue>& inputs, std::uint64_t seed,
             exec::Watcher* watcher = nullptr);

// All calls of a sequence, each on the state that the ones before left, under one watcher, if any.
// What state they have written is part of the last run alone. Throws Error that tells the call.
std::vector<Run> run_sequence(const Model& model, const Inputs& inputs, std::uint64_t seed,
                              exec::Watcher* watcher = nullptr);

}  // namespace refx
