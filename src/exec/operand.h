// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "refx/arg.h"

namespace refx::exec {

// The arguments of instructions.

using Slot = std::uint32_t;

// What Python would call a value. An IValue keeps dtypes, layouts and memory formats as plain ints,
// and overloads differ by them, so the compiler remembers what a value is.
enum class OperandKind : std::uint8_t {
  unknown,
  none,
  boolean,
  integer,
  floating,
  complex,
  string,
  dtype,
  layout,
  memory_format,
  device,
  tensor,
  sequence,
  slice,
  ellipsis,
  other,
};
OperandKind kind_of(const c10::IValue& value);

// An argument as the program holds it: a constant, the value of a slot, or a nest with slots in it.
struct Operand {
  enum class Form : std::uint8_t { constant, slot, list, tuple, slice, dict, ellipsis };

  Form form = Form::constant;
  OperandKind kind = OperandKind::none;  // a slot's is unknown, unless the compiler can tell
  Slot slot = 0;
  c10::IValue constant;
  std::vector<Operand> items;  // dict: key, value, key, value …

  Operand() = default;
  Operand(c10::IValue value, OperandKind kind) : kind(kind), constant(std::move(value)) {}
  Operand(bool v) : Operand(c10::IValue(v), OperandKind::boolean) {}
  Operand(int v) : Operand(c10::IValue(v), OperandKind::integer) {}
  Operand(std::int64_t v) : Operand(c10::IValue(v), OperandKind::integer) {}
  Operand(double v) : Operand(c10::IValue(v), OperandKind::floating) {}
  Operand(const char* v) : Operand(c10::IValue(v), OperandKind::string) {}
  static Operand of_slot(Slot slot, OperandKind kind = OperandKind::unknown);
  static Operand nest(Form form, std::vector<Operand> items);

  bool is_none() const { return form == Form::constant && constant.isNone(); }
  bool has_slots() const;
  bool is_sequence() const { return form == Form::list || form == Form::tuple; }
};

template <class F>
void for_each_slot(const Operand& operand, F&& f) {
  if (operand.form == Operand::Form::slot) f(operand.slot);
  for (const Operand& item : operand.items) for_each_slot(item, f);
}

using NamedOperands = std::vector<std::pair<std::string, Operand>>;

// The value of an operand; slots are looked up in `slots`. Throws Error for a slice or an ellipsis.
c10::IValue evaluate(const Operand& operand, const std::vector<c10::IValue>& slots);
// The value, which was made of others. Throws Error if it is too deep or too large to be walked.
c10::IValue bounded(c10::IValue value);
// The kind of an operand when the slots are filled.
OperandKind kind_of(const Operand& operand, const std::vector<c10::IValue>& slots);

// "a", "b" and "c", for messages.
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace refx::exec
