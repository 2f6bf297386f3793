// SPDX-License-Identifier: Apache-2.0

#include "book/effect.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "book/call.h"
#include "book/facts.h"
#include "book/schemas.h"

namespace refx::book {

namespace {

constexpr Effect kWorst{true, true, true};
constexpr Effect kPure{};
constexpr Effect kView{true, false, false};
constexpr Effect kInPlace{true, true, false};

Effect effect_of_schema(const c10::FunctionSchema& schema) {
  Effect effect;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (!alias) continue;
    // Most in-place operators write their first argument. out= and statistics come later.
    if (alias->isWrite()) (i == 0 ? effect.writes_first : effect.writes_all) = true;
    effect.views = true;
  }
  return effect;
}

// Without an overload, the sum of what those do that a call by this name can reach.
Effect effect_of_overloads(std::string_view name) {
  Effect all;
  for (const c10::OperatorHandle& op : overloads(name)) {
    const Effect one = effect_of_schema(op.schema());
    all = {all.views || one.views, all.writes_first || one.writes_first,
           all.writes_all || one.writes_all};
  }
  return overloads(name).empty() ? kWorst : all;
}

bool given(const std::optional<Arg>& arg) { return arg && !arg->is<None>(); }
// Python takes numbers for truth values, and a value that is computed may be anything.
bool may_be_true(const Arg& arg) {
  if (arg.is<None>()) return false;
  if (const bool* truth = arg.get<bool>()) return *truth;
  const auto* number = arg.get<std::int64_t>();
  return !number || *number != 0;
}

bool is_in_place(const Node& node, const Entry& entry) {
  std::size_t position = node.args.size();
  if (entry.function)
    for (std::size_t i = 0; i < entry.function->signature.formals.size(); ++i)
      if (entry.function->signature.formals[i].name == "inplace") position = i;
  const Arg* inplace = argument(node, position, "inplace");
  return inplace && may_be_true(*inplace);
}

// Norms in training write their statistics, and rrelu its noise, which no schema says.
bool writes_silently(const Model& model, const Node& node) {
  const Call call(model, node);
  for (const char* flag : {"training", "use_input_stats"}) {
    if (!call.takes(flag)) continue;
    const auto value = call.argument(flag);
    if (value && !may_be_true(*value)) return false;
    return !call.takes("running_mean") || given(call.argument("running_mean")) ||
           given(call.argument("running_var"));
  }
  return false;
}

Effect effect_of_module(const Model& model, const Node& node) {
  const ModuleId id = model.modules().find(node.target);
  if (!id) return kWorst;
  const Module& module = model.modules()[id];
  // A module of somebody else, or one whose forward was replaced, may do anything.
  if (!module.custom.empty() || !module.type.starts_with("torch.nn.")) return kWorst;
  if (const Arg* inplace = parameter(module, "inplace"); inplace && may_be_true(*inplace))
    return kInPlace;
  const LayerFacts* layer = find_layer(module.type);
  return layer && has(layer->op, kMayAlias) ? kView : kPure;
}

Effect effect_of_python(std::string_view space, std::string_view name) {
  // Numbers are values in Python.
  if (space == "math") return kPure;
  if (name == "getitem") return kView;
  if (name == "setitem") return kInPlace;
  // operator.iadd, operator.imul, …: in place; operator.invert, operator.index are not.
  if (name.size() > 3 && name[0] == 'i' && name != "invert" && name != "index" && name != "is_" &&
      name != "is_not" && name != "inv")
    return kInPlace;
  return kPure;
}

}  // namespace

Effect effect_of(const Entry& entry, bool method) {
  using Kind = Target::Kind;
  const Target& parts = entry.parts;
  Effect effect;
  if (method) {
    effect = effect_of_overloads(entry.target);
  } else if (parts.kind == Kind::python) {
    effect = effect_of_python(parts.space, parts.name);
  } else if (parts.space == "torch.nn.init") {
    effect = kInPlace;
  } else if (parts.kind == Kind::builtin) {
    // max(a, b) and getattr hand an argument through; a builtin that the book does not know may
    // write.
    effect = has(parts.name, kPythonFunction) ? kView : kWorst;
  } else if (parts.is_op()) {
    effect = entry.schema ? effect_of_schema(*entry.schema) : kWorst;
  } else if (parts.kind == Kind::packet && !parts.is_aten()) {
    effect = kWorst;
  } else if (parts.kind == Kind::other) {
    effect = kWorst;
  } else if (entry.function && entry.function->schema) {
    effect = effect_of_schema(*entry.function->schema);
  } else {
    effect = effect_of_overloads(parts.name);
  }
  if (entry.facts & kMayAlias) effect.views = true;
  return entry.name == "detach_" ? kView : effect;  // it lets go of a gradient, not of values
}

Effect effect_of(const Model& model, const Node& node) {
  if (node.op == Opcode::call_module) return effect_of_module(model, node);
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return kPure;
  const Entry& entry = look_up(node);
  if (is_in_place(node, entry)) return kInPlace;
  // The schema says nothing of it, so that every argument counts as written.
  if ((entry.facts & kWritesSilently) && writes_silently(model, node)) return kWorst;
  // out= may alias any argument.
  if (const Arg* out = argument(node, node.args.size(), "out"); out && !out->is<None>())
    return kWorst;
  return entry.effect;
}

bool views_first_only(const Model& model, const Node& node, const Effect& effect) {
  return effect.writes_first && !effect.writes_all && name_of_call(model, node) != "set_";
}

bool may_draw_numbers(const Entry& entry) {
  for (const c10::OperatorHandle& op : overloads(entry.name))
    if (op.hasTag(at::Tag::nondeterministic_seeded)) return true;
  return false;
}

namespace {

bool is_zero(const std::optional<Arg>& arg) {
  if (!arg) return false;
  if (const auto* integer = arg->get<std::int64_t>()) return *integer == 0;
  return arg->get<double>() && *arg->get<double>() == 0;
}

bool is_off(const Call& call, const char* flag) {
  if (!call.takes(flag)) return false;
  const auto value = call.argument(flag);
  return value && !may_be_true(*value);
}

// What could draw random numbers with other arguments.
bool is_quiet(const Call& call) {
  // dropout takes `train`, and most others `training`.
  for (const char* flag : {"train", "training"})
    if (is_off(call, flag)) return true;
  // With a probability of zero, nothing is drawn that could change a value.
  for (const char* chance : {"p", "dropout_p", "dropout"})
    if (call.takes(chance) && is_zero(call.argument(chance))) return true;
  return false;
}

bool shows_fresh_memory(std::string_view name) {
  return name.starts_with("empty") || name.starts_with("new_empty");
}

std::optional<Reason> why_not_repeatable_module(const Model& model, const Node& node) {
  const Call call(model, node);
  if (!call.module() || !call.module()->custom.empty() || call.spelled() != Call::Spelled::module)
    return because<ReasonId::unknown_operation>();
  const LayerFacts& layer = *find_layer(call.module()->type);
  if (call.module()->training && has(layer.op, kWritesSilently))
    return because<ReasonId::keeps_statistics>();
  for (const c10::OperatorHandle& op : overloads(layer.op))
    if (op.hasTag(at::Tag::nondeterministic_seeded) && !is_quiet(call))
      return because<ReasonId::draws_random_numbers>();
  return {};
}

}  // namespace

std::optional<Reason> why_not_repeatable(const Model& model, const Node& node) {
  const Effect effect = effect_of(model, node);
  if (node.op == Opcode::call_module) {
    if (auto why = why_not_repeatable_module(model, node)) return why;
  } else {
    const Entry& entry = look_up(node);
    const bool op = entry.parts.is_op() || entry.parts.kind == Target::Kind::packet;
    if (entry.name.empty() || (op && !entry.parts.is_aten()))
      return because<ReasonId::unknown_operation>();
    if (entry.schema && entry.schema->returns().empty()) return because<ReasonId::no_result>();
    if (shows_fresh_memory(entry.name)) return because<ReasonId::uninitialized_memory>();
    if (entry.draws && !is_quiet(Call(model, node)))
      return because<ReasonId::draws_random_numbers>();
  }
  if (effect.writes_first || effect.writes_all) return because<ReasonId::may_write_arguments>();
  return std::nullopt;
}

}  // namespace refx::book
