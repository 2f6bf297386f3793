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

// Throws Error unless the number of threads is one that Measure::threads may have.
void require_threads(int threads);

// Sets the number of threads during its lifetime. Restores that, the global random state, and
// oneDNN, which torch switches off for the whole process when it has no kernel for an operator.
class Environment {
 public:
  // 0 threads: keep the number. Throws as require_threads() does.
  explicit Environment(int threads, bool onednn = true);
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

// The results of a run: its outputs, and what it has written into state and inputs.
struct Run {
  c10::IValue output;               // nested as in Python
  std::vector<Leaf> values;         // on the CPU
  std::set<std::string> unchanged;  // paths of state that it may write and did not change
  bool random = false;              // the model has drawn random numbers
  std::vector<std::pair<std::string, at::Tensor>>
      state;  // that it may write, on the model's device
};

// Copies of the inputs, which a run may write to.
std::vector<c10::IValue> copies(const std::vector<c10::IValue>& inputs);

// Runs the model on copies of the inputs and of the state that it writes, with this seed.
Run run_once(const Model& model, const std::vector<c10::IValue>& inputs, std::uint64_t seed,
             exec::Watcher* watcher = nullptr);

// Makes all calls of a sequence, each on the state that the calls before it left. Written state is
// part of the last run only. Throws Error with the number of the call.
std::vector<Run> run_sequence(const Model& model, const Inputs& inputs, std::uint64_t seed,
                              exec::Watcher* watcher = nullptr);

}  // namespace refx
