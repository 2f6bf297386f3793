#include "lab/run/converted.h"

#include "ir/content.h"
#include "refx/editor.h"
#include "refx/reverse.h"

namespace refx {

Arg mapped(const Arg& arg, const std::function<Arg(const Arg&)>& leaf) {
  const auto all = [&](const Args& args) {
    Args out;
    for (const Arg& item : args) out.push_back(mapped(item, leaf));
    return out;
  };
  if (const auto* list = arg.get<List>()) return List{all(list->items)};
  if (const auto* tuple = arg.get<Tuple>()) return Tuple{all(tuple->items)};
  if (const auto* slice = arg.get<Slice>()) return Slice{all(slice->parts)};
  if (const auto* dict = arg.get<Dict>()) {
    Dict out;
    for (const auto& [key, value] : dict->items) out.items.emplace_back(key, mapped(value, leaf));
    return out;
  }
  return leaf(arg);
}

void map_arguments(Node& node, const std::function<Arg(const Arg&)>& leaf) {
  for (Arg& arg : node.args) arg = mapped(arg, leaf);
  for (auto& [name, arg] : node.kwargs) arg = mapped(arg, leaf);
}

Model converted(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& tensor,
                const std::function<void(Node&)>& node) {
  Model copy = model;
  forget(copy);
  Editor editor(copy);
  std::unordered_map<const void*, at::Tensor> made;
  for (StateId id : model.state()) {
    const at::Tensor old(model.state().tensor(id));
    require_content(old);
    at::Tensor& now = made[old.unsafeGetTensorImpl()];
    if (!now.defined()) now = tensor(old);
    if (!now.is_same(old)) editor.set_state(id, now);
  }
  for (NodeId id : model.graph()) {
    Node changed = model.graph()[id];
    node(changed);
    if (!(changed == model.graph()[id])) editor.set_node(id, std::move(changed));
  }
  editor.commit_as_origin(model.source());
  return copy;
}

}  // namespace refx
