// SPDX-License-Identifier: Apache-2.0

#include "lab/bench/clock.h"
#include "lab/bench/contest.h"
#include "lab/run/run_once.h"
#include "refx/error.h"
#include "refx/executor.h"

namespace refx {

namespace {

Runner sequence(const std::shared_ptr<Executor>& executor, const Inputs& inputs) {
  std::vector<std::vector<c10::IValue>> own;
  for (std::size_t i = 0; i < inputs.calls(); ++i) own.push_back(copies(inputs.call(i)));
  const auto calls = std::make_shared<const decltype(own)>(std::move(own));
  Runner runner([executor, calls] {
    for (std::size_t i = 1; i < calls->size(); ++i) executor->run((*calls)[i]);
  });
  runner.prepare = [executor, calls] {
    executor->reset_state();
    executor->run((*calls)[0]);
  };
  return runner;
}

}  // namespace

MakeRunner runs_of(const Model& model, Inputs inputs, std::optional<c10::Device> capture_on) {
  return [form = std::make_shared<const Model>(model), inputs = std::move(inputs), capture_on] {
    const auto executor = std::make_shared<Executor>(*form);
    if (!inputs.next.empty()) {
      if (capture_on) throw Error("a sequence of calls cannot be captured");
      return sequence(executor, inputs);
    }
    const Runner run([executor, own = copies(inputs.values)] { executor->run(own); });
    if (!capture_on) return run;
    executor->use_plans(false);  // a captured graph owns the memory of its run
    run.run();
    return Runner([run, replay = captured(run.run, *capture_on)] { replay(); });
  };
}

}  // namespace refx
