// SPDX-License-Identifier: Apache-2.0

// Before:   y = x / c                      c a finite, non-zero constant
// After:    y = x * (1/c)
// Refuses:  integer x; a c that is zero, not finite, trainable or changed by the model; a c whose
//           inverse is not a normal number in the dtype of the computation; a rounding mode;
//           division in place
// Numerics: 1/c is rounded, too: results differ by at most 1 ulp

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/reciprocal.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "book/result_types.h"
#include "ops/div.h"
#include "ops/writes.h"
#include "refx/transforms.h"

namespace refx {

namespace {

// Half types are computed with in single precision.
bool computes_in_double(const Model& model, const DivOp& div) {
  return book::known_dtype(model, div.input) == c10::ScalarType::Double;
}

std::optional<Reason> why_not_invertible(double c, bool in_double) {
  if (c == 0) return because<ReasonId::divides_by_zero>();
  if (!std::isfinite(c)) return because<ReasonId::divisor_not_finite>();
  const double inverse = 1 / c;
  const bool normal = in_double ? std::isnormal(inverse) && std::isnormal(c)
                                : std::isnormal(static_cast<float>(inverse)) &&
                                      std::isnormal(static_cast<float>(c));
  if (!normal) return because<ReasonId::inverse_not_normal>(fmt::to_string(c));
  return std::nullopt;
}

std::optional<Reason> why_not_constant(const Model& model, const Param& divisor,
                                       LazyWrites& writes) {
  const StateEntry& entry = model.state()[divisor.state];
  if (entry.kind == StateKind::parameter || entry.tensor.requires_grad())
    return because<ReasonId::divisor_is_parameter>(entry.name);
  if (model.state().storage_sharers(divisor.state) > 1)
    return because<ReasonId::divisor_memory_shared>(entry.name);
  if (is_mutated(model, entry.name)) return because<ReasonId::divisor_changed_by_model>(entry.name);
  if (const auto owner = called_owner(model, entry.name); !owner.empty())
    return because<ReasonId::divisor_part_of_called_module>(entry.name, owner);
  for (NodeId reader : model.graph().readers(entry.name))
    if (writes.between(reader, reader, model.graph().last()))
      return because<ReasonId::divisor_written>(entry.name);
  return std::nullopt;
}

// A tensor without dimensions does not promote what it divides.
bool computes_in_double(const Model& model, const DivOp& div, const at::Tensor& divisor) {
  const bool promotes = divisor.scalar_type() == at::kDouble && divisor.dim() > 0;
  return promotes || computes_in_double(model, div);
}

std::optional<Reason> why_not_invertible(const Model& model, const DivOp& div) {
  const Param& divisor = *div.tensor;
  if (auto why = why_not_readable(model, divisor)) return why;
  const at::Tensor c = tensor_of(model, divisor);
  if (c.scalar_type() != at::kFloat && c.scalar_type() != at::kDouble)
    return because<ReasonId::inverse_loses_precision>(c10::toString(c.scalar_type()));
  const at::Tensor values = c.detach().to(at::kDouble);
  if (values.eq(0).any().item<bool>()) return because<ReasonId::divides_by_zero>();
  if (!at::isfinite(values).all().item<bool>()) return because<ReasonId::divisor_not_finite>();
  const double smallest = computes_in_double(model, div, c) ? std::numeric_limits<double>::min()
                                                            : std::numeric_limits<float>::min();
  const at::Tensor size = values.abs();
  if (size.lt(smallest).any().item<bool>() || size.gt(1 / smallest).any().item<bool>())
    return because<ReasonId::divisor_inverse_not_normal>();
  return std::nullopt;
}

std::optional<Reason> why_not(const Model& model, const DivOp& div, LazyWrites& writes) {
  if (div.problem) return div.problem;
  if (div.number) return why_not_invertible(*div.number, computes_in_double(model, div));
  if (auto why = why_not_constant(model, *div.tensor, writes)) return why;
  return why_not_invertible(model, div);
}

Param add_inverse(Editor& editor, const DivOp& div) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor c = tensor_of(editor.model(), *div.tensor).detach();
  const std::string name =
      editor.state().fresh_name(editor.state()[div.tensor->state].name + "_inverse");
  // Where a double is divided by floats, the inverse must be as exact as the division.
  const auto dtype = computes_in_double(editor.model(), div) ? at::kDouble : c.scalar_type();
  const at::Tensor inverse = at::reciprocal(c.to(at::kDouble)).to(dtype);
  return add_param(editor, *div.tensor, name, inverse, div.node);
}

}  // namespace

Findings ChangeTrueDivToMulByInverse::find(const Model& model) const {
  Findings findings;
  LazyWrites writes(model);
  for (NodeId id : model.graph()) {
    const auto div = DivOp::match(model, id);
    if (!div) continue;
    Site site{.nodes = {id}};
    findings.add(std::move(site), why_not(model, *div, writes));
  }
  return findings;
}

std::optional<Reason> ChangeTrueDivToMulByInverse::apply(Editor& editor, const Site& site) const {
  const DivOp div = *DivOp::match(editor.model(), site.nodes[0]);
  if (div.number) {
    editor.set_node(div.node, div.as_multiplication(editor.model(), 1 / *div.number));
    return std::nullopt;
  }
  const Param inverse = add_inverse(editor, div);
  editor.set_node(div.node, div.as_multiplication(editor.model(), inverse.node));
  if (editor.graph().num_users(div.tensor->node) == 0 &&
      editor.graph().num_readers(editor.state()[div.tensor->state].name) == 1)
    erase_param(editor, *div.tensor);
  return std::nullopt;
}

}  // namespace refx
