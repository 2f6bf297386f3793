// SPDX-License-Identifier: Apache-2.0

#include "ops/inference.h"

#include "book/call.h"
#include "book/facts.h"

namespace refx {

namespace {

constexpr int kMaxDepth = 64;  // of a chain of untyped nodes

const NodeId* first_input(const Node& node) {
  const Arg* arg = argument(node, 0, "input");
  return arg ? arg->get<NodeId>() : nullptr;
}

bool integer(const Model& model, NodeId id, int depth) {
  if (const auto dtype = known_dtype(model, id))
    return !c10::isFloatingType(*dtype) && !c10::isComplexType(*dtype);
  const Node& node = model.graph()[id];
  if (depth == kMaxDepth) return true;
  if (node.op == Opcode::placeholder || node.op == Opcode::get_attr) return false;
  const book::Call call(model, node);
  if (call.is("getattr")) {
    const Arg* what = argument(node, 1, "name");
    const auto* name = what ? what->get<std::string>() : nullptr;
    return name && (*name == "shape" || *name == "ndim");
  }
  if (call.facts() & book::kGivesIntegers) return true;
  if (!(call.facts() & book::kKeepsIntegers)) return false;
  bool all = true;
  for_each_input(node, [&](NodeId input) { all = all && integer(model, input, depth + 1); });
  return all;
}

// flatten(x, 1) of anything yields two dimensions.
bool flattens_to_matrix(const book::Call& call) {
  return call.is("flatten") && call.argument("start_dim") == Arg(1) &&
         call.argument("end_dim") == Arg(-1);
}

}  // namespace

std::optional<c10::ScalarType> known_dtype(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (node.type) return node.type->dtype;
  const Name& name = bound_state(node);
  if (name.empty()) return std::nullopt;
  const StateId state = model.state().find(name);
  return state ? std::optional(model.state().tensor(state).scalar_type()) : std::nullopt;
}

bool may_be_integer(const Model& model, NodeId node) { return integer(model, node, 0); }

std::optional<std::size_t> known_rank(const Model& model, NodeId id) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const Node& node = model.graph()[id];
    if (node.type) return node.type->sizes.size();
    const book::Call call(model, node);
    if (flattens_to_matrix(call)) return 2;
    const NodeId* input = first_input(node);
    if (!input || !(call.facts() & book::kKeepsRank)) return std::nullopt;
    id = *input;
  }
  return std::nullopt;
}

}  // namespace refx
