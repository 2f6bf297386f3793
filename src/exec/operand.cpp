// SPDX-License-Identifier: Apache-2.0

#include "exec/operand.h"

#include <fmt/format.h>

#include "ir/dict.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx::exec {

OperandKind kind_of(const c10::IValue& v) {
  if (v.isTensor()) return OperandKind::tensor;
  if (v.isNone()) return OperandKind::none;
  if (v.isBool()) return OperandKind::boolean;
  if (v.isInt()) return OperandKind::integer;
  if (v.isDouble()) return OperandKind::floating;
  if (v.isComplexDouble()) return OperandKind::complex;
  if (v.isString()) return OperandKind::string;
  if (v.isDevice()) return OperandKind::device;
  if (v.isList() || v.isTuple()) return OperandKind::sequence;
  return OperandKind::other;
}

OperandKind kind_of(const Operand& operand, const std::vector<c10::IValue>& slots) {
  switch (operand.form) {
    case Operand::Form::slot:
      return operand.kind == OperandKind::unknown ? kind_of(slots[operand.slot]) : operand.kind;
    case Operand::Form::list:
    case Operand::Form::tuple:
      return OperandKind::sequence;
    default:
      return operand.kind;
  }
}

Operand Operand::of_slot(Slot slot, OperandKind kind) {
  Operand o;
  o.form = Form::slot;
  o.kind = kind;
  o.slot = slot;
  return o;
}

Operand Operand::nest(Form form, std::vector<Operand> items) {
  Operand o;
  o.form = form;
  o.kind = form == Form::slice      ? OperandKind::slice
           : form == Form::ellipsis ? OperandKind::ellipsis
           : form == Form::dict     ? OperandKind::other
                                    : OperandKind::sequence;
  o.items = std::move(items);
  return o;
}

bool Operand::has_slots() const {
  bool found = false;
  for_each_slot(*this, [&](Slot) { found = true; });
  return found;
}

namespace {

bool all_tensors(const std::vector<c10::IValue>& values) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](const auto& v) { return v.isTensor(); });
}

c10::IValue make_list(std::vector<c10::IValue> values) {
  c10::TypePtr element = c10::AnyType::get();
  if (all_tensors(values)) element = c10::TensorType::get();
  c10::impl::GenericList list(element);
  for (auto& v : values) list.push_back(std::move(v));
  return list;
}

c10::IValue dict_of(const std::vector<c10::IValue>& flat) {
  if (flat.empty()) return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get());
  std::vector<c10::IValue> values;
  for (std::size_t i = 1; i < flat.size(); i += 2) values.push_back(flat[i]);
  c10::TypePtr element = c10::AnyType::get();
  if (all_tensors(values)) element = c10::TensorType::get();
  return make_dict(flat[0].type(), element, flat);
}

void count_items(const c10::IValue& value, int depth, std::size_t& items) {
  if (!value.isTuple() && !value.isList() && !value.isGenericDict()) return;
  if (depth > limits::kListDepth)
    throw Error(
        fmt::format("lists are nested more than {} deep, which is too deep", limits::kListDepth));
  const auto count = [&](const c10::IValue& item) {
    if (++items > limits::kListItems)
      throw Error(
          fmt::format("a list has more than {} items, those of lists in it included, which is too "
                      "many",
                      limits::kListItems));
    count_items(item, depth + 1, items);
  };
  if (value.isTuple())
    for (const c10::IValue& item : value.toTupleRef().elements()) count(item);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) count(item);
  else
    for (const auto& entry : value.toGenericDict()) count(entry.value());
}

}  // namespace

c10::IValue bounded(c10::IValue value) {
  std::size_t items = 0;
  count_items(value, 1, items);
  return value;
}

c10::IValue evaluate(const Operand& operand, const std::vector<c10::IValue>& slots) {
  using Form = Operand::Form;
  if (operand.form == Form::constant) return operand.constant;
  if (operand.form == Form::slot) return slots[operand.slot];
  if (operand.form == Form::slice || operand.form == Form::ellipsis) {
    throw Error("a slice or '...' is only known as an index of operator.getitem or setitem");
  }
  std::vector<c10::IValue> values;
  values.reserve(operand.items.size());
  for (const Operand& item : operand.items) values.push_back(evaluate(item, slots));
  if (operand.form == Form::tuple) return c10::ivalue::Tuple::create(std::move(values));
  return operand.form == Form::list ? make_list(std::move(values)) : dict_of(values);
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " and " : ", ";
    out += "'" + names[i] + "'";
  }
  return out;
}

}  // namespace refx::exec
