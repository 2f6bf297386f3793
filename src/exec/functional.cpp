// SPDX-License-Identifier: Apache-2.0

#include "book/functions.h"
#include "exec/lowering.h"
#include "exec/python_ops.h"
#include "exec/resize.h"
#include "refx/error.h"

namespace refx::exec {
namespace {

bool is_false(const Operand* o) {
  return o && o->kind == OperandKind::boolean && !o->constant.toBool();
}

// x / max(||x||, eps)
Operand normalize(Compiler& out, const NamedOperands& a) {
  Operand x = *find_named(a, "input");
  Operand dim = Operand::nest(Operand::Form::list, {*find_named(a, "dim")});
  Operand norm = out.call("aten.norm.ScalarOpt_dim", {x, *find_named(a, "p"), dim, true});
  Operand floor = out.call("aten.clamp_min.default", {norm, *find_named(a, "eps")});
  return out.call("aten.div.Tensor", {x, out.call("aten.expand_as.default", {floor, x})});
}

Operand interpolated(Compiler& out, const NamedOperands& a) {
  std::vector<Operand> values;
  for (const auto& [name, value] : a) values.push_back(value);
  return out.call_native(interpolate, std::move(values));
}

}  // namespace

std::optional<Operand> lower_functional(Compiler& out, std::string_view name,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs) {
  const book::Function* function = book::find_function(name);
  if (!function) return std::nullopt;
  const NamedOperands a = bind_signature(function->signature, args, kwargs);
  if (function->op == "normalize") return normalize(out, a);
  if (function->op == "interpolate") return interpolated(out, a);
  // torch renormalizes the rows of the weight in place, and the executor shares weights with the
  // model.
  if (const Operand* norm = find_named(a, "max_norm"); norm && !norm->is_none())
    throw Error("embedding with max_norm changes its weight; it cannot run");
  if (const Operand* indices = find_named(a, "return_indices"); indices && !is_false(indices))
    throw Error("return_indices is not supported; call aten." + std::string(name) +
                "_with_indices");
  return lower(out, function->operation, a);
}

}  // namespace refx::exec
