// SPDX-License-Identifier: Apache-2.0

#include "kit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "oracle.h"
#include "refx/error.h"
#include "refx/explain.h"

namespace refx::testing {

namespace {

at::Tensor random_like(const at::Tensor& like, std::string_view name, at::Generator& generator) {
  if (at::isFloatingType(like.scalar_type()) || at::isComplexType(like.scalar_type())) {
    at::Tensor values = at::randn(like.sizes(), generator, at::kDouble);
    if (name.ends_with("var")) values = values.abs() + 0.5;
    return values.to(like.scalar_type());
  }
  return at::randint(0, 3, like.sizes(), generator, at::kLong).to(like.scalar_type());
}

std::string bits(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* bytes = static_cast<const char*>(flat.const_data_ptr());
  return std::string(bytes, flat.nbytes());
}

std::string hash(const std::string& text) {
  return fmt::format("{:016x}", std::hash<std::string>{}(text));
}

std::vector<std::int64_t> sizes_of(const TensorType& type) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.sizes) sizes.push_back(dim.value >= 0 ? dim.value : 2);
  return sizes;
}

}  // namespace

void fill(const Model& model, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (StateId id : model.state()) {
    at::Tensor tensor(model.state().tensor(id));
    tensor.detach().copy_(random_like(tensor, model.state()[id].name, generator));
  }
}

Model parse_filled(std::string_view text, std::uint64_t seed) {
  Model model = parse(text);
  fill(model, seed);
  return model;
}

std::vector<c10::IValue> random_inputs(const Model& model, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed + 1000);
  std::vector<c10::IValue> inputs;
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (node.op != Opcode::placeholder || !node.state.empty()) continue;
    TensorType type;
    type.sizes = {2, 4};
    if (node.type) type = *node.type;
    inputs.emplace_back(
        random_like(at::empty(sizes_of(type), at::dtype(type.dtype)), node.name, generator));
  }
  return inputs;
}

namespace {

// The model without history, each tensor replaced.
Model with_tensors(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& make) {
  Model copy = model;
  forget(copy);
  Editor editor(copy);
  for (StateId id : model.state()) {
    const at::Tensor old(model.state().tensor(id));
    editor.set_state(id, make(old.detach()).set_requires_grad(old.requires_grad()));
  }
  editor.commit_as_origin();
  return copy;
}

}  // namespace

Model deep_copy(const Model& model) {
  return with_tensors(model, [](const at::Tensor& tensor) { return tensor.clone(); });
}

std::string content(const Model& model) {
  std::string text = print(model);
  for (StateId id : model.state()) {
    const at::Tensor tensor(model.state().tensor(id));
    text += fmt::format("{} {}\n", model.state()[id].name, hash(bits(tensor)));
  }
  return text;
}

std::string snapshot(const Model& model) {
  std::string text = content(model);
  text += "nodes";
  for (NodeId id : model.graph()) text += fmt::format(" {}", id.value);
  text += "\nmodules";
  for (ModuleId id : model.modules()) text += fmt::format(" {}", id.value);
  for (StateId id : model.state()) {
    const at::Tensor tensor(model.state().tensor(id));
    text += fmt::format("\n{} {}: tensor {} storage {} strides {} requires_grad {}", id.value,
                        model.state()[id].name, fmt::ptr(tensor.unsafeGetTensorImpl()),
                        fmt::ptr(tensor.storage().unsafeGetStorageImpl()),
                        c10::str(tensor.strides()), tensor.requires_grad());
  }
  return text;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  std::vector<at::Tensor> all;
  auto append = [&](const c10::IValue& item) {
    for (const at::Tensor& tensor : tensors_in(item)) all.push_back(tensor);
  };
  if (value.isTuple())
    for (const c10::IValue& item : value.toTupleRef().elements()) append(item);
  else if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(tensor);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) append(item);
  else if (value.isGenericDict())
    for (const auto& item : value.toGenericDict()) append(item.value());
  return all;
}

namespace {

double epsilon(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-11;  // the reference is as inaccurate, and batch norms amplify errors
    case at::kHalf:
      return 1e-3;
    case at::kBFloat16:
      return 8e-3;
    default:
      return 1.2e-7;
  }
}

std::vector<c10::IValue> copies(const std::vector<c10::IValue>& inputs) {
  std::vector<c10::IValue> result;
  for (const c10::IValue& input : inputs)
    result.push_back(input.isTensor() ? c10::IValue(input.toTensor().clone()) : input);
  return result;
}

}  // namespace

namespace {

// In fp64, unless the model looks at the bits of its values, which are others there.
std::vector<at::Tensor> exact_results(const Model& model, const std::vector<c10::IValue>& inputs) {
  try {
    return results_in_double(model, inputs);
  } catch (const Error&) {
    Model copy = deep_copy(model);
    return tensors_in(copy.forward(copies(inputs)));
  }
}

}  // namespace

void expect_same_results(const Model& first, const Model& second,
                         const std::vector<c10::IValue>& inputs) {
  Model a = deep_copy(first), b = deep_copy(second);
  const auto x = tensors_in(a.forward(copies(inputs)));
  const auto y = tensors_in(b.forward(copies(inputs)));
  const auto reference = exact_results(first, inputs);
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i].sizes(), y[i].sizes());
    ASSERT_EQ(x[i].scalar_type(), y[i].scalar_type());
    if (x[i].numel() == 0) continue;
    if (!at::isFloatingType(x[i].scalar_type())) {
      EXPECT_TRUE(at::equal(x[i], y[i])) << "output " << i;
      continue;
    }
    // A range may be left on the way of one form and not of the other: what is a number stays one,
    // and what becomes one is the right one.
    const at::Tensor before = at::isfinite(x[i]), after = at::isfinite(y[i]);
    EXPECT_TRUE(at::equal(before.logical_and(after), before)) << "output " << i << " of\n"
                                                              << print(b);
    auto error_of = [&](const at::Tensor& t, const at::Tensor& where) {
      const at::Tensor error = (t.to(at::kDouble) - reference[i].to(at::kDouble)).abs();
      return at::where(where, error, 0.0).max().item<double>();
    };
    const at::Tensor truth = reference[i].to(at::kDouble).abs();
    const double size = at::where(after, truth, 0.0).max().item<double>() + 1;
    const double allowed = 16 * error_of(x[i], before) + 32 * epsilon(x[i].scalar_type()) * size;
    const double error = error_of(y[i], after);
    EXPECT_LE(error, allowed) << "output " << i << " of\n" << print(b);
  }
}

namespace {

// What every application must be: valid, of the same results, reversible and redoable exactly.
void expect_reversible(const Transformation& transformation, const Model& original, Model& model) {
  const std::string before = snapshot(original);
  validate(model);
  expect_same_results(original, model, random_inputs(original));
  const std::string after = snapshot(model);
  const std::size_t steps = model.history().size();

  transformation(model, Reverse::yes);
  validate(model);
  EXPECT_EQ(snapshot(model), before) << "after reversing " << transformation.name();
  for (std::size_t i = 0; i < steps; ++i) EXPECT_TRUE(redo(model));
  EXPECT_FALSE(redo(model));
  validate(model);
  EXPECT_EQ(snapshot(model), after) << "after redoing " << transformation.name();
}

}  // namespace

Model expect_rewritten(const std::string& name, std::string_view before, std::string_view after) {
  return expect_rewritten(find_transformation(name), before, after);
}

Model expect_rewritten(const Transformation& transformation, std::string_view before,
                       std::string_view after) {
  const Model original = parse_filled(before);
  Model model = original;
  transformation(model);
  // The text may leave out what parse fills in.
  EXPECT_EQ(print(model), print(parse(after)));
  expect_reversible(transformation, original, model);
  EXPECT_TRUE(transformation(model).steps.empty()) << "a second application is not a no-op";
  return model;
}

void expect_applies(const std::string& name, const Model& original) {
  expect_applies(find_transformation(name), original);
}

void expect_applies(const Transformation& transformation, const Model& original) {
  Model model = original;
  const Outcome outcome = transformation(model);
  ASSERT_FALSE(outcome.steps.empty())
      << transformation.name() << " found no site; first refusal: "
      << (outcome.refusals.empty() ? "none" : to_string(outcome.refusals[0].reason));
  expect_reversible(transformation, original, model);
}

void expect_refused(const std::string& name, const Model& original, std::string_view reason) {
  const Transformation& transformation = find_transformation(name);
  // A user who has only the printed text finds the reason by it.
  for (const Refusal& refusal : find_sites(original, transformation).refusals) {
    const std::string text = to_string(refusal.reason);
    EXPECT_TRUE(explain(text).starts_with(code(refusal.reason) + ": ")) << text;
  }
  expect_refused(transformation, original, reason);
}

std::string told(const std::vector<Refusal>& refusals) {
  std::string lines;
  for (const Refusal& refusal : refusals) {
    lines += refusal.site.name + ": " + to_string(refusal.reason) + "\n";
    EXPECT_FALSE(refusal.site.name.empty());
  }
  return lines;
}

void expect_refused(const Transformation& transformation, const Model& original,
                    std::string_view reason) {
  const Findings findings = find_sites(original, transformation);
  EXPECT_TRUE(findings.sites.empty()) << "site: " << findings.sites[0].name;
  const std::string reasons = told(findings.refusals);
  EXPECT_NE(reasons.find(reason), std::string::npos) << "reasons given:\n" << reasons;
  Model model = original;
  const std::string before = snapshot(model);
  EXPECT_EQ(told(transformation(model).refusals), reasons);
  EXPECT_EQ(snapshot(model), before);
  EXPECT_TRUE(model.history().empty());
}

void expect_refused(const std::string& name, std::string_view text, std::string_view reason) {
  expect_refused(name, parse_filled(text), reason);
}

void expect_no_match(const std::string& name, std::string_view text) {
  expect_no_match(find_transformation(name), text);
}

void expect_no_match(const Transformation& transformation, std::string_view text) {
  const Findings findings = transformation.find(parse_filled(text));
  EXPECT_TRUE(findings.sites.empty());
  for (const Refusal& refusal : findings.refusals) ADD_FAILURE() << to_string(refusal.reason);
}

}  // namespace refx::testing
