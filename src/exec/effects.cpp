#include "exec/effects.h"

#include <ATen/core/Tensor.h>

#include "exec/indexing.h"
#include "exec/python_ops.h"
#include "exec/resize.h"

namespace refx::exec {
namespace {

bool is_mask(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return false;
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
Effect index_effect(const Operand& index, const Values& slots) {
  Effect effect = Effect::view;
  for_each_slot(index, [&](Slot s) {
    if (!slots[s].isTensor()) return;
    const at::Tensor& t = slots[s].toTensor();
    bool by_position = t.scalar_type() == at::kLong && t.dim() > 0;
    if (!by_position) effect = Effect::unplanned;
    if (effect == Effect::view) effect = Effect::compute;
  });
  return effect;
}

Effect native_effect(const Instruction& i, const Values& slots) {
  if (i.native == setitem) return Effect::write;
  if (i.native == interpolate) return Effect::compute;
  if (i.native == getitem) {
    bool tensor_base = i.args[0].form == Operand::Form::slot && slots[i.args[0].slot].isTensor();
    if (!tensor_base) return Effect::view;
    return index_effect(i.args[1], slots);
  }
  if (reads_metadata_only(i.native)) return Effect::shape;
  if (i.native == get_attribute) return Effect::view;
  return any_tensor(i, slots) ? Effect::unplanned : Effect::shape;
}

bool has_any_tag(const c10::OperatorHandle& op, std::initializer_list<at::Tag> tags) {
  return std::any_of(tags.begin(), tags.end(), [&](at::Tag t) { return op.hasTag(t); });
}

// Composite operators that return their input where they can, which their schemas do not say.
bool may_return_input(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"aten::reshape",
                                                             "aten::contiguous",
                                                             "aten::to",
                                                             "aten::flatten",
                                                             "aten::dropout",
                                                             "aten::type_as",
                                                             "aten::view_as",
                                                             "aten::reshape_as",
                                                             "aten::feature_dropout",
                                                             "aten::alpha_dropout",
                                                             "aten::feature_alpha_dropout",
                                                             "aten::_unsafe_view",
                                                             "aten::resolve_conj",
                                                             "aten::resolve_neg",
                                                             "aten::lift_fresh"};
  return names.count(name) != 0;
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

// Composite operators whose result's shape depends on contents, which their tags do not say.
bool shape_from_contents(const c10::OperatorName& op) {
  static const std::unordered_set<std::string_view> names = {
      "aten::argwhere",     "aten::nonzero_numpy", "aten::one_hot",     "aten::tensor_split",
      "aten::combinations", "aten::ctc_loss",      "aten::pad_sequence"};
  return names.count(op.name) != 0 || (op.name == "aten::where" && op.overload_name.empty());
}

bool annotated_view(const c10::FunctionSchema& schema) {
  for (const auto& r : schema.returns()) {
    if (!r.alias_info() || r.alias_info()->isWrite()) return false;
  }
  return !schema.returns().empty();
}

}  // namespace

Effect effect_of(const Instruction& i, const Values& slots) {
  if (i.native) return native_effect(i, slots);
  const auto& op = *i.op;
  const auto& schema = op.schema();
  const std::string& name = op.operator_name().name;
  if (name.rfind("aten::", 0) != 0) return Effect::unplanned;
  using at::Tag;
  if (has_any_tag(op, {Tag::data_dependent_output, Tag::inplace_view})) return Effect::unplanned;
  if (shape_from_contents(op.operator_name()) || reads_number_from_tensor(i, slots)) {
    return Effect::unplanned;
  }
  if (op.hasTag(Tag::dynamic_output_shape)) {
    bool by_numbers = name == "aten::index" && !any_mask(i, slots);
    if (!by_numbers) return Effect::unplanned;
  }
  if (schema.is_mutable()) {
    return name == "aten::set_" || name == "aten::resize_" ? Effect::unplanned : Effect::write;
  }
  if (schema.returns().empty()) return Effect::compute;  // an assertion
  static const std::unordered_set<std::string_view> sizes = {"aten::sym_size",
                                                             "aten::sym_stride",
                                                             "aten::sym_numel",
                                                             "aten::sym_storage_offset",
                                                             "aten::size",
                                                             "aten::stride",
                                                             "aten::numel",
                                                             "aten::dim",
                                                             "aten::is_floating_point",
                                                             "aten::is_complex"};
  if (sizes.count(name)) return Effect::shape;
  if (returns_numbers(schema)) return Effect::unplanned;
  if (annotated_view(schema) || may_return_input(name)) return Effect::view;
  bool random = op.hasTag(Tag::nondeterministic_seeded);
  return any_tensor(i, slots) || random ? Effect::compute : Effect::constant;
}

}  // namespace refx::exec
