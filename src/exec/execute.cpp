// SPDX-License-Identifier: Apache-2.0

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include "exec/control_flow.h"
#include "exec/program.h"
#include "refx/error.h"

namespace refx::exec {
namespace {

using c10::IValue;

// A last use that is not taken by an input is released after the call. Results nobody reads are
// too.
std::size_t references(const Instruction& i, Slot slot) {
  std::size_t n = 0;
  auto count = [&](Slot s) { n += s == slot; };
  for (const Input& input : i.inputs) {
    if (input.from == Input::From::slot) count(input.slot);
    for_each_slot(input.nest, count);
  }
  return n;
}

IValue fitted(const IValue& value, const Input& input) {
  auto converted = convert(value, *input.argument);
  if (!converted) {
    throw Error("argument '" + input.argument->name() + "' expects " +
                input.argument->real_type()->str() + ", got " + value.tagKind());
  }
  return std::move(*converted);
}

void push(const Input& input, Values& slots, Stack& stack) {
  switch (input.from) {
    case Input::From::constant:
      stack.push_back(input.constant);
      return;
    case Input::From::slot: {
      IValue& value = slots[input.slot];
      if (!fits(value, input.want)) [[unlikely]] {
        stack.push_back(fitted(value, input));
      } else if (input.take) {
        // The last use: the operator may free or reuse the memory while it runs.
        stack.push_back(std::move(value));
      } else {
        stack.push_back(value);
      }
      return;
    }
    case Input::From::nest:
      stack.push_back(fitted(evaluate(input.nest, slots), input));
      return;
  }
}

// Autograd, which we run below of, would have counted the write: others rely on the count.
void count_writes(const Instruction& i, const Stack& stack) {
  for (std::size_t k = 0; k < i.inputs.size(); ++k) {
    const auto* alias = i.inputs[k].argument->alias_info();
    if (!alias || !alias->isWrite() || !stack[k].isTensor()) continue;
    const at::Tensor& written = stack[k].toTensor();
    if (written.defined() && !written.is_inference()) written.unsafeGetTensorImpl()->bump_version();
  }
}

void store_results(const Instruction& i, Values& slots, Stack& stack) {
  if (i.results == 0) return;
  if (i.results > 1) {
    for (std::uint32_t k = 0; k < i.results; ++k) slots[i.result + k] = std::move(stack[k]);
  } else if (stack.size() == 1) {
    slots[i.result] = std::move(stack[0]);
  } else if (stack.empty()) {
    slots[i.result] = IValue();
  } else {
    slots[i.result] = c10::ivalue::Tuple::create(std::move(stack));
  }
}

template <class F>
void for_each_operand(const Instruction& i, F&& f) {
  for (const Operand& o : i.args) f(o);
  for (const auto& [name, o] : i.kwargs) f(o);
}

// An overload is chosen again only if an operand has another kind than in the last run.
bool is_bound(const Instruction& i, const Values& slots) {
  if (!i.bind) return true;
  if (i.bound.empty()) return false;
  std::size_t k = 0;
  bool same = true;
  for_each_operand(i, [&](const Operand& o) { same &= i.bound[k++] == kind_of(o, slots); });
  return same;
}

void bind_late(Instruction& i, const Values& slots) {
  i.bind(i, slots);
  i.bound.clear();
  for_each_operand(i, [&](const Operand& o) { i.bound.push_back(kind_of(o, slots)); });
  place_releases(i);
}

}  // namespace

// Walks backwards: the first use met is the last one.
void find_last_uses(Program& program, const std::function<bool(Slot)>& keep) {
  std::vector<bool> used(program.slots.size(), false);
  auto mark = [&](Slot s) { used[s] = true; };
  for_each_slot(program.output, mark);
  // Outputs, state and mutated inputs are read after the last instruction.
  for (Slot s : program.state_slots) mark(s);
  for (const auto& m : program.mutations) mark(m.target);
  for (Slot s = 0; keep && s < used.size(); ++s) used[s] = used[s] || keep(s);
  for (auto it = program.code.rbegin(); it != program.code.rend(); ++it) {
    it->last_uses.clear();
    auto visit = [&](Slot s) {
      if (used[s]) return;
      used[s] = true;
      it->last_uses.push_back(s);
    };
    for (std::uint32_t k = 0; k < it->results; ++k) visit(it->result + k);
    for_each_read(*it, visit);
    place_releases(*it);
  }
}

std::size_t NativeCall::size() const { return instruction_.args.size(); }
const Operand& NativeCall::operand(std::size_t i) const {
  if (i >= size()) throw Error("argument " + std::to_string(i + 1) + " is missing");
  return instruction_.args[i];
}

at::Tensor NativeCall::tensor(std::size_t i) const {
  c10::IValue value = (*this)[i];
  if (!value.isTensor())
    throw Error("argument " + std::to_string(i + 1) + " expects a tensor, got " + value.tagKind());
  return std::move(value).toTensor();
}

void place_releases(Instruction& i) {
  i.release.clear();
  for (Slot slot : i.last_uses) {
    bool taken = false;
    // A value that is passed twice cannot be moved into the first of its arguments.
    if (references(i, slot) == 1) {
      for (Input& input : i.inputs) {
        bool here = input.from == Input::From::slot && input.slot == slot;
        if (here) taken = input.take = true;
      }
    }
    bool result = slot >= i.result && slot < i.result + i.results;
    if (!taken || result) i.release.push_back(slot);
  }
}

void bind_if_needed(Instruction& i, const Values& slots) {
  if (!is_bound(i, slots)) bind_late(i, slots);
}

namespace {

// torch.autocast around one call, without its cache of converted weights.
class AutocastGuard {
 public:
  explicit AutocastGuard(const book::Autocast& wanted)
      : device_(wanted.device),
        enabled_(at::autocast::is_autocast_enabled(device_)),
        cache_(at::autocast::is_autocast_cache_enabled()),
        dtype_(at::autocast::get_autocast_dtype(device_)) {
    at::autocast::set_autocast_enabled(device_, wanted.enabled);
    at::autocast::set_autocast_cache_enabled(false);
    if (wanted.dtype != at::ScalarType::Undefined)
      at::autocast::set_autocast_dtype(device_, wanted.dtype);
  }
  ~AutocastGuard() {
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_cache_enabled(cache_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_, cache_;
  at::ScalarType dtype_;
};

}  // namespace

void execute(Instruction& i, Values& slots, Stack& stack) {
  std::optional<AutocastGuard> autocast;
  if (i.autocast) [[unlikely]]
    autocast.emplace(*i.autocast);
  if (i.bind) bind_if_needed(i, slots);
  if (i.control_flow) {
    slots[i.result] = bounded(run_control_flow(*i.control_flow, NativeCall(i, slots)));
  } else if (i.native) {
    // Lists that Python code makes may grow without limit, unlike results of operators.
    slots[i.result] = bounded(i.native(NativeCall(i, slots)));
  } else {
    stack.clear();
    for (const Input& input : i.inputs) push(input, slots, stack);
    // Guards and limits come before the call: an operator with bad arguments may crash the process.
    if (i.guard) i.guard(i.op->schema(), stack);
    if (i.writes) count_writes(i, stack);
    i.op->callBoxed(stack);
    // Operators that follow in the table trust that their inputs are dense, see guard.h.
    if (i.by_table) require_dense(stack);
    store_results(i, slots, stack);
  }
  for (Slot slot : i.release) slots[slot] = IValue();
}

}  // namespace refx::exec
