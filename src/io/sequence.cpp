// SPDX-License-Identifier: Apache-2.0

// Sequences of calls for models that keep state.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "book/call.h"
#include "exec/own_state.h"
#include "io/generate.h"
#include "io/placeholders.h"
#include "refx/error.h"
#include "refx/inputs.h"
#include "util/size_expression.h"

namespace refx {

namespace {

using c10::IValue;
using Values = std::vector<IValue>;

bool is_integer(const TypePtr& type) {
  return type && c10::isIntegralType(type->dtype, /*includeBool=*/false);
}

// ---- roles -------------------------------------------------------------------------------------

// Finds the inputs from which the positions of writes into state are computed.
class Positions {
 public:
  explicit Positions(const Model& model) : model_(model) {
    for (StateId id : written_state(model)) written_.emplace(model.state()[id].name);
    for (NodeId id : model.graph()) visit(id, model.graph()[id]);
  }

  // Whether an index of such a write is computed from the input through integers only.
  bool is_position(NodeId input) const {
    std::vector<NodeId> queue = {input};
    std::unordered_set<NodeId> seen = {input};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (indices_.count(queue[i])) return true;
      for (NodeId user : model_.graph().users(queue[i])) {
        const Node& node = model_.graph()[user];
        if (gives_whole_numbers(node) && seen.insert(user).second) queue.push_back(user);
      }
    }
    return false;
  }

 private:
  // Follows the memory of written state, and of the new values that are to replace it.
  void visit(NodeId id, const Node& node) {
    if (const std::string_view name = bound_state(node); !name.empty()) {
      if (written_.count(std::string(name))) memory_.insert(id);
      return;
    }
    if (node.args.empty() || !node.args[0].get<NodeId>() ||
        !memory_.count(*node.args[0].get<NodeId>()))
      return;
    const book::Call call(model_, node);
    const book::Effect effect = book::effect_of(model_, node);
    if (!effect.views && !effect.writes_first && !is_functional_write(call.name())) return;
    memory_.insert(id);
    for (const char* name : {"index", "indices", "start", "end"})
      if (const auto index = call.takes(name) ? call.argument(name) : std::nullopt)
        for_each_node(*index, [&](NodeId value) { indices_.insert(value); });
    if ((node.target == "operator.setitem" || node.target == "operator.getitem") &&
        node.args.size() > 1)
      for_each_node(node.args[1], [&](NodeId value) { indices_.insert(value); });
  }

  static bool is_functional_write(std::string_view name) {
    return name == "index_copy" || name == "index_put" || name == "index_add" ||
           name == "scatter" || name == "slice_scatter" || name == "select_scatter";
  }

  bool gives_whole_numbers(const Node& node) const {
    if (node.type) return is_integer(node.type);
    const book::Call call(model_, node);
    return call.is("item") || call.is("_local_scalar_dense") ||
           node.target.starts_with("operator.");
  }

  const Model& model_;
  std::unordered_set<std::string> written_;
  std::unordered_set<NodeId> memory_, indices_;
};

bool is_called_position(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return tolower(c); });
  return name.find("position") != name.npos;
}

// ---- steps -------------------------------------------------------------------------------------

// Whether a floating-point input is a mask: zeros and ones, or zeros and large negative numbers.
bool is_mask(const at::Tensor& tensor) {
  // Models add a number from -1e4 (the usual choice for float16) to -inf to excluded scores.
  constexpr double kExcludes = -1e4;
  const at::Tensor values = tensor.detach().cpu().to(at::kDouble);
  return values.eq(0).logical_or(values.eq(1)).logical_or(values.le(kExcludes)).all().item<bool>();
}

// Whether each row is n, n+1, n+2 …
bool counts(const at::Tensor& tensor) {
  return tensor.dim() > 0 && tensor.size(-1) > 1 && tensor.diff().eq(1).all().item<bool>();
}

class Steps {
 public:
  explicit Steps(const Model& model)
      : model_(model), placeholders_(user_placeholders(model)), roles_(input_roles(model)) {
    find_length();
  }

  // The inputs of the call after `before`; `fresh` are generated ones.
  Values after(const Values& before, const Values& fresh) const {
    const std::int64_t taken = length_of(before);
    Values next;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!before[i].isTensor()) {
        next.push_back(before[i]);
        continue;
      }
      const at::Tensor& old = before[i].toTensor();
      if (roles_[i] == InputRole::position)
        next.push_back(advanced(i, old, taken));
      else if (roles_[i] == InputRole::fresh && !(old.is_floating_point() && is_mask(old)))
        next.push_back(cut(i, fitted(fresh[i].toTensor(), old)));
      else
        next.push_back(cut(i, old));
    }
    return next;
  }

 private:
  // The symbol of the number of tokens: the last size of positions, otherwise of token ids.
  void find_length() {
    for (const bool positions : {true, false})
      for (std::size_t i = 0; i < placeholders_.size() && length_.empty(); ++i) {
        const TypePtr& type = model_.graph()[placeholders_[i]].type;
        const InputRole wanted = positions ? InputRole::position : InputRole::fresh;
        if (roles_[i] != wanted || !is_integer(type) || type->sizes.empty()) continue;
        const Dim& last = type->sizes.back();
        if (last.known() || !is_symbol(last.expr)) continue;
        length_ = last.expr;
        step_ = std::max<std::int64_t>(1, bounds_of(model_, length_).min);
      }
  }

  // The number of tokens of a call.
  std::int64_t length_of(const Values& inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (roles_[i] == InputRole::fresh && is_integer(model_.graph()[placeholders_[i]].type) &&
          inputs[i].isTensor() && inputs[i].toTensor().dim() > 1)
        return inputs[i].toTensor().size(-1);
    return 1;
  }

  // The last elements along every dimension that counts tokens.
  at::Tensor cut(std::size_t i, at::Tensor tensor) const {
    const TypePtr& type = model_.graph()[placeholders_[i]].type;
    for (std::size_t dim = 0; type && !length_.empty() && dim < type->sizes.size(); ++dim) {
      if (type->sizes[dim].known() || type->sizes[dim].expr != length_) continue;
      const auto at = static_cast<std::int64_t>(dim);
      const std::int64_t size = tensor.size(at), kept = std::min(size, step_);
      tensor = tensor.narrow(at, size - kept, kept);
    }
    return tensor.contiguous();
  }

  // Keeps the batch and other sizes of the first call.
  static at::Tensor fitted(at::Tensor fresh, const at::Tensor& like) {
    for (std::int64_t dim = 0; dim < like.dim(); ++dim) {
      if (fresh.size(dim) == like.size(dim) || fresh.size(dim) == 0) continue;
      fresh = fresh.index_select(
          dim, at::arange(like.size(dim), at::TensorOptions(at::kLong).device(fresh.device()))
                   .remainder(fresh.size(dim)));
    }
    return fresh;
  }

  at::Tensor advanced(std::size_t i, const at::Tensor& old, std::int64_t taken) const {
    if (!counts(old)) return cut(i, old) + taken;
    const at::Tensor last = old.narrow(-1, old.size(-1) - 1, 1);
    return last + at::arange(1, cut(i, old).size(-1) + 1, old.options());
  }

  const Model& model_;
  const std::vector<NodeId> placeholders_;
  const std::vector<InputRole> roles_;
  std::string length_;  // empty: it is fixed
  std::int64_t step_ = 1;
};

}  // namespace

std::vector<InputRole> input_roles(const Model& model) {
  const Positions positions(model);
  std::vector<InputRole> roles;
  for (NodeId id : user_placeholders(model)) {
    const Node& node = model.graph()[id];
    InputRole role = InputRole::fixed;
    if (is_integer(node.type) && (is_called_position(node.name) || positions.is_position(id)))
      role = InputRole::position;
    else if (node.type && (c10::isFloatingType(node.type->dtype) ||
                           (is_integer(node.type) && smallest_table(model, id))))
      role = InputRole::fresh;
    roles.push_back(role);
  }
  return roles;
}

Inputs with_steps(const Model& model, Inputs first, int steps, std::uint64_t seed) {
  if (steps < 0) throw Error(fmt::format("the number of steps must be 0 or more, not {}", steps));
  if (steps == 0) return first;
  if (!first.next.empty()) throw Error("give a list of calls or a number of steps, not both");
  const Steps rule(model);
  for (int i = 1; i <= steps; ++i) {
    const Values fresh = generated_inputs(model, seed + static_cast<std::uint64_t>(i));
    first.next.push_back(rule.after(first.call(first.calls() - 1), fresh));
  }
  first.origin += fmt::format(", then {} step{}", steps, steps == 1 ? "" : "s");
  return first;
}

}  // namespace refx
