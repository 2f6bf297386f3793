// SPDX-License-Identifier: Apache-2.0

#include "book/call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "book/facts.h"
#include "book/schemas.h"

namespace refx::book {

namespace {

struct Hash {
  using is_transparent = void;
  std::size_t operator()(const NameKey& target) const { return target.hash(); }
};
using Entries = std::unordered_map<Name, std::unique_ptr<Entry>, Hash, std::equal_to<>>;

std::unique_ptr<Entry> read_entry(const std::string& target, bool method) {
  auto entry = std::make_unique<Entry>();
  entry->target = target;
  if (method) {
    entry->name = aten_name(target);
  } else {
    entry->parts = parse_target(entry->target);
    const Target& parts = entry->parts;
    const bool op = parts.is_op() || parts.kind == Target::Kind::packet;
    if (parts.kind == Target::Kind::python)
      entry->name = parts.space == "operator" ? aten_name_of_python(parts.name) : parts.name;
    else if (parts.kind != Target::Kind::other && (!op || parts.is_aten()))
      entry->name = aten_name(parts.name);
    entry->schema = find_schema(entry->parts);
    if (entry->parts.kind == Target::Kind::functional) {
      entry->function = find_function(entry->parts.name);
      // dropout2d is aten's feature_dropout, for example.
      if (entry->function) entry->name = entry->function->op;
    }
  }
  entry->facts = facts_of(entry->name);
  entry->effect = effect_of(*entry, method);
  entry->draws = may_draw_numbers(*entry);
  return entry;
}

// Whether the two name one argument. "self" is also what torch calls "input" in some operators.
bool same_argument(std::string_view given, std::string_view formal) {
  return given == formal || aten_argument(given) == formal ||
         (given == "self" && formal == "input");
}

// Whether a call with these arguments can mean this overload, by their number and names.
bool may_mean(const c10::FunctionSchema& schema, const Node& node) {
  const auto& formals = schema.arguments();
  const auto positions = std::count_if(formals.begin(), formals.end(),
                                       [](const auto& formal) { return !formal.kwarg_only(); });
  // Positional arguments cannot reach keyword-only ones.
  if (static_cast<std::ptrdiff_t>(node.args.size()) > positions) return false;
  auto is_named = [&](const c10::Argument& formal) {
    return std::any_of(node.kwargs.begin(), node.kwargs.end(), [&](const auto& kwarg) {
      return same_argument(kwarg.first, formal.name());
    });
  };
  for (std::size_t i = node.args.size(); i < formals.size(); ++i)
    if (!formals[i].default_value() && !is_named(formals[i])) return false;
  return std::all_of(node.kwargs.begin(), node.kwargs.end(), [&](const auto& kwarg) {
    return kwarg.first == "out" ||  // any can be told where to write
           std::any_of(formals.begin(), formals.end(), [&](const auto& formal) {
             return same_argument(kwarg.first, formal.name());
           });
  });
}

}  // namespace

std::optional<Arg> arg_of(const c10::IValue& value) {
  if (value.isNone()) return Arg(None{});
  if (value.isBool()) return Arg(value.toBool());
  if (value.isInt()) return Arg(value.toInt());
  if (value.isDouble()) return Arg(value.toDouble());
  if (value.isString()) return Arg(value.toStringRef());
  if (!value.isList()) return std::nullopt;
  List list;
  for (const c10::IValue& item : value.toListRef()) {
    auto arg = arg_of(item);
    if (!arg) return std::nullopt;
    list.items.push_back(std::move(*arg));
  }
  return Arg(std::move(list));
}

const Entry& look_up(const Node& node) {
  // One for each thread: no lock. What is not registered may be later, and is looked up again.
  thread_local Entries functions, methods;
  const bool method = node.op == Opcode::call_method;
  Entries& entries = method ? methods : functions;
  auto it = entries.find(node.target);
  if (it == entries.end()) it = entries.emplace(node.target, read_entry(node.target, method)).first;
  Entry& entry = *it->second;
  if (entry.parts.is_op() && !entry.schema && (entry.schema = find_schema(entry.parts))) {
    entry.effect = effect_of(entry, method);
    entry.draws = may_draw_numbers(entry);
  }
  return entry;
}

Call::Call(const Model& model, const Node& node) : model_(&model), node_(&node) {
  if (node.op == Opcode::call_module) {
    const ModuleId id = model.modules().find(node.target);
    if (!id) return;
    module_ = &model.modules()[id];
    layer_ = find_layer(module_->type);
    if (!layer_) return;
    spelled_ = Spelled::module;
    name_ = layer_->op;
    return;
  }
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return;
  entry_ = &look_up(node);
  if (entry_->name.empty()) return;
  spelled_ = node.op == Opcode::call_method ? Spelled::method
             : entry_->parts.is_op()        ? Spelled::op
                                            : Spelled::function;
  name_ = entry_->name;
}

std::uint32_t Call::facts() const {
  return entry_ ? entry_->facts : layer_ ? facts_of(layer_->op) : 0;
}

const Operation* Call::operation() const {
  if (layer_) return &layer_->operation;
  return entry_ && entry_->function ? &entry_->function->operation : nullptr;
}

const c10::FunctionSchema* Call::schema() const {
  // Kept: finding an overload compares the arguments of all of them.
  if (schema_ || spelled_ == Spelled::nothing) return schema_;
  if (layer_) return layer_->schema;
  if (entry_->function) return entry_->function->schema;
  if (entry_->schema) return schema_ = entry_->schema;
  // The first that fits, in a fixed order. The kinds of the arguments are not compared: callers
  // read only names and defaults from the schema.
  for (const c10::OperatorHandle& overload : overloads(name_))
    if (may_mean(overload.schema(), *node_)) return schema_ = &overload.schema();
  return nullptr;
}

std::optional<std::size_t> Call::position(std::string_view name) const {
  const c10::FunctionSchema* schema = this->schema();
  if (!schema) return std::nullopt;
  for (std::size_t i = 0; i < schema->arguments().size(); ++i)
    if (same_argument(name, schema->arguments()[i].name())) return i;
  return std::nullopt;
}

// What stands for a name of the signature of a function or layer.
std::optional<Arg> Call::by_name(const std::string& name) const {
  const Signature& inputs = layer_ ? layer_->inputs : entry_->function->signature;
  for (std::size_t i = 0; i < inputs.formals.size(); ++i) {
    if (inputs.formals[i].name != name) continue;
    const Arg* given = refx::argument(*node_, i, name);
    return given ? *given : inputs.formals[i].default_value;
  }
  if (!layer_) return std::nullopt;
  // No hyper-parameter: a layer has it as a mode.
  if (name == "training") return Arg(module_->training);
  // A model need not record hyper-parameters that have their default.
  if (const Arg* given = parameter(*module_, name)) return *given;
  for (const Signature::Formal& formal : layer_->parameters.formals)
    if (formal.name == name) return formal.default_value;
  return std::nullopt;
}

std::optional<Arg> Call::argument(std::string_view name) const {
  const auto at = position(name);
  if (!at) return std::nullopt;
  const c10::Argument& formal = schema()->arguments()[*at];
  if (const Operation* of = operation()) {
    // Where a function or layer is another call of the operator, its notation says what is passed.
    // What it leaves out has the schema's default.
    if (*at < of->actuals.size()) {
      const Operation::Actual& actual = of->actuals[*at];
      if (actual.source == Operation::Actual::Source::literal) return actual.literal;
      if (actual.source == Operation::Actual::Source::tensor) return std::nullopt;
      return by_name(actual.name);
    }
  } else {
    if (*at < node_->args.size() && !formal.kwarg_only()) return node_->args[*at];
    for (const auto& [key, value] : node_->kwargs)
      if (same_argument(key, formal.name())) return value;
  }
  return formal.default_value() ? arg_of(*formal.default_value()) : std::nullopt;
}

NodeId Call::value(std::string_view name) const {
  const auto arg = argument(name);
  return arg && arg->is<NodeId>() ? *arg->get<NodeId>() : NodeId{};
}

StateId Call::tensor(std::string_view name) const {
  const auto at = position(name);
  if (!at || !layer_ || *at >= layer_->operation.actuals.size()) return {};
  const Operation::Actual& actual = layer_->operation.actuals[*at];
  if (actual.source != Operation::Actual::Source::tensor) return {};
  return model_->state().find(module_->name + "." + actual.name);
}

NodeId first_input(const Node& node) {
  const Arg* arg = argument(node, 0, "input");
  if (!arg) arg = argument(node, 0, "self");
  return arg && arg->is<NodeId>() ? *arg->get<NodeId>() : NodeId{};
}

std::string_view name_of_call(const Model& model, const Node& node) {
  return Call(model, node).name();
}

std::string_view shown_name(const Model& model, const Node& node) {
  if (node.op == Opcode::call_module) {
    const ModuleId id = model.modules().find(node.target);
    return id ? std::string_view(model.modules()[id].type) : std::string_view();
  }
  if (node.op != Opcode::call_function) return node.target;
  const Target parts = parse_target(node.target);
  // Another library's operator is shown in full: its name alone would say too little.
  return parts.is_op() && !parts.is_aten() ? std::string_view(node.target) : parts.name;
}

}  // namespace refx::book
