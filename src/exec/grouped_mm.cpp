// SPDX-License-Identifier: Apache-2.0

#include "exec/grouped_mm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "book/meanings.h"
#include "refx/error.h"

namespace refx::exec {
namespace {

at::Tensor multiply_groups(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& offs) {
  const bool fits = input.dim() == 2 && weight.dim() == 3 && offs.dim() == 1 &&
                    offs.size(0) == weight.size(0) && input.size(1) == weight.size(1) &&
                    c10::isIntegralType(offs.scalar_type(), /*includeBool=*/false);
  if (!fits)
    throw Error(
        "a grouped matrix product expects an input [rows, in], a weight [groups, in, out] and the "
        "integer end of each group");
  at::Tensor output = at::zeros({input.size(0), weight.size(2)}, input.options());
  const at::Tensor ends = offs.to(at::kCPU, at::kLong);
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < ends.size(0); ++i) {
    const std::int64_t end = ends[i].item<std::int64_t>();
    if (end < start || end > input.size(0))
      throw Error(
          fmt::format("group {} of a grouped matrix product ends at row {}, not between "
                      "{} and {}",
                      i, end, start, input.size(0)));
    if (end == start) continue;
    at::Tensor rows = output.slice(0, start, end);
    at::mm_out(rows, input.slice(0, start, end), weight.select(0, i));
    start = end;
  }
  return output;
}

}  // namespace

c10::IValue grouped_mm_fallback(const NativeCall& call) {
  return multiply_groups(call.tensor(0), call.tensor(1), call.tensor(2));
}

c10::IValue grouped_mm(const NativeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1), offs = call.tensor(2);
  if (input.scalar_type() == at::kDouble && weight.dim() == 3)
    return multiply_groups(input, weight, offs);
  return at::_grouped_mm(input, weight, offs);
}

std::optional<Operand> lower_grouped_mm(Compiler& out, std::string_view target,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs) {
  const bool fallback = target == book::kGroupedMmFallback;
  if (!fallback && target != "aten._grouped_mm.default") return std::nullopt;
  std::vector<Operand> operands = args;
  // A bias and another dtype for the result are left to aten.
  if (kwargs.size() == 1 && kwargs[0].first == "offs") operands.push_back(kwargs[0].second);
  const bool plain = operands.size() == args.size() + kwargs.size() && operands.size() == 3;
  if (!plain && !fallback) return std::nullopt;
  if (!plain) throw Error("it takes an input, a weight and offs");
  return out.call_native(fallback ? grouped_mm_fallback : grouped_mm, std::move(operands));
}

}  // namespace refx::exec
