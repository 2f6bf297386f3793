// SPDX-License-Identifier: Apache-2.0

// Before:   q = linear(x, Wq, bq)   k = linear(x, Wk)   …     two or more with the same input
// After:    m = linear(x, [Wq; Wk; …], [bq; 0; …])
//           q = m[..., 0:nq]        k = m[..., nq:nq+nk]   …
// Refuses:  shared, quantized, sparse or computed tensors; modules with hooks or called twice;
//           linears that differ in dtype, device or requires_grad; a write to x between the linears
// Numerics: the same products; a library may sum them in another order for the new width
//
// A slice is not contiguous. The columns are copied where that could matter: before a view that
// does not split the columns, before an in-place operator, and in results of the model.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/SmallVector.h>
#include <fmt/format.h>

#include <algorithm>

#include "ops/layer.h"
#include "ops/writes.h"
#include "refx/transforms.h"

namespace refx {

namespace {

// What linears must have in common; for those that do not, how they differ.
std::optional<Reason> difference(const Model& model, const LinearOp& a, const LinearOp& b) {
  const StateEntry& x = model.state()[a.weight.state];
  const StateEntry& y = model.state()[b.weight.state];
  if (x.tensor.scalar_type() != y.tensor.scalar_type())
    return because<ReasonId::linear_dtypes_differ>();
  if (x.tensor.device() != y.tensor.device()) return because<ReasonId::linear_devices_differ>();
  if (x.tensor.requires_grad() != y.tensor.requires_grad())
    return because<ReasonId::some_linears_frozen>();
  if (x.kind != y.kind)
    return because<ReasonId::weight_kinds_differ>(to_string(x.kind), to_string(y.kind));
  if (x.persistent != y.persistent) return because<ReasonId::some_weights_not_saved>();
  if (a.spelling != b.spelling) return because<ReasonId::calls_differ>();
  const std::string around = kept_modules_around(model, model.graph()[a.node]);
  const std::string other = kept_modules_around(model, model.graph()[b.node]);
  if (around != other)
    return because<ReasonId::linears_in_kept_calls>(around.empty() ? other : around);
  if (x.tensor.size(1) != y.tensor.size(1)) return because<ReasonId::input_widths_differ>();
  if (a.bias && b.bias &&
      model.state().tensor(a.bias->state).requires_grad() !=
          model.state().tensor(b.bias->state).requires_grad())
    return because<ReasonId::some_biases_frozen>();
  return std::nullopt;
}

Site site_of(const std::vector<LinearOp>& linears) {
  Site site;
  site.nodes.reserve(linears.size());
  for (const LinearOp& linear : linears) site.nodes.push_back(linear.node);
  return site;
}

// Linears that can go together. What they have in common, the first and the first bias tell.
struct Group {
  std::vector<LinearOp> linears;
  std::size_t biased = 0;  // the first with a bias, if there is one

  void add(LinearOp linear) {
    if (linear.bias && (linears.empty() || !linears[biased].bias)) biased = linears.size();
    linears.push_back(std::move(linear));
  }
};

std::optional<Reason> difference(const Model& model, const Group& group, const LinearOp& linear) {
  auto why = difference(model, group.linears.front(), linear);
  return why ? why : difference(model, group.linears[group.biased], linear);
}

std::vector<Group> by_kind(const Model& model, std::vector<LinearOp> linears) {
  std::vector<Group> groups;
  for (LinearOp& linear : linears) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return !difference(model, other, linear);
    });
    if (group == groups.end()) {
      group = groups.emplace(group);
      group->linears.reserve(groups.size() == 1 ? linears.size() : 2);
    }
    group->add(std::move(linear));
  }
  return groups;
}

void judge_group(const Model& model, std::vector<LinearOp> linears, LazyWrites& writes,
                 Findings& findings) {
  std::erase_if(linears, [&](const LinearOp& linear) {
    return linear.problem && !findings.add({.nodes = {linear.node}}, linear.problem);
  });
  if (linears.size() < 2) return;
  const std::vector<Group> groups = by_kind(model, std::move(linears));
  for (const Group& group : groups) {
    const std::vector<LinearOp>& members = group.linears;
    if (members.size() == 1) {
      // A later group was opened because its first did not fit into the earlier ones.
      const LinearOp& odd = &group == &groups[0] ? groups[1].linears[0] : members[0];
      findings.add({.nodes = {members[0].node}}, difference(model, groups[0], odd));
      continue;
    }
    std::optional<Reason> reason;
    if (writes.between(members[0].input, members.front().node, members.back().node))
      reason = because<ReasonId::input_written_between>();
    findings.add(site_of(members), std::move(reason));
  }
}

// "encoder.q-k-v-merged": a path under the common parent that nothing else has.
std::string merged_path(const Model& model, const std::vector<LinearOp>& linears) {
  constexpr std::size_t kShown = 4;
  const std::string first = linears[0].path(model);
  const auto parent_end = first.rfind('.') == first.npos ? 0 : first.rfind('.') + 1;
  std::string path = first;
  for (std::size_t i = 1; i < linears.size(); ++i) {
    if (linears.size() > kShown && i + 1 < linears.size()) continue;
    std::string name = linears[i].path(model);
    if (name.starts_with(first.substr(0, parent_end))) name = name.substr(parent_end);
    std::replace(name.begin(), name.end(), '.', '_');
    path += (linears.size() > kShown ? "-to-" : "-") + name;
  }
  path += "-merged";
  auto taken = [&](const std::string& candidate) {
    return model.state().name_taken(candidate + ".weight") ||
           model.state().name_taken(candidate + ".bias") || model.modules().name_taken(candidate);
  };
  std::string unique = path;
  for (int i = 1; taken(unique); ++i) unique = fmt::format("{}_{}", path, i);
  return unique;
}

// Called without gradients: so the parts need not be detached.
at::Tensor merged_weight(const Model& model, const std::vector<LinearOp>& linears) {
  std::vector<at::Tensor> parts;
  parts.reserve(linears.size());
  for (const LinearOp& linear : linears) parts.push_back(tensor_of(model, linear.weight));
  at::Tensor merged = at::cat(parts, 0);
  return merged.set_requires_grad(tensor_of(model, linears[0].weight).requires_grad());
}

at::Tensor merged_bias(const Model& model, const std::vector<LinearOp>& linears) {
  std::vector<at::Tensor> parts;
  parts.reserve(linears.size());
  bool any = false, requires_grad = false;
  for (const LinearOp& linear : linears) {
    const at::Tensor weight = tensor_of(model, linear.weight);
    if (linear.bias) {
      const at::Tensor bias = tensor_of(model, *linear.bias);
      parts.push_back(bias);
      any = true;
      requires_grad = bias.requires_grad();
    } else {
      parts.push_back(at::zeros({weight.size(0)}, weight.options().requires_grad(false)));
    }
  }
  if (!any) return {};
  at::Tensor merged = at::cat(parts, 0);
  return merged.set_requires_grad(requires_grad);
}

// The node of one linear as columns [start, start + width) of the merged one.
Node columns(const Editor& editor, const LinearOp& linear, NodeId merged, std::int64_t start,
             std::int64_t width) {
  const Node& old = editor.graph()[linear.node];
  Node node{.op = Opcode::call_function, .type = old.type, .meta = old.meta};
  const bool aten = linear.spelling == Spelling::aten;
  if (!tolerates_column_slice(editor.model(), linear.node, width)) {
    // Not narrow_copy, which has no derivative before torch 2.13.
    node.target = aten ? "aten.slice_copy.Tensor" : "torch.slice_copy";
    node.args = {merged, -1, start, start + width};
    return node;
  }
  if (aten) {
    static const Name kSlice = "aten.slice.Tensor";
    node.target = kSlice;
    node.args = {merged, -1, start, start + width};
  } else {
    static const Name kItem = "operator.getitem";
    node.target = kItem;
    node.args = {merged, Tuple{{Ellipsis{}, Slice{{start, start + width, None{}}}}}};
  }
  if (const TypePtr& whole = editor.graph()[merged].type; whole && old.type) {
    auto type = std::make_shared<TensorType>(*old.type);
    type->strides = contiguous_strides(whole->sizes);
    node.type = std::move(type);
  }
  return node;
}

}  // namespace

Findings MergeLinears::find(const Model& model) const {
  std::vector<c10::SmallVector<NodeId, 4>> groups;
  std::vector<std::uint32_t> group_of(model.graph().id_limit());  // by input; 0: none
  for (NodeId id : model.graph()) {
    const NodeId input = LinearOp::input_of(model, id);
    if (!input) continue;
    std::uint32_t& group = group_of[input.value];
    if (group == 0) {
      groups.emplace_back();
      group = static_cast<std::uint32_t>(groups.size());
    }
    groups[group - 1].push_back(id);
  }
  Findings findings;
  LazyWrites writes(model);
  for (const auto& group : groups) {
    if (group.size() == 1) continue;
    std::vector<LinearOp> linears;
    linears.reserve(group.size());
    for (NodeId id : group) linears.push_back(*LinearOp::match(model, id));
    judge_group(model, std::move(linears), writes, findings);
  }
  return findings;
}

std::optional<Reason> MergeLinears::apply(Editor& editor, const Site& site) const {
  const c10::InferenceMode ordinary_tensors(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::vector<LinearOp> linears;
  linears.reserve(site.nodes.size());
  for (NodeId id : site.nodes) linears.push_back(LinearOp::at(editor.model(), id));
  const LinearOp& first = linears[0];
  const at::Tensor bias = merged_bias(editor.model(), linears);
  Param weight_place;
  std::optional<Param> bias_place;
  const NodeId merged =
      first.create(editor, first.node, merged_path(editor.model(), linears),
                   merged_weight(editor.model(), linears), bias, weight_place, bias_place);

  std::int64_t start = 0;
  for (const LinearOp& linear : linears) {
    const std::int64_t width = tensor_of(editor.model(), linear.weight).size(0);
    editor.add_piece({weight_place.state, linear.weight.state, 0, start, width});
    if (bias_place)
      editor.add_piece(
          {bias_place->state, linear.bias ? linear.bias->state : StateId{}, 0, start, width});
    editor.set_node(linear.node, columns(editor, linear, merged, start, width));
    start += width;
  }
  for (const LinearOp& linear : linears) {
    erase_param(editor, linear.weight);
    if (linear.bias) erase_param(editor, *linear.bias);
    if (linear.module) editor.erase_module(linear.module);
  }
  return std::nullopt;
}

}  // namespace refx
