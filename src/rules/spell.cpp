// SPDX-License-Identifier: Apache-2.0

#include "rules/spell.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

#include "book/call.h"
#include "book/functions.h"
#include "book/schemas.h"
#include "rules/literal.h"

namespace refx::rules {

namespace {

using Given = Reading::Given;
using c10::TypeKind;

// Where torch takes a number for a tensor: in the arithmetic of Python, and nowhere else.
bool takes_numbers(std::string_view name) {
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "div", "floor_divide"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// How well an argument goes with what a schema asks for; a number as a tensor so well; 0: it does
// not.
int fit(const c10::TypePtr& type, const Arg& arg, int as_tensor) {
  const TypeKind kind = type->kind();
  if (kind == TypeKind::OptionalType) {
    if (arg.is<None>()) return 2;
    return fit(type->expectRef<c10::OptionalType>().getElementType(), arg, as_tensor);
  }
  if (arg.is<NodeId>()) return kind == TypeKind::TensorType ? 2 : kind == TypeKind::IntType ? 1 : 0;
  if (number_of(arg)) {
    if (kind == TypeKind::TensorType) return as_tensor;
    if (kind == TypeKind::IntType || kind == TypeKind::SymIntType)
      return arg.is<std::int64_t>() ? 2 : 0;
    return kind == TypeKind::NumberType || kind == TypeKind::FloatType ? 2 : 0;
  }
  if (arg.is<SymInt>()) return kind == TypeKind::IntType || kind == TypeKind::SymIntType ? 2 : 0;
  if (arg.is<bool>()) return kind == TypeKind::BoolType ? 2 : 0;
  if (arg.is<std::string>()) return kind == TypeKind::StringType ? 2 : 0;
  const List* list = arg.get<List>();
  const Tuple* tuple = arg.get<Tuple>();
  if (list || tuple) {
    if (kind != TypeKind::ListType) return 0;
    const auto& element = type->expectRef<c10::ListType>().getElementType();
    int worst = 2;
    for (const Arg& item : list ? list->items : tuple->items)
      worst = std::min(worst, fit(element, item, 0));
    return worst;
  }
  if (arg.is<None>()) return 0;
  return kind == TypeKind::TensorType || kind == TypeKind::ListType ? 0 : 1;  // a dtype, a device
}

// Whether it has to be written: it is not as by default, or there is none.
bool is_said(const c10::Argument& formal, const Given* given) {
  if (!given || !formal.default_value()) return given;
  // A flag that a question answered may be as by default.
  const bool flag = given->value.is<bool>();
  return !given->by_default && !(flag && book::arg_of(*formal.default_value()) == given->value);
}

int fit(const c10::FunctionSchema& schema, const Reading& call) {
  // add(x, 2) is add.Tensor in an exported graph, and not add.Scalar, which only fits as well.
  const int as_tensor = !takes_numbers(call.name) ? 0 : schema.overload_name() == "Tensor" ? 3 : 1;
  int score = 1;
  for (const c10::Argument& formal : schema.arguments()) {
    const Given* given = call.find(formal.name());
    if (!is_said(formal, given)) {
      if (!formal.default_value()) return 0;
      continue;
    }
    // stride=1 stands for [1, 1].
    const bool spread = formal.N() && given->value.is<std::int64_t>();
    const int one = spread ? 1 : fit(formal.type(), given->value, as_tensor);
    if (one == 0) return 0;
    score += one;
  }
  const auto extra = std::count_if(call.args.begin(), call.args.end(), [&](const Given& given) {
    return !given.by_default &&
           std::none_of(schema.arguments().begin(), schema.arguments().end(),
                        [&](const auto& formal) { return formal.name() == given.name; });
  });
  // Of overloads that fit equally well, the one with the fewest arguments.
  return extra == 0 ? score * 100 - static_cast<int>(schema.arguments().size()) : 0;
}

// Positions first, then names; what is as by default is left out where nothing comes after it.
void set_arguments(Node& node, const c10::FunctionSchema& schema, const Reading& call) {
  std::size_t last = 0, position = 0;
  for (const c10::Argument& formal : schema.arguments()) {
    ++position;
    const Given* given = call.find(formal.name());
    if (!formal.kwarg_only() && is_said(formal, given)) last = position;
  }
  position = 0;
  for (const c10::Argument& formal : schema.arguments()) {
    const Given* given = call.find(formal.name());
    const bool said = is_said(formal, given);
    if (position++ < last) {
      if (said)
        node.args.push_back(given->value);
      else
        node.args.push_back(book::arg_of(*formal.default_value()).value_or(None{}));
    } else if (said) {
      node.kwargs.emplace_back(formal.name(), given->value);
    }
  }
}

const c10::FunctionSchema* choose(const Reading& call) {
  const c10::FunctionSchema* best = nullptr;
  int score = 0;
  for (const c10::OperatorHandle& overload : book::overloads(call.name))
    if (const int one = fit(overload.schema(), call); one > score) {
      score = one;
      best = &overload.schema();
    }
  return best;
}

}  // namespace

Node spell_as_op(const Reading& call) {
  Node node{.op = Opcode::call_function};
  const c10::FunctionSchema* schema = choose(call);
  if (!schema) return node;
  const std::string& overload = schema->overload_name();
  node.target =
      std::string("aten.").append(call.name) + "." + (overload.empty() ? "default" : overload);
  set_arguments(node, *schema, call);
  return node;
}

Node spell_as_function(const Reading& call) {
  Node node{.op = Opcode::call_function};
  const c10::FunctionSchema* schema = choose(call);
  if (!schema) return node;
  // The arguments are those of the overload; the target is replaced below.
  node = spell_as_op(call);
  if (const std::string_view function = book::function_spelling(call.name); !function.empty())
    node.target = function;
  return node;
}

}  // namespace refx::rules
