// SPDX-License-Identifier: Apache-2.0

#include "refx/builder.h"

#include <fmt/format.h>

#include <cctype>

#include "refx/error.h"
#include "refx/validate.h"

namespace refx {

namespace {

std::string identifier(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

}  // namespace

Builder::Builder() : editor_(model_) {}

NodeId Builder::add(Node node) { return last_ = editor_.insert_before({}, std::move(node)); }

NodeId Builder::input(std::string name, TypePtr type) {
  if (editor_.graph().name_taken(name)) throw Error(fmt::format("input name '{}' is taken", name));
  return add({.op = Opcode::placeholder, .name = name, .target = name, .type = std::move(type)});
}

NodeId Builder::lifted(StateEntry entry, const char* prefix) {
  Node node{.op = Opcode::placeholder,
            .name = prefix + identifier(entry.name),
            .state = entry.name,
            .type = type_of(entry.tensor)};
  node.target = node.name = editor_.graph().fresh_name(node.name);
  editor_.add_state(std::move(entry));
  // torch.export requires the placeholders of tensors before those of inputs.
  const Graph& graph = editor_.graph();
  const NodeId where = last_lifted_ ? graph.next(last_lifted_) : graph.first();
  return last_ = last_lifted_ = editor_.insert_before(where, std::move(node));
}

NodeId Builder::parameter(const std::string& name, at::TensorBase tensor) {
  return lifted({name, StateKind::parameter, true, std::move(tensor)}, "p_");
}

NodeId Builder::buffer(const std::string& name, at::TensorBase tensor, bool persistent) {
  return lifted({name, StateKind::buffer, persistent, std::move(tensor)}, "b_");
}

NodeId Builder::constant(const std::string& name, at::TensorBase tensor) {
  return lifted({name, StateKind::constant, true, std::move(tensor)}, "c_");
}

StateId Builder::state(StateEntry entry) { return editor_.add_state(std::move(entry)); }

NodeId Builder::get_attr(const std::string& state) {
  const StateId id = editor_.state().find(state);
  if (!id) throw Error(fmt::format("get_attr: there is no state entry '{}'", state));
  return add({.op = Opcode::get_attr,
              .name = identifier(state),
              .target = state,
              .type = type_of(editor_.state().tensor(id))});
}

NodeId Builder::call(Name target, Args args, Kwargs kwargs) {
  return add({.op = Opcode::call_function,
              .target = std::move(target),
              .args = std::move(args),
              .kwargs = std::move(kwargs)});
}

NodeId Builder::method(Name target, Args args, Kwargs kwargs) {
  return add({.op = Opcode::call_method,
              .target = std::move(target),
              .args = std::move(args),
              .kwargs = std::move(kwargs)});
}

void Builder::module(Module module) { editor_.add_module(std::move(module)); }

NodeId Builder::call_module(const std::string& path, Args args, Kwargs kwargs) {
  if (!editor_.modules().find(path)) throw Error(fmt::format("there is no module '{}'", path));
  return add({.op = Opcode::call_module,
              .target = path,
              .args = std::move(args),
              .kwargs = std::move(kwargs)});
}

Builder& Builder::typed(TypePtr type) {
  editor_.set_type(last_, std::move(type));
  return *this;
}

Builder& Builder::with_meta(MetaPtr meta) {
  Node node = editor_.graph()[last_];
  node.meta = std::move(meta);
  editor_.set_node(last_, std::move(node));
  return *this;
}

Model Builder::build(Arg result, std::vector<Mutation> mutations) {
  add({.op = Opcode::output, .name = "output", .target = "output", .args = {std::move(result)}});
  editor_.commit_as_origin(nullptr, std::move(mutations));
  validate(model_);
  return std::move(model_);
}

}  // namespace refx
