// SPDX-License-Identifier: Apache-2.0

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "book/call.h"
#include "book/meanings.h"
#include "book/schemas.h"
#include "lab/check/recipe.h"
#include "lab/run/run_once.h"
#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "rules/literal.h"
#include "rules/match.h"
#include "rules/spell.h"
#include "rules/substitute.h"
#include "util/first_line.h"

namespace refx::checking {

namespace {

using rules::Body;
using rules::Definition;
using rules::Reading;

// ---- tensors -----------------------------------------------------------------------------------

at::Tensor numbers(const TensorChoice& choice) {
  at::Generator generator = at::detail::createCPUGenerator(choice.seed);
  if (choice.dtype == at::kBool)
    return at::randint(0, 4, choice.sizes, generator, at::kLong).ne(0);  // a row seldom is empty
  if (!at::isFloatingType(choice.dtype))
    return at::randint(0, 3, choice.sizes, generator, at::kLong).to(choice.dtype);
  at::Tensor values = at::randn(choice.sizes, generator, at::kDouble);
  switch (choice.numbers) {
    case TensorChoice::normal:
      break;
    case TensorChoice::positive:
      values = values.abs() + 0.25;
      break;
    case TensorChoice::small:
      values = values * 1e-3;
      break;
    case TensorChoice::large:
      values = values * 20;
      break;
    case TensorChoice::mask:  // as it is added to scores
      values = at::where(values.gt(0.7), -std::numeric_limits<double>::infinity(), 0.0);
      break;
  }
  return values.to(choice.dtype);
}

// Gives a tensor another layout, with the same values. Rules must not depend on strides, but
// operators such as view do.
at::Tensor laid_out(const at::Tensor& values, TensorChoice::Layout layout) {
  if (values.dim() == 0) return values;
  switch (layout) {
    case TensorChoice::contiguous:
      break;
    case TensorChoice::transposed: {  // in memory the last two dimensions are swapped
      if (values.dim() < 2) break;
      return values.transpose(-2, -1).contiguous().transpose(-2, -1);
    }
    case TensorChoice::strided: {
      Sizes sizes = values.sizes().vec();
      sizes.back() *= 2;
      at::Tensor wide = at::empty(sizes, values.options());
      at::Tensor every_other = wide.slice(-1, 0, sizes.back(), 2);
      every_other.copy_(values);
      return every_other;
    }
    case TensorChoice::expanded:  // one row, repeated with stride 0
      return values.narrow(0, 0, 1).expand(values.sizes());
  }
  return values;
}

at::Tensor make(const TensorChoice& choice) {
  at::Tensor values = laid_out(numbers(choice), choice.layout);
  if (choice.role == TensorChoice::parameter && at::isFloatingType(choice.dtype)) {
    values = values.contiguous();
    values.set_requires_grad(true);
  }
  return values;
}

// ---- graphs ------------------------------------------------------------------------------------

class InstanceWriter {
 public:
  InstanceWriter(const Definition& rule, const Recipe& recipe)
      : rule_(rule), recipe_(recipe), body_(rule.before[recipe.form]), spelling_(recipe.spelling) {
    values_.resize(body_.model.graph().id_limit());
    put_variables();
  }

  // Writes the calls of the form up to this one; all of them if there is no id.
  void write(NodeId until) {
    for (NodeId id : body_.model.graph()) {
      if (body_.model.graph()[id].op != Opcode::call_function) continue;
      values_[id.value] = call(id);
      if (id == until) return;
    }
  }

  Model build(const Args& results) {
    return builder_.build(results.size() == 1 ? results[0] : Arg(Tuple{results}));
  }

  const Arg& value(NodeId form) const { return values_[form.value]; }
  Args results() const {
    Args all;
    for (const Arg& result : body_.results) all.push_back(rules::substituted(result, values_));
    return all;
  }
  NodeId used(NodeId result) {
    return builder_.call(recipe_.functions ? "torch.neg" : "aten.neg.default", {result});
  }
  bool has_symbol() const { return !symbol_.first.empty(); }
  const std::vector<c10::IValue>& inputs() const { return inputs_; }

 private:
  // Whether to use another spelling than the default one. Recipes without a spelling never do, and
  // then draw no random numbers.
  bool vary(std::int64_t one_in) { return recipe_.spelling != 0 && spelling_.one_in(one_in); }

  void put_variables() {
    std::vector<Arg> made(rule_.variables.size());
    for (const bool inputs : {true, false})  // placeholders come before get_attr nodes
      for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
        const Choice& choice = recipe_.variables[i];
        if (!choice.made || choice.absent || !choice.tensor || choice.same_as >= 0) continue;
        const bool is_input = choice.tensor->role == TensorChoice::input;
        if (is_input == inputs) made[i] = put(rule_.variables[i].name, *choice.tensor);
      }
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const Choice& choice = recipe_.variables[i];
      const auto it = body_.named.find(rule_.variables[i].name);
      if (it == body_.named.end() || !choice.made) continue;
      choice_of_[it->second.value] = &choice;
      Arg& value = values_[it->second.value];
      if (choice.absent)
        value = *rule_.variables[i].default_value;
      else if (choice.same_as >= 0)
        value = made[static_cast<std::size_t>(choice.same_as)];
      else if (choice.tensor)
        value = made[i];
      else if (choice.as_tensor && rules::number_of(choice.literal))
        value = put_number(rule_.variables[i].name, *rules::number_of(choice.literal));
      else
        value = recipe_.symbolic ? with_symbols(choice.literal) : choice.literal;
    }
  }

  NodeId put(const std::string& name, const TensorChoice& choice) {
    const at::Tensor tensor = make(choice);
    switch (choice.role) {
      case TensorChoice::input:
        inputs_.emplace_back(tensor);
        for (std::size_t dim = 0; dim < choice.sizes.size(); ++dim)
          if (choice.sizes[dim] == kSymbol) symbol_ = {name, static_cast<std::int64_t>(dim)};
        return by_name_[name] = builder_.input(name, recipe_.typed ? type_of(tensor) : TypePtr());
      case TensorChoice::parameter:
        return put_state({"layer." + name, StateKind::parameter, true, tensor});
      case TensorChoice::buffer:
        return put_state({"layer." + name, StateKind::buffer, true, tensor});
      case TensorChoice::constant:
        break;
    }
    return put_state({"layer." + name, StateKind::constant, true, tensor});
  }

  NodeId put_number(const std::string& name, double number) {
    return put_state({"number_" + name, StateKind::constant, true,
                      at::scalar_tensor(number, at::TensorOptions(at::kDouble))});
  }

  NodeId put_state(StateEntry entry) {
    if (recipe_.functions) {
      const std::string name = entry.name;
      builder_.state(std::move(entry));
      return builder_.get_attr(name);
    }
    const at::TensorBase tensor = entry.tensor;
    switch (entry.kind) {
      case StateKind::parameter:
        return builder_.parameter(entry.name, tensor);
      case StateKind::buffer:
        return builder_.buffer(entry.name, tensor);
      case StateKind::constant:
        break;
    }
    return builder_.constant(entry.name, tensor);
  }

  // Replaces sizes of the symbol in a literal by calls of sym_size.
  Arg with_symbols(const Arg& literal) {
    const List* list = literal.get<List>();
    if (!list) return literal;
    List sizes;
    for (const Arg& item : list->items) {
      const auto* size = item.get<std::int64_t>();
      if (!size || *size <= 0 || *size % kSymbol != 0) {
        sizes.items.push_back(item);
        continue;
      }
      if (*size != kSymbol || symbol_.first.empty())
        throw Error("a size is computed from a symbol");
      sizes.items.push_back(
          builder_.call("aten.sym_size.int", {by_name_.at(symbol_.first), symbol_.second}));
    }
    return sizes;
  }

  // ---- calls

  const Choice* choice_at(const Arg& form) const {
    const NodeId* id = form.get<NodeId>();
    const auto it = id ? choice_of_.find(id->value) : choice_of_.end();
    return it == choice_of_.end() ? nullptr : it->second;
  }

  Arg call(NodeId id) {
    const Node& written = body_.model.graph()[id];
    const book::Call known(body_.model, written);
    if (known.spelled() == book::Call::Spelled::nothing || !known.schema())
      return as_written(written);
    Reading reading = rules::read_form(body_, id);
    const Reading::Given* principal = nullptr;
    bool left_out = false;
    for (const Reading::Given& given : reading.args) {
      const Choice* choice = choice_at(given.value);
      if (choice && choice->absent && (given.name == "other" || reading.name == "to"))
        left_out = true;
      else if (!principal && given.value.is<NodeId>())
        principal = &given;
    }
    if (left_out) {
      if (!principal) throw Error("nothing is left");
      return rules::substituted(principal->value, values_);
    }
    for (Reading::Given& given : reading.args) {
      const Choice* choice = choice_at(given.value);
      const bool computed = !choice && given.value.is<NodeId>();
      given.value = rules::substituted(given.value, values_);
      if (computed && vary(8)) given.value = idle(*given.value.get<NodeId>());
      if (given.value.is<None>()) given.by_default = true;
      const auto number = rules::number_of(given.value);
      if (choice && choice->inverse && reading.name == "mul" && given.name == "other" && number &&
          *number != 0) {
        reading.name = "div";
        given.value = 1 / *number;
      }
    }
    const Node node = spelled(std::move(reading));
    return builder_.call(node.target, node.args, node.kwargs);
  }

  Arg as_written(const Node& written) {
    Args args;
    Kwargs kwargs;
    for (const Arg& arg : written.args) args.push_back(rules::substituted(arg, values_));
    for (const auto& [key, arg] : written.kwargs)
      kwargs.emplace_back(key, rules::substituted(arg, values_));
    return builder_.call(written.target, std::move(args), std::move(kwargs));
  }

  // A call whose result is its input, such as a dropout in evaluation mode.
  NodeId idle(NodeId value) {
    if (recipe_.functions) return builder_.call("torch.nn.functional.dropout", {value, 0.1, false});
    switch (spelling_.below(4)) {
      case 0:
        return builder_.call("aten.dropout.default", {value, 0.1, false});
      case 1:
        return builder_.call("aten.contiguous.default", {value});
      case 2:
        return builder_.call("aten.alias.default", {value});
      default:
        return builder_.call("aten.clone.default", {value});
    }
  }

  Node spelled(Reading reading) {
    const std::string name(reading.name);
    if (book::is_commutative(reading.name) && vary(3)) {
      auto find = [&](const char* which) {
        return std::find_if(reading.args.begin(), reading.args.end(),
                            [&](const Reading::Given& given) { return given.name == which; });
      };
      const auto self = find("self"), other = find("other");
      if (self->value.is<NodeId>() && other->value.is<NodeId>())
        std::swap(self->value, other->value);
    }
    Node node = recipe_.functions ? rules::spell_as_function(reading) : rules::spell_as_op(reading);
    if (node.target.empty()) throw Error(fmt::format("no {} takes such arguments", name));
    if (!recipe_.functions && vary(4)) name_arguments(node);
    return node;
  }

  // Passes the last arguments by name.
  void name_arguments(Node& node) {
    const c10::FunctionSchema* schema = book::find_schema(book::parse_target(node.target));
    if (!schema || node.args.size() < 2) return;
    const auto keep = static_cast<std::size_t>(
        spelling_.between(1, static_cast<std::int64_t>(node.args.size()) - 1));
    Kwargs named;
    for (std::size_t i = keep; i < node.args.size(); ++i)
      named.emplace_back(schema->arguments()[i].name(), node.args[i]);
    node.args.resize(keep);
    named.insert(named.end(), node.kwargs.begin(), node.kwargs.end());
    node.kwargs = std::move(named);
  }

  const Definition& rule_;
  const Recipe& recipe_;
  const Body& body_;
  Builder builder_;
  rules::Values values_;
  std::map<std::uint32_t, const Choice*> choice_of_;
  std::map<std::string, NodeId> by_name_;
  std::pair<std::string, std::int64_t> symbol_;
  std::vector<c10::IValue> inputs_;
  Random spelling_;
};

// ---- types -------------------------------------------------------------------------------------

std::vector<Dim> in_symbols(const std::vector<Dim>& dims) {
  std::vector<Dim> all;
  for (const Dim& dim : dims) {
    if (dim.value <= 0 || dim.value % kSymbol != 0) {
      all.push_back(dim);
      continue;
    }
    const std::int64_t factor = dim.value / kSymbol;
    if (factor % kSymbol == 0) throw Error("a size is a power of a symbol");
    all.emplace_back(factor == 1 ? std::string("s0") : fmt::format("{}*s0", factor), dim.value);
  }
  return all;
}

TypePtr recorded(const at::TensorBase& tensor, bool symbolic) {
  auto type = std::make_shared<TensorType>(*type_of(tensor));
  type->requires_grad = false;
  if (symbolic) {
    type->sizes = in_symbols(type->sizes);
    type->strides = in_symbols(type->strides);
  }
  return type;
}

bool has_symbolic_weights(const Model& model) {
  for (StateId id : model.state())
    for (const std::int64_t size : model.state().tensor(id).sizes())
      if (size % kSymbol == 0) return true;
  return false;
}

c10::IValue run_all(const Model& model, const std::vector<c10::IValue>& inputs,
                    std::vector<NodeId>& nodes) {
  Model all = model;
  Tuple outputs;
  for (NodeId id : model.graph()) {
    if (model.graph()[id].op != Opcode::call_function) continue;
    nodes.push_back(id);
    outputs.items.push_back(id);
  }
  Editor editor(all);
  editor.set_arg(all.graph().output(), 0, std::move(outputs));
  editor.commit_as_origin();
  return Executor(all).run(inputs);
}

void record_types(Instance& instance) {
  std::vector<NodeId> nodes;
  const c10::IValue values = run_all(instance.model, instance.inputs, nodes);
  Editor editor(instance.model);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (const c10::IValue& value = values.toTupleRef().elements()[i]; value.isTensor())
      editor.set_type(nodes[i], recorded(value.toTensor(), instance.symbolic));
  std::size_t input = 0;
  for (NodeId id : instance.model.graph()) {
    const Node& node = instance.model.graph()[id];
    if (node.op == Opcode::placeholder && node.state.empty())
      editor.set_type(id, recorded(instance.inputs[input++].toTensor(), instance.symbolic));
  }
  editor.commit_as_origin();
}

}  // namespace

Instance build(const Definition& rule, const Recipe& recipe) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  InstanceWriter writer(rule, recipe);
  writer.write({});
  Instance instance;
  instance.symbolic = recipe.symbolic && recipe.typed;
  Args outputs;
  for (const Arg& result : writer.results()) {
    const NodeId* id = result.get<NodeId>();
    if (!id) throw Error("a result is not a tensor");
    instance.results.push_back(*id);
    outputs.push_back(recipe.used ? writer.used(*id) : *id);
  }
  instance.model = writer.build(outputs);
  instance.inputs = writer.inputs();
  instance.symbolic = instance.symbolic && writer.has_symbol();
  if (instance.symbolic && has_symbolic_weights(instance.model))
    throw Error("a weight has a symbolic size");
  // Some operators accept only some strides, and copies of the inputs may have other strides.
  (void)Executor(instance.model).run(copies(instance.inputs));
  if (recipe.typed) record_types(instance);
  return instance;
}

c10::IValue value_of(const Definition& rule, const Recipe& recipe, NodeId node) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  InstanceWriter writer(rule, recipe);
  writer.write(node);
  const Model model = writer.build({writer.value(node)});
  return Executor(model).run(writer.inputs());
}

}  // namespace refx::checking
