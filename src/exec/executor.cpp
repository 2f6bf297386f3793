#include "refx/executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "exec/compile.h"
#include "exec/plan.h"
#include "exec/program.h"
#include "exec/watch.h"
#include "refx/error.h"
#include "refx/hint.h"
#include "util/first_line.h"

namespace refx {

using c10::IValue;

struct Executor::Program : exec::Program {
  exec::Stack stack;
  exec::Signature current, previous;
  std::vector<std::unique_ptr<exec::Plan>> plans;  // the latest first
  bool may_plan = true;
  bool planned = false;  // the last run
};

namespace {

std::string expected_inputs(const exec::Program& program, std::size_t got) {
  std::string names;
  for (const auto& input : program.user_inputs) names += (names.empty() ? "" : ", ") + input.name;
  std::size_t n = program.user_inputs.size();
  return "model takes " + std::to_string(n) + (n == 1 ? " input" : " inputs") +
         (n == 0 ? "" : " (" + names + ")") + ", got " + std::to_string(got);
}

void check_count(const exec::Program& program, const std::vector<IValue>& inputs) {
  if (inputs.size() != program.user_inputs.size())
    throw Error(expected_inputs(program, inputs.size()));
}

// The cost of inference mode, and ordinary tensors come out.
struct BelowAutograd {
  c10::AutoGradMode no_grad{false};
  at::AutoDispatchBelowADInplaceOrView below;
};

// Whatever happens in a run, the next one starts with empty slots.
class SlotGuard {
 public:
  SlotGuard(exec::Program& program, const std::vector<IValue>& inputs) : program_(program) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      program.slots[program.user_inputs[i].slot] = inputs[i];
    }
  }
  ~SlotGuard() {
    for (exec::Slot s : program_.transient) program_.slots[s] = IValue();
  }

 private:
  exec::Program& program_;
};

[[noreturn]] void rethrow(const exec::Instruction& at) {
  std::string where = "node '" + at.node + "' (" + at.target + "): ";
  try {
    throw;
  } catch (const HintedError& e) {
    throw HintedError(where + e.problem(), e.hint());
  } catch (const Error& e) {
    throw Error(where + e.what());
  } catch (const c10::Error& e) {
    throw Error(where + first_line(e.what_without_backtrace()));
  } catch (const std::bad_alloc&) {  // says nothing about the node
    throw;
  } catch (const std::exception& e) {
    throw Error(where + first_line(e.what()));
  }
}

// The outputs that are written somewhere leave the tuple; the rest is returned.
IValue write_back(exec::Program& program, IValue result) {
  if (program.mutations.empty()) return result;
  if (!result.isTuple() && !result.isList()) {
    throw Error("a model with mutated outputs returns a tuple, got " + result.tagKind());
  }
  std::vector<IValue> items =
      result.isTuple() ? result.toTupleRef().elements().vec() : result.toListRef().vec();
  std::vector<bool> written(items.size(), false);
  for (const auto& m : program.mutations) {
    if (m.output >= items.size()) {
      throw Error("output " + std::to_string(m.output) + " is to be written back, but there are " +
                  std::to_string(items.size()));
    }
    written[m.output] = true;
    if (!program.slots[m.target].isTensor() || !items[m.output].isTensor())
      throw Error("output " + std::to_string(m.output) +
                  " is to be written back, but one of the two is no tensor");
    const at::Tensor& target = program.slots[m.target].toTensor();
    const at::Tensor& value = items[m.output].toTensor();
    if (target.is_same(value)) continue;
    target.copy_(value);
    if (!target.is_inference()) target.unsafeGetTensorImpl()->bump_version();
  }
  std::vector<IValue> rest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!written[i]) rest.push_back(std::move(items[i]));
  }
  return c10::ivalue::Tuple::create(std::move(rest));
}

IValue run_plainly(exec::Program& p, exec::Stack& stack, const std::vector<IValue>& inputs,
                   exec::Watcher* watcher = nullptr) {
  SlotGuard guard(p, inputs);
  exec::Instruction* current = nullptr;
  try {
    for (exec::Instruction& i : p.code) {
      current = &i;
      const auto at = static_cast<std::size_t>(&i - p.code.data());
      if (watcher) watcher->before(at, p);
      exec::execute(i, p.slots, stack);
      if (watcher) watcher->after(at, p);
    }
  } catch (...) {
    rethrow(*current);
  }
  return write_back(p, exec::bounded(exec::evaluate(p.output, p.slots)));
}

std::pair<IValue, std::unique_ptr<exec::Plan>> run_planning(exec::Program& p,
                                                            const exec::Signature& signature,
                                                            exec::Stack& stack,
                                                            const std::vector<IValue>& inputs) {
  SlotGuard guard(p, inputs);
  exec::Instruction* current = nullptr;
  std::unique_ptr<exec::Plan> plan;
  try {
    plan = exec::run_and_plan(p, signature, stack, current);
  } catch (...) {
    rethrow(*current);
  }
  return {write_back(p, exec::bounded(exec::evaluate(p.output, p.slots))), std::move(plan)};
}

using Plans = std::vector<std::unique_ptr<exec::Plan>>;
constexpr std::size_t kPlans = 4;  // each keeps an arena

// The plan for these inputs, moved to the front. Plans whose state was replaced are dropped.
exec::Plan* find_plan(Plans& plans, const exec::Signature& signature,
                      const exec::Program& program) {
  for (std::size_t k = 0; k < plans.size(); ++k) {
    if (!(plans[k]->signature == signature)) continue;
    if (!plans[k]->is_current(program)) {
      plans.clear();
      return nullptr;
    }
    std::rotate(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(k),
                plans.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    return plans[0].get();
  }
  return nullptr;
}

}  // namespace

Executor::Executor(const Model& model, const ExecutorOptions& options)
    : program_(std::make_unique<Program>()) {
  static_cast<exec::Program&>(*program_) = exec::Compiler(model, options.allow_ops).compile();
  program_->stack.reserve(16);
}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

std::uint64_t Executor::revision() const { return program_->revision; }

void Executor::use_plans(bool on) {
  program_->may_plan = on;
  program_->plans.clear();
}
bool Executor::last_run_was_planned() const { return program_->planned; }

// Inputs like those of an earlier run find their plan. Inputs like those of the last run are worth
// one; others, such as shapes that change all the time, are not.
IValue Executor::run(const std::vector<IValue>& inputs) {
  Program& p = *program_;
  check_count(p, inputs);
  const BelowAutograd below_autograd;
  p.planned = false;
  if (!p.may_plan) return run_plainly(p, p.stack, inputs);
  p.current.assign(inputs);
  if (exec::Plan* plan = find_plan(p.plans, p.current, p)) {
    p.planned = true;
    return run_plainly(plan->program, p.stack, inputs);
  }
  bool again = p.current.is_fixed() && p.current == p.previous;
  p.previous = p.current;
  if (!again) return run_plainly(p, p.stack, inputs);
  auto [result, plan] = run_planning(p, p.current, p.stack, inputs);
  p.may_plan = plan != nullptr;
  if (plan) p.plans.insert(p.plans.begin(), std::move(plan));
  if (p.plans.size() > kPlans) p.plans.pop_back();
  return result;
}

IValue exec::run_watched(const Model& model, const std::vector<IValue>& inputs,
                         exec::Watcher& watcher) {
  exec::Program program = exec::Compiler(model).compile();
  check_count(program, inputs);
  const BelowAutograd below_autograd;
  exec::Stack stack;
  return run_plainly(program, stack, inputs, &watcher);
}

IValue run(Model& model, const std::vector<IValue>& inputs) {
  auto* executor = static_cast<Executor*>(model.compiled_.get());
  // A copy of the model shares the executor until one of the two runs.
  if (!executor || executor->revision() != model.revision() || model.compiled_.use_count() > 1) {
    auto made = std::make_shared<Executor>(model);
    executor = made.get();
    model.compiled_ = std::move(made);
  }
  return executor->run(inputs);
}

}  // namespace refx
