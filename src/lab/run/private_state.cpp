#include "lab/run/private_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>

#include "book/effect.h"
#include "ir/content.h"
#include "ops/param.h"
#include "refx/editor.h"
#include "refx/reverse.h"

namespace refx {

namespace {

using States = std::set<StateId>;

// Walks forward, keeping for every value the state entries whose memory it may share.
class WrittenState {
 public:
  explicit WrittenState(const Model& model) : model_(model) {}

  States find() {
    for (NodeId id : model_.graph()) visit(id, model_.graph()[id]);
    for (StateId id : model_.state())
      if (is_mutated(model_, model_.state()[id].name)) written_.insert(id);
    return written_;
  }

 private:
  void visit(NodeId id, const Node& node) {
    if (const std::string_view name = bound_state(node); !name.empty()) {
      if (const StateId state = model_.state().find(name)) shares_[id] = {state};
      return;
    }
    if (node.op == Opcode::call_module) write_module(node);
    States all;
    for_each_input(node, [&](NodeId input) {
      if (auto it = shares_.find(input); it != shares_.end())
        all.insert(it->second.begin(), it->second.end());
    });
    if (all.empty()) return;
    const book::Effect effect = book::effect_of(model_, node);
    if (effect.writes_all)
      written_.insert(all.begin(), all.end());
    else if (effect.writes_first)
      write_first(node);
    if (effect.views) shares_[id] = std::move(all);
  }

  void write_first(const Node& node) {
    if (node.args.empty()) return;
    for_each_node(node.args[0], [&](NodeId input) {
      if (auto it = shares_.find(input); it != shares_.end())
        written_.insert(it->second.begin(), it->second.end());
    });
  }

  void write_module(const Node& node) {
    const ModuleId id = model_.modules().find(node.target);
    if (!id || !model_.modules()[id].training) return;
    for (StateId state : model_.state())
      if (model_.state()[state].name.starts_with(node.target + ".") &&
          model_.state()[state].kind == StateKind::buffer)
        written_.insert(state);
  }

  const Model& model_;
  std::unordered_map<NodeId, States> shares_;
  States written_;
};

// Tensors that share a storage share the copy too.
class Copies {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    require_content(tensor);
    if (!tensor.has_storage()) return tensor.detach().clone();
    const auto* key = tensor.storage().unsafeGetStorageImpl();
    auto it = storages_.find(key);
    if (it == storages_.end()) {
      at::Tensor bytes = at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false));
      bytes.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())}, {1});
      it = storages_.emplace(key, bytes.clone().storage()).first;
    }
    at::Tensor copy = at::empty({0}, tensor.options().requires_grad(false));
    return copy.set_(it->second, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

 private:
  std::unordered_map<const void*, c10::Storage> storages_;
};

}  // namespace

std::vector<StateId> written_state(const Model& model) {
  const States written = WrittenState(model).find();
  return {written.begin(), written.end()};
}

Model with_private_state(const Model& model) {
  Model copy = model;
  forget(copy);
  Copies copies;
  std::set<const void*> storages;
  for (StateId id : written_state(model))
    storages.insert(
        model.state().tensor(id).unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  Editor editor(copy);
  for (StateId id : model.state()) {
    const at::Tensor tensor(model.state().tensor(id));
    if (storages.count(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()))
      editor.set_state(id, copies.of(tensor));
  }
  editor.commit_as_origin(model.source());
  return copy;
}

}  // namespace refx
