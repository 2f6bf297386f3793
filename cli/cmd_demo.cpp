// SPDX-License-Identifier: Apache-2.0

// refx demo: rewrites a small model, undoes one step out of order, then all of them.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "demo_model.h"
#include "output.h"
#include "refx/executor.h"
#include "refx/registry.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "summary.h"

namespace refx::cli {

namespace {

void print_log(const Model& model) {
  TextTable table({TextTable::right, TextTable::left, TextTable::left});
  for (const Step& step : model.history())
    table.row({std::to_string(step.id.value), step.transformation, step.site});
  say_table(table, 4);
}

void print_reversal(const Reversal& reversal) {
  for (const auto& [id, label, reapplied, known] : reversal.replaced) {
    std::vector<std::uint32_t> ids;
    for (StepId step : reapplied) ids.push_back(step.value);
    say("   step {} depended on it: {}\n", id.value,
        ids.empty() ? "dropped" : fmt::format("applied again as {}", fmt::join(ids, ", ")));
  }
}

at::Tensor output_of(Model& model) {
  const at::Tensor image = demo_image(at::kFloat);
  return model.forward({image}).toTensor().clone();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// A tensor of a model, and a copy of its values.
struct Kept {
  StateId id;
  at::Tensor tensor, values;
};

std::vector<Kept> keep(const Model& model) {
  std::vector<Kept> all;
  for (StateId id : model.state()) {
    const at::Tensor tensor(model.state().tensor(id));
    all.push_back({id, tensor, tensor.clone()});
  }
  return all;
}

std::size_t unchanged(const Model& model, const std::vector<Kept>& kept) {
  return static_cast<std::size_t>(std::count_if(kept.begin(), kept.end(), [&](const Kept& k) {
    const at::Tensor now(model.state().tensor(k.id));
    return now.is_same(k.tensor) && at::equal(now, k.values);
  }));
}

}  // namespace

int demo() {
  const at::NoGradGuard no_grad;
  const Model original = demo_model(at::kFloat);
  Model model = original;
  const std::string text = print(original);
  const std::vector<Kept> tensors = keep(original);
  const at::Tensor before = output_of(model);
  Model reference = demo_model(at::kDouble);
  const at::Tensor exact = reference.forward({demo_image(at::kDouble)}).toTensor();

  say("A small vision transformer: {}, {}.\n", count(total(operators(model)), "operator"),
      count(model.state().size(), "tensor"));

  say("\n{}\n", heading("1. Rewrite it"));
  for (const char* name : {"merge-linears", "change-true-div-to-mul-by-inverse",
                           "fuse-batch-norm-2d-in-conv-2d", "fuse-batch-norm-1d-in-linear"})
    find_transformation(name)(model);
  apply(model, find_transformation("fuse-bias-in-linear"), {.site = {"*-merged"}});
  print_log(model);
  say_table(changes(operators(original), operators(model)), 3);

  say("\n{}\n", heading("2. The results are the same"));
  const at::Tensor after = output_of(model);
  say("   error against fp64: {:.1e} before, {:.1e} after; outputs are up to {:.1f}\n",
      distance(before, exact), distance(after, exact), exact.abs().max().item<double>());

  say("\n{}\n", heading("3. Undo step 1, the oldest; the others remain"));
  print_reversal(reverse(model, StepId(1)));
  print_log(model);
  say("   error against fp64: {:.1e}\n", distance(output_of(model), exact));

  say("\n{}\n", heading("4. Undo the rest"));
  const std::size_t reversed = reverse_all(model).reversed.size();
  const std::size_t same = unchanged(model, tensors);
  const bool same_text = print(model) == text;
  const bool same_output = at::equal(output_of(model), before);
  const bool identical =
      same_text && same_output && same == tensors.size() && same == model.state().size();
  say("   {} reversed, {} left\n", count(reversed, "step"), model.history().size());
  say("   graph, names, order:  {}\n", same_text ? "identical" : "DIFFERENT");
  say("   tensors:              {} of {} the same, bit for bit\n", same, tensors.size());
  say("   output:               {}\n", same_output ? "identical, bit for bit" : "DIFFERENT");
  return identical ? kDone : kNo;
}

}  // namespace refx::cli
