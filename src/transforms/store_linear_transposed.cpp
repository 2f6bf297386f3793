// SPDX-License-Identifier: Apache-2.0

// Before:   y = linear(x, W, b)     W in float32 on a CPU, stored row by row
// After:    y = linear(x, W, b)     W stored column by column, with the same values
// Refuses:  shared, quantized, sparse or computed weights; modules with hooks or called twice
// Numerics: the same products; the matrix library may sum them in another order
//
// Not in `all`: with this layout, matrix libraries are faster on one thread for inputs of up to a
// few hundred rows, and may be slower otherwise. `refx tune` measures it.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include "ops/layer.h"
#include "refx/transforms.h"

namespace refx {

namespace {

// A weight that is one row or one column has no other layout.
bool is_stored_by_rows(const at::TensorBase& weight) {
  return weight.scalar_type() == at::kFloat && weight.device().is_cpu() && weight.dim() == 2 &&
         weight.size(0) > 1 && weight.size(1) > 1 && weight.is_contiguous();
}

}  // namespace

Findings StoreLinearTransposed::find(const Model& model) const {
  Findings findings;
  for (NodeId id : model.graph()) {
    const auto linear = LinearOp::match(model, id);
    if (!linear || !linear->weight.state) continue;
    if (!is_stored_by_rows(model.state().tensor(linear->weight.state))) continue;
    findings.add({.nodes = {id}}, linear->problem);
  }
  return findings;
}

std::optional<Reason> StoreLinearTransposed::apply(Editor& editor, const Site& site) const {
  const c10::InferenceMode ordinary_tensors(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const LinearOp linear = LinearOp::at(editor.model(), site.nodes[0]);
  const at::Tensor weight = tensor_of(editor.model(), linear.weight);
  const std::int64_t rows = weight.size(0);
  at::Tensor stored = at::empty_strided(weight.sizes(), {1, rows}, weight.options());
  stored.copy_(weight).set_requires_grad(weight.requires_grad());
  set_param(editor, linear.weight, stored);
  editor.add_piece({linear.weight.state, linear.weight.state, 0, 0, rows});
  return std::nullopt;
}

}  // namespace refx
