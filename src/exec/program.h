// SPDX-License-Identifier: Apache-2.0
#pragma once

// exec/: compiles a graph to a flat list of operator calls and runs it, with the numerics of eager
// PyTorch. After two runs of one shape results go into memory that was planned.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "book/higher_order.h"
#include "exec/convert_argument.h"
#include "exec/guard.h"
#include "exec/operand.h"
#include "refx/executor.h"

namespace refx::exec {

// What a graph is compiled to: a flat list of instructions over slots.

using Values = std::vector<c10::IValue>;
using Stack = std::vector<c10::IValue>;

// One argument of an operator: where it comes from and what the schema wants of it.
struct Input {
  enum class From : std::uint8_t { constant, slot, nest };

  From from = From::constant;
  Want want = Want::other;
  bool take = false;  // the last use of the slot: its value moves into the call
  Slot slot = 0;
  c10::IValue constant;
  Operand nest;
  const c10::Argument* argument = nullptr;  // of the operator's schema, which lives as long as it
};

struct ControlFlow;
struct Instruction;

// The operands of a call that is no operator of the dispatcher: Python's own functions.
class NativeCall {
 public:
  NativeCall(const Instruction& instruction, const Values& slots)
      : instruction_(instruction), slots_(slots) {}

  std::size_t size() const;
  const Operand& operand(std::size_t i) const;
  bool has(std::size_t i) const { return i < size(); }
  c10::IValue value(const Operand& o) const { return evaluate(o, slots_); }
  c10::IValue operator[](std::size_t i) const { return evaluate(operand(i), slots_); }
  at::Tensor tensor(std::size_t i) const;  // throws Error for anything else

 private:
  const Instruction& instruction_;
  const Values& slots_;
};
using Native = c10::IValue (*)(const NativeCall&);

// Chooses what a late-bound instruction calls, now that its operands have values.
using Bind = void (*)(Instruction&, const Values& slots);

// One call. It has an operator, or a native function, or subgraphs to call, or (in the module
// dialect, where names say less than schemas) a `bind` that chooses one when the kinds of the
// operands are first seen.
struct Instruction {
  std::string node, target;  // for messages
  std::optional<c10::OperatorHandle> op;
  std::vector<Input> inputs;
  Native native = nullptr;
  std::shared_ptr<ControlFlow> control_flow;  // shared with the plans of the same executor
  std::optional<book::Autocast> autocast;     // under which it is called
  Bind bind = nullptr;
  std::string name;  // what `bind` looks up
  std::vector<Operand> args;
  NamedOperands kwargs;
  std::vector<OperandKind> bound;  // the kinds that `bind` last saw

  Slot result = 0;
  std::uint32_t results = 1;    // more: one slot each from `result` on; none: nobody wants it
  std::vector<Slot> last_uses;  // slots that nobody reads after this
  std::vector<Slot> release;    // those of them that are not taken
  Guard guard = nullptr;        // of the operator
  bool by_table = false;        // see Policy::is_by_table
  bool writes = false;          // the schema says that it writes into an argument
};

struct Program {
  std::vector<Instruction> code;
  Values slots;  // state entries in place, everything else empty between runs
  struct UserInput {
    std::string name;
    Slot slot;
  };
  std::vector<UserInput> user_inputs;
  std::vector<Slot> state_slots;
  std::vector<Slot> transient;  // all the others
  // State that a run may write: from the first run on, its slots hold copies.
  struct OwnState {
    Slot slot;
    std::string name;
    at::Tensor initial;  // the model's
    bool written;        // false: it only shares memory with one that is
  };
  std::vector<OwnState> own_state;
  bool has_own_state = false;  // the copies are made
  Operand output;
  struct Write {
    std::size_t output;
    Slot target;
  };
  std::vector<Write> mutations;
  std::uint64_t revision = 0;
};

// Calls f(Slot) for every slot the instruction reads, repeats included.
template <class F>
void for_each_read(const Instruction& i, F&& f) {
  for (const Input& input : i.inputs) {
    if (input.from == Input::From::slot) f(input.slot);
    for_each_slot(input.nest, f);
  }
  for (const Operand& o : i.args) for_each_slot(o, f);
  for (const auto& [name, o] : i.kwargs) for_each_slot(o, f);
}

// Finds where each slot is read last. Outputs, state and slots for which `keep` says so stay.
void find_last_uses(Program& program, const std::function<bool(Slot)>& keep = {});
// Splits last_uses into what inputs take and what is released after the call.
void place_releases(Instruction& instruction);

// Chooses the operator of a late-bound instruction, unless the kinds of its operands are as before.
void bind_if_needed(Instruction& instruction, const Values& slots);
// Runs one instruction against the slots, plainly. `stack` is scratch.
void execute(Instruction& instruction, Values& slots, Stack& stack);
// Runs all of them on these user inputs; returns what the program returns.
c10::IValue run_program(Program& program, Stack& stack, const Values& inputs);

}  // namespace refx::exec
