// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/program.h"
#include "refx/model.h"

namespace refx::exec {

// Observes each call of a run, and may change its results.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(std::size_t /*at*/, const Program&) {}
  virtual void after(std::size_t at, Program& program) = 0;  // program.code[at] has just run
};

// Runs the model once with a watcher, without a plan.
c10::IValue run_watched(Executor& executor, const std::vector<c10::IValue>& inputs,
                        Watcher& watcher);

}  // namespace refx::exec
