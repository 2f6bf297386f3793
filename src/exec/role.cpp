// SPDX-License-Identifier: Apache-2.0

#include "exec/role.h"

#include <ATen/core/Tensor.h>

#include "book/facts.h"
#include "exec/grouped_mm.h"
#include "exec/indexing.h"
#include "exec/python_ops.h"
#include "exec/resize.h"

namespace refx::exec {
namespace {

bool is_mask(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return false;
  // uint8 indexes as a mask, as it did before torch had bool.
  return v.toTensor().scalar_type() == at::kBool || v.toTensor().scalar_type() == at::kByte;
}

template <class F>
void for_each_input_value(const Instruction& i, const Values& slots, F&& f) {
  for (const Input& input : i.inputs) {
    if (input.from == Input::From::slot) f(slots[input.slot]);
    for_each_slot(input.nest, [&](Slot s) { f(slots[s]); });
  }
  if (i.native) {
    for (const Operand& o : i.args) for_each_slot(o, [&](Slot s) { f(slots[s]); });
  }
}

bool has_tensor(const c10::IValue& v) {
  if (v.isTensor()) return true;
  if (v.isTensorList()) return true;
  if (v.isTuple()) {
    const auto& items = v.toTupleRef().elements();
    return std::any_of(items.begin(), items.end(), has_tensor);
  }
  if (v.isList()) {
    auto items = v.toListRef();
    return std::any_of(items.begin(), items.end(), has_tensor);
  }
  return false;
}

bool any_tensor(const Instruction& i, const Values& slots) {
  bool found = false;
  for_each_input_value(i, slots, [&](const c10::IValue& v) { found |= has_tensor(v); });
  return found;
}

bool any_mask(const Instruction& i, const Values& slots) {
  bool found = false;
  for_each_input_value(i, slots, [&](const c10::IValue& v) { found |= is_mask(v); });
  return found;
}

// A mask picks as many elements as it likes, and a number in a tensor decides where a view lies.
Role index_role(const Operand& index, const Values& slots) {
  Role role = Role::view;
  for_each_slot(index, [&](Slot s) {
    if (!slots[s].isTensor()) return;
    const at::Tensor& t = slots[s].toTensor();
    bool by_position = t.scalar_type() == at::kLong && t.dim() > 0;
    if (!by_position) role = Role::unplanned;
    if (role == Role::view) role = Role::compute;
  });
  return role;
}

Role native_role(const Instruction& i, const Values& slots) {
  if (i.native == setitem) return Role::write;
  if (i.native == interpolate || i.native == grouped_mm || i.native == grouped_mm_fallback)
    return Role::compute;
  if (i.native == getitem) {
    // An item of a tuple or a list is a view of the tensor in it.
    bool tensor_base = i.args[0].form == Operand::Form::slot && slots[i.args[0].slot].isTensor();
    if (!tensor_base) return Role::view;
    return index_role(i.args[1], slots);
  }
  if (reads_metadata_only(i.native)) return Role::shape;
  if (i.native == get_attribute) return Role::view;
  return any_tensor(i, slots) ? Role::unplanned : Role::shape;
}

bool has_any_tag(const c10::OperatorHandle& op, std::initializer_list<at::Tag> tags) {
  return std::any_of(tags.begin(), tags.end(), [&](at::Tag t) { return op.hasTag(t); });
}

bool returns_numbers(const c10::FunctionSchema& schema) {
  for (const auto& r : schema.returns()) {
    auto kind = r.type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) return true;
  }
  return false;
}

// A tensor given for a number: what follows depends on its contents.
bool reads_number_from_tensor(const Instruction& i, const Values& slots) {
  for (const Input& input : i.inputs) {
    if (input.from == Input::From::constant) continue;
    bool wants_tensors = input.argument->type()->str().find("Tensor") != std::string::npos;
    if (wants_tensors) continue;
    bool tensor = input.from == Input::From::slot && has_tensor(slots[input.slot]);
    for_each_slot(input.nest, [&](Slot s) { tensor |= has_tensor(slots[s]); });
    if (tensor) return true;
  }
  return false;
}

bool shape_from_contents(const c10::OperatorName& op, std::uint32_t facts) {
  return (facts & book::kShapeFromContents) ||
         (op.name == "aten::where" && op.overload_name.empty());
}

bool annotated_view(const c10::FunctionSchema& schema) {
  for (const auto& r : schema.returns()) {
    if (!r.alias_info() || r.alias_info()->isWrite()) return false;
  }
  return !schema.returns().empty();
}

}  // namespace

Role role_of(const Instruction& i, const Values& slots) {
  // Which body runs, and how often, depends on values.
  if (i.control_flow) return Role::unplanned;
  if (i.native) return native_role(i, slots);
  const auto& op = *i.op;
  const auto& schema = op.schema();
  const std::string& name = op.operator_name().name;
  constexpr std::string_view kAten = "aten::";
  // Of other libraries' operators the book knows no facts.
  if (!name.starts_with(kAten)) return Role::unplanned;
  const std::uint32_t facts = book::facts_of(std::string_view(name).substr(kAten.size()));
  using at::Tag;
  if (has_any_tag(op, {Tag::data_dependent_output, Tag::inplace_view})) return Role::unplanned;
  if (shape_from_contents(op.operator_name(), facts) || reads_number_from_tensor(i, slots)) {
    return Role::unplanned;
  }
  if (op.hasTag(Tag::dynamic_output_shape)) {
    // index has that tag for the sake of masks. With integers the size of the result is known.
    bool by_numbers = name == "aten::index" && !any_mask(i, slots);
    if (!by_numbers) return Role::unplanned;
  }
  if (schema.is_mutable()) {
    // These change which memory a tensor has, or how much.
    return name == "aten::set_" || name == "aten::resize_" ? Role::unplanned : Role::write;
  }
  if (schema.returns().empty()) return Role::compute;  // an assertion
  if (facts & book::kReadsSizes) return Role::shape;
  if (returns_numbers(schema)) return Role::unplanned;
  if (annotated_view(schema) || (facts & book::kMayAlias)) return Role::view;
  // A random operator without tensors, such as rand, is no constant.
  bool random = op.hasTag(Tag::nondeterministic_seeded);
  return any_tensor(i, slots) || random ? Role::compute : Role::constant;
}

}  // namespace refx::exec
