// SPDX-License-Identifier: Apache-2.0

#include "lab/check/trial.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/run/run_once.h"
#include "lab/verify/in_double.h"
#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "refx/undo.h"
#include "refx/validate.h"
#include "refx/verify.h"
#include "util/first_line.h"
#include "util/size_expression.h"

namespace refx::checking {

namespace {

RuleTrial failure(std::string kind, std::string why) {
  return {RuleTrial::failed, std::move(why), std::move(kind)};
}

bool concerns(const Site& site, const Instance& instance) {
  return std::find(site.nodes.begin(), site.nodes.end(), instance.results[0]) != site.nodes.end();
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> all;
  for (const Leaf& leaf : leaves(value))
    if (leaf.value.isTensor()) all.push_back(leaf.value.toTensor());
  return all;
}

std::vector<at::Tensor> results_of(const Model& model, const std::vector<c10::IValue>& inputs) {
  const at::NoGradGuard no_grad;
  return tensors_of(Executor(model).run(copies(inputs)));
}

bool is_finite(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return !at::isFloatingType(tensor.scalar_type()) || at::isfinite(tensor).all().item<bool>();
  });
}

// ---- types -------------------------------------------------------------------------------------

// Compares the types that the graph records with those of the values in a run.
std::string why_another_type(const Model& model, const std::vector<c10::IValue>& inputs) {
  std::vector<NodeId> nodes;
  Tuple outputs;
  for (NodeId id : model.graph())
    if (model.graph()[id].op == Opcode::call_function && model.graph()[id].type) {
      nodes.push_back(id);
      outputs.items.push_back(id);
    }
  if (nodes.empty()) return "";
  Model all = model;
  Editor editor(all);
  editor.set_arg(all.graph().output(), 0, std::move(outputs));
  editor.commit_without_step();
  const c10::IValue values = Executor(all).run(copies(inputs));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = model.graph()[nodes[i]];
    const c10::IValue& value = values.toTupleRef().elements()[i];
    if (!value.isTensor()) continue;
    TensorType recorded = *node.type;
    for (Dim& dim : recorded.sizes)
      if (const auto size = evaluate_size(dim.expr, {{"s0", kSymbol}}); !dim.known() && size)
        dim = *size;
    const TypePtr real = type_of(value.toTensor());
    if (recorded.dtype != real->dtype || recorded.sizes != real->sizes) {
      TensorType shown = *real;
      shown.strides.clear();
      recorded.strides.clear();
      return fmt::format("'{}' is recorded as {}, but is {}", node.name, print(recorded),
                         print(shown));
    }
  }
  return "";
}

// ---- numbers -----------------------------------------------------------------------------------

double largest_of(const Instance& instance) {
  double largest = 0;
  auto look = [&](const at::Tensor& tensor) {
    if (tensor.numel() == 0) return;
    const double most = tensor.detach().to(at::kDouble).abs().max().item<double>();
    if (std::isfinite(most)) largest = std::max(largest, most);
  };
  for (const c10::IValue& input : instance.inputs) look(input.toTensor());
  for (StateId id : instance.model.state()) look(at::Tensor(instance.model.state().tensor(id)));
  return largest;
}

// Weights of fp16 below this lose digits: the smallest normal number is 6e-5.
constexpr double kTiny = 1e-4;
// Two cases in which rounding explains an error, but the noise of verify() does not show it:
// nothing is left of the inputs, as in x - mean(x) of a single number, so the error is relative to
// the inputs; and a weight that is computed once, in fp64, is rounded to its dtype again.
bool is_rounding(const OutputCheck& output, const Instance& instance, const Rule& rule,
                 double rounding) {
  if (output.passed()) return true;
  const double part = kFreeRoundings * rounding;
  const double largest = largest_of(instance);
  const double weights =
      rule.definition().once ? part * (output.scale + kTiny * std::max(largest, 1.0)) : 0;
  return !output.exact && output.fp64_error.error <= std::max(output.fp64_error.allowed, weights) &&
         output.native_error.error <= part * std::max(output.scale, largest);
}

std::string why_other_numbers(const Rule& rule, const Instance& instance, const Model& after,
                              const std::vector<at::Tensor>& results, bool& compared) {
  Model plain = after;
  forget(plain);
  VerifyOptions options;
  options.against = &instance.model;
  if (!instance.symbolic && !instance.inputs.empty())
    options.measure.inputs = {instance.inputs, "random"};
  const Verification verification = verify(plain, options);
  const VerifyVerdict answer = verification.answer();
  compared = answer == VerifyVerdict::pass || answer == VerifyVerdict::fail;  // else it cannot tell
  if (answer != VerifyVerdict::fail) return "";
  double coarsest = 0;
  for (const at::Tensor& result : results)
    if (is_approximate(result.scalar_type()))
      coarsest = std::max(coarsest, rounding(result.scalar_type()));
  for (const SetCheck& set : verification.sets)
    for (const OutputCheck& output : set.outputs)
      if (output.answer == VerifyVerdict::fail && !is_rounding(output, instance, rule, coarsest))
        return output.path + ": " + output.problem;
  return "";
}

// Elements that are finite in the original must stay finite if some inputs are extreme: zeros,
// numbers whose squares overflow fp16 (1e3) or that nearly do by themselves (3e4), and numbers that
// fp16 rounds to subnormals (1e-7).
std::string why_not_finite(const Instance& instance, const Model& after) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  static constexpr double kExtremes[] = {0.0, -0.0, 1e3, -1e3, 3e4, -3e4, 1e-7, -1e-7};
  std::vector<c10::IValue> inputs;
  for (const c10::IValue& input : instance.inputs) {
    const at::Tensor& tensor = input.toTensor();
    if (!at::isFloatingType(tensor.scalar_type()) || tensor.numel() == 0) {
      inputs.push_back(input);
      continue;
    }
    // About a quarter of the elements are extreme.
    const at::Tensor which = at::randint(0, 30, tensor.sizes(), generator, at::kLong);
    at::Tensor values = tensor.clone();
    for (std::size_t i = 0; i < std::size(kExtremes); ++i)
      values = values.masked_fill(which.eq(static_cast<std::int64_t>(i)), kExtremes[i]);
    inputs.emplace_back(values);
  }
  const auto was = results_of(instance.model, inputs);
  const auto is = results_of(after, inputs);
  for (std::size_t i = 0; i < was.size(); ++i) {
    if (!at::isFloatingType(was[i].scalar_type()) || was[i].sizes() != is[i].sizes()) continue;
    if (at::isfinite(was[i]).logical_and(at::isfinite(is[i]).logical_not()).any().item<bool>())
      return "a result is no longer finite if the inputs contain 0, 1e-7 and 3e4";
  }
  return "";
}

// ---- undo --------------------------------------------------------------------------------------

std::string why_not_undone(const Model& before, Model after) {
  reverse_all(after);
  if (print(after) != print(before)) return "after the reversal the model differs";
  for (StateId id : before.state()) {
    const at::TensorBase& was = before.state().tensor(id);
    const StateId now = after.state().find(before.state()[id].name);
    if (!now || after.state().tensor(now).unsafeGetTensorImpl() != was.unsafeGetTensorImpl())
      return fmt::format("after the reversal '{}' is another tensor", before.state()[id].name);
  }
  return "";
}

}  // namespace

RuleTrial attempt(const Rule& rule, const Instance& instance) try {
  const Findings findings = rule.find(instance.model);
  const bool found = std::any_of(findings.sites.begin(), findings.sites.end(),
                                 [&](const Site& site) { return concerns(site, instance); });
  if (!found) {
    for (const Refusal& refusal : findings.refusals)
      if (concerns(refusal.site, instance)) return {RuleTrial::refused, to_string(refusal.reason)};
    return {RuleTrial::missed, "the rule does not match", "missed"};
  }
  Model after = instance.model;
  if (rule(after).steps.empty()) return failure("apply", "the rule matches, but changes nothing");
  if (const auto wrongs = problems(after); !wrongs.empty())
    return failure("validate", "the rewritten model is invalid: " + wrongs[0]);
  if (std::string why = why_not_undone(instance.model, after); !why.empty())
    return failure("undo", std::move(why));
  const auto was = results_of(instance.model, instance.inputs);
  std::vector<at::Tensor> is;
  try {
    is = results_of(after, instance.inputs);
  } catch (const Error& error) {
    return failure("run",
                   fmt::format("the rewritten model does not run: {}", first_line(error.what())));
  }
  for (std::size_t i = 0; i < was.size(); ++i) {
    TensorType x = *type_of(was[i]), y = *type_of(is[i]);
    x.strides.clear();
    y.strides.clear();
    if (!(x.dtype == y.dtype && x.sizes == y.sizes))
      return failure("type", fmt::format("its result is {} instead of {}", print(y), print(x)));
  }
  if (std::string why = why_another_type(after, instance.inputs); !why.empty())
    return failure("type", std::move(why));
  RuleTrial trial{RuleTrial::found};
  if (!rule.preserves_computation()) return trial;
  if (is_finite(was)) {
    if (!is_finite(is)) return failure("finite", "the result is no longer finite");
    try {
      if (std::string why = why_other_numbers(rule, instance, after, was, trial.compared);
          !why.empty())
        return failure("numbers", std::move(why));
    } catch (const Error&) {  // verify() cannot run the instance, for example on other inputs
    }
  }
  if (std::string why = why_not_finite(instance, after); !why.empty())
    return failure("finite", std::move(why));
  return trial;
} catch (const InternalError& error) {
  return failure("apply", fmt::format("internal error: {}", first_line(error.what())));
} catch (const Error& error) {
  return failure("apply", first_line(error.what()));
}

}  // namespace refx::checking
