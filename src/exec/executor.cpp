// SPDX-License-Identifier: Apache-2.0

#include "refx/executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <mutex>

#include "exec/compile.h"
#include "exec/control_flow.h"
#include "exec/input_checks.h"
#include "exec/own_state.h"
#include "exec/plan.h"
#include "exec/program.h"
#include "exec/watch.h"
#include "refx/error.h"
#include "refx/hint.h"
#include "util/first_line.h"

namespace refx {

using c10::IValue;

// What one run at a time needs.
struct Executor::Frame {
  exec::Program program;
  exec::Stack stack;
  exec::Signature current, previous;
  std::vector<std::unique_ptr<exec::Plan>> plans;  // the latest first
  bool may_plan = true;
};

struct Executor::Program {
  exec::InputChecks checks;
  std::uint64_t revision = 0;
  std::atomic<bool> last_run_was_planned = false;
  // Runs at the same time have a frame each, made from `compiled`. With state, which belongs to the
  // frame, there is one, and runs take turns: whoever borrows it holds the mutex.
  bool has_own_state = false;
  exec::Program compiled;
  std::mutex mutex;                          // guards what follows
  std::vector<std::unique_ptr<Frame>> idle;  // the last used at the end
  std::size_t frames = 0;
  bool may_plan = true;
};

// A frame for as long as this lives.
class Executor::Borrowed {
 public:
  explicit Borrowed(Program& program) : program_(program), turn_(program.mutex) {
    const bool may_plan = program_.may_plan;
    if (program_.idle.empty()) {
      program_.idle.reserve(++program_.frames);  // so that giving back cannot fail
    } else {
      frame_ = std::move(program_.idle.back());
      program_.idle.pop_back();
    }
    if (!program_.has_own_state) turn_.unlock();
    if (frame_) return;
    frame_ = std::make_unique<Frame>();
    frame_->program = exec::separate_copy(program_.compiled);
    // More than most operators have arguments, so that the first run does not grow it.
    frame_->stack.reserve(16);
    frame_->may_plan = may_plan;
  }
  ~Borrowed() {
    if (!turn_.owns_lock()) turn_.lock();
    program_.idle.push_back(std::move(frame_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Frame& operator*() { return *frame_; }
  Frame* operator->() { return frame_.get(); }

 private:
  Program& program_;
  std::unique_lock<std::mutex> turn_;
  std::unique_ptr<Frame> frame_;
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
    // Keep the hint: the program and Python phrase it differently.
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
    // The graph wrote in place and returns the buffer itself.
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

IValue run_code(exec::Program& p, exec::Stack& stack, const std::vector<IValue>& inputs,
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
      // All plans of the frame refer to the same state.
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
  Program& p = *program_;
  p.checks = exec::InputChecks(model);
  p.compiled = exec::Compiler(model, options.allow_ops).compile();
  p.revision = p.compiled.revision;
  p.has_own_state = !p.compiled.own_state.empty();
}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

std::uint64_t Executor::revision() const { return program_->revision; }

void Executor::use_plans(bool on) {
  const std::lock_guard lock(program_->mutex);
  program_->may_plan = on;
  for (const auto& frame : program_->idle) {
    frame->may_plan = on;
    frame->plans.clear();
  }
}
bool Executor::last_run_was_planned() const { return program_->last_run_was_planned; }

// Inputs like those of an earlier run find their plan. Inputs like those of the last run are worth
// one; others, such as shapes that change all the time, are not.
IValue Executor::run_in(Frame& f, const std::vector<IValue>& inputs) {
  program_->last_run_was_planned = false;
  if (!f.may_plan) return run_code(f.program, f.stack, inputs);
  f.current.assign(inputs);
  if (exec::Plan* plan = find_plan(f.plans, f.current, f.program)) {
    program_->last_run_was_planned = true;
    return run_code(plan->program, f.stack, inputs);
  }
  // Planning runs most operators twice and compares results: worth it only if such inputs come
  // again.
  bool again = f.current.is_fixed() && f.current == f.previous;
  f.previous = f.current;
  if (!again) return run_code(f.program, f.stack, inputs);
  auto [result, plan] = run_planning(f.program, f.current, f.stack, inputs);
  // A graph that cannot be planned once is not tried again.
  f.may_plan = plan != nullptr;
  if (plan) f.plans.insert(f.plans.begin(), std::move(plan));
  if (f.plans.size() > kPlans) f.plans.pop_back();
  return result;
}

void Executor::check(const std::vector<IValue>& inputs) const {
  check_count(program_->compiled, inputs);
  program_->checks.check(inputs);
}

IValue Executor::run(const std::vector<IValue>& inputs) {
  check(inputs);
  Borrowed frame(*program_);
  exec::make_own_state(frame->program);
  const BelowAutograd below_autograd;
  return run_in(*frame, inputs);
}

IValue exec::run_program(exec::Program& program, exec::Stack& stack, const Values& inputs) {
  check_count(program, inputs);
  return run_code(program, stack, inputs);
}

IValue exec::run_watched(Executor& executor, const std::vector<IValue>& inputs,
                         exec::Watcher& watcher) {
  executor.check(inputs);
  Executor::Borrowed frame(*executor.program_);
  exec::make_own_state(frame->program);
  const BelowAutograd below_autograd;
  return run_code(frame->program, frame->stack, inputs, &watcher);
}

std::vector<std::pair<std::string, at::Tensor>> Executor::state() {
  std::vector<std::pair<std::string, at::Tensor>> all;
  if (!program_->has_own_state) return all;
  Borrowed frame(*program_);
  exec::make_own_state(frame->program);
  for (const auto& own : frame->program.own_state)
    if (own.written) all.emplace_back(own.name, frame->program.slots[own.slot].toTensor());
  return all;
}

void Executor::reset_state() {
  if (!program_->has_own_state) return;
  Borrowed frame(*program_);
  exec::reset_own_state(frame->program);
}

namespace {

// Guards Model::executor_ of all models. It is never held while a model is compiled or run, so that
// one mutex is enough.
std::mutex executor_mutex;

}  // namespace

// Compiles outside the lock. Of two threads that do, the second takes what the first has made: a
// model has one state.
IValue run(Model& model, const std::vector<IValue>& inputs) {
  const auto current = [&]() -> std::shared_ptr<Executor> {
    const auto& executor = model.executor_;
    return executor && executor->revision() == model.revision() ? executor : nullptr;
  };
  std::unique_lock lock(executor_mutex);
  std::shared_ptr<Executor> executor = current();
  if (!executor) {
    lock.unlock();
    auto made = std::make_shared<Executor>(model);
    lock.lock();
    executor = current();
    if (!executor) model.executor_ = executor = std::move(made);
  }
  lock.unlock();
  return executor->run(inputs);
}

}  // namespace refx
