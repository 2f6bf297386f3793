// SPDX-License-Identifier: Apache-2.0

#include "ops/param.h"

#include <algorithm>
#include <cctype>

#include "ir/content.h"

namespace refx {

std::optional<Param> param_of(const Model& model, const Arg* arg) {
  const NodeId* id = arg ? arg->get<NodeId>() : nullptr;
  if (!id) return std::nullopt;
  const Name& name = bound_state(model.graph()[*id]);
  const StateId state = name.empty() ? StateId{} : model.state().find(name);
  if (!state) return std::nullopt;
  return Param{state, *id};
}

bool is_graph_input(const Model& model, const Arg* arg) {
  const NodeId* id = arg ? arg->get<NodeId>() : nullptr;
  return id && model.graph()[*id].op == Opcode::placeholder;
}

at::Tensor tensor_of(const Model& model, const Param& param) {
  const at::TensorBase& tensor = model.state().tensor(param.state);
  require_content(tensor);
  return at::Tensor(tensor);
}

bool is_mutated(const Model& model, std::string_view state) {
  return std::any_of(model.mutations().begin(), model.mutations().end(),
                     [&](const Mutation& mutation) { return mutation.target == state; });
}

std::string_view called_owner(const Model& model, std::string_view state) {
  // The owner may be called itself, or a module around it.
  for (auto dot = state.rfind('.'); dot != state.npos && dot > 0; dot = state.rfind('.', dot - 1))
    if (model.graph().num_callers(state.substr(0, dot)) > 0) return state.substr(0, dot);
  return {};
}

bool is_read_by_others(const Model& model, const Param& param) {
  const Name& name = model.state()[param.state].name;
  // A layer reads its own tensor without a node: any node that reads it is another reader.
  if (!param.node) return model.graph().num_readers(name) > 0;
  return !model.graph().is_only_reader(param.node) || model.graph().num_uses(param.node) > 1 ||
         !called_owner(model, name).empty();
}

std::optional<Reason> why_shared(const Model& model, const Param& param) {
  const StateEntry& entry = model.state()[param.state];
  if (is_read_by_others(model, param)) return because<ReasonId::used_elsewhere>(entry.name);
  if (model.state().storage_sharers(param.state) > 1)
    return because<ReasonId::memory_shared>(entry.name);
  if (is_mutated(model, entry.name)) return because<ReasonId::changed_by_model>(entry.name);
  return std::nullopt;
}

std::optional<Reason> why_not_dense(const Model& model, const Param& param) {
  const StateEntry& entry = model.state()[param.state];
  const at::TensorBase& tensor = entry.tensor;
  if (tensor.is_quantized()) return because<ReasonId::quantized>(entry.name);
  if (tensor.layout() != c10::kStrided) return because<ReasonId::sparse>(entry.name);
  const auto dtype = tensor.scalar_type();
  using c10::ScalarType;
  if (dtype != ScalarType::Float && dtype != ScalarType::Double && dtype != ScalarType::Half &&
      dtype != ScalarType::BFloat16)
    return because<ReasonId::not_floating_point>(entry.name, c10::toString(dtype));
  return std::nullopt;
}

std::optional<Reason> why_not_readable(const Model& model, const Param& param) {
  const StateEntry& entry = model.state()[param.state];
  if (entry.tensor.is_meta()) return because<ReasonId::no_data>(entry.name);
  return why_not_dense(model, param);
}

namespace {

// As torch.export names the placeholders of lifted tensors.
const char* placeholder_prefix(StateKind kind) {
  switch (kind) {
    case StateKind::parameter:
      return "p_";
    case StateKind::buffer:
      return "b_";
    case StateKind::constant:
      return "c_";
  }
  return "";
}

}  // namespace

Param add_param(Editor& editor, const Param& like, const Name& name, const at::Tensor& tensor,
                NodeId user) {
  StateEntry entry = editor.state()[like.state];
  entry.name = name;
  entry.tensor = tensor;
  const char* prefix = placeholder_prefix(entry.kind);
  Param param;
  param.state = editor.add_state(std::move(entry), like.state);
  if (!like.node) return param;
  const Node& model_node = editor.graph()[like.node];
  // The same kind of node that reads `like`, so that the graph keeps its dialect.
  Node node{.op = model_node.op, .target = name, .type = type_of(tensor), .meta = model_node.meta};
  std::string identifier = name;
  for (char& c : identifier)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (node.op == Opcode::placeholder) {
    node.name = node.target = editor.graph().fresh_name(prefix + identifier);
    node.state = name;
    param.node = editor.insert_after(like.node, std::move(node));
  } else {
    node.name = identifier;
    param.node = editor.insert_before(user, std::move(node));
  }
  return param;
}

void set_param(Editor& editor, const Param& param, const at::Tensor& tensor) {
  editor.set_state(param.state, tensor);
  if (!param.node) return;
  const TypePtr type = type_of(tensor);
  const TypePtr& old = editor.graph()[param.node].type;
  // Only if it changes: each edit is kept for undo.
  if (old && *old != *type) editor.set_type(param.node, type);
}

Param assign_param_to(Editor& editor, const Param& param, const at::Tensor& tensor, NodeId user) {
  if (is_read_by_others(editor.model(), param))
    return add_param(editor, param, editor.state().fresh_name(editor.state()[param.state].name),
                     tensor, user);
  set_param(editor, param, tensor);
  return param;
}

void erase_param(Editor& editor, const Param& param) {
  if (param.node) editor.erase_node(param.node);
  editor.erase_state(param.state);
}

}  // namespace refx
