#include "lab/bench/clock.h"
#include "lab/bench/contest.h"
#include "lab/run/private_state.h"
#include "lab/run/run_once.h"
#include "refx/executor.h"

namespace refx {

MakeRunner runs_of(const Model& model, std::vector<c10::IValue> inputs,
                   std::optional<c10::Device> capture_on) {
  return [form = std::make_shared<const Model>(model), inputs = std::move(inputs), capture_on] {
    const auto executor = std::make_shared<Executor>(with_private_state(*form));
    const Runner run = [executor, own = copies(inputs)] { executor->run(own); };
    if (!capture_on) return run;
    executor->use_plans(false);  // a graph keeps the memory of its run itself
    run();
    const Runner replay = captured(run, *capture_on);
    return Runner([run, replay] { replay(); });
  };
}

}  // namespace refx
