#include "lab/compare.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lab/in_double.h"
#include "refx/error.h"
#include "refx/text.h"

namespace refx {

std::string type_of_value(const c10::IValue& value) {
  return value.isTensor() ? print(*type_of(value.toTensor())) : value.tagKind();
}

namespace {

using c10::IValue;

// Where the reference errs as much as the forms do, what cannot be told from its own error.
double own_noise(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kComplexDouble:
      return 1e-10;
    case at::kHalf:
    case at::kComplexHalf:
      return 2e-2;
    case at::kFloat:
    case at::kComplexFloat:
      return 1e-5;
    default:
      return 1e-1;
  }
}

bool is_approximate(c10::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.to(tensor.is_complex() ? at::kComplexDouble : at::kDouble);
}

double largest(const at::Tensor& magnitudes) {
  return magnitudes.numel() == 0 ? 0 : magnitudes.max().item<double>();
}

// Not finite, and of which kind: nan, inf and -inf are told apart.
bool same_places(const at::Tensor& a, const at::Tensor& b) {
  if (!at::equal(at::isnan(a), at::isnan(b))) return false;
  if (!at::equal(at::isfinite(a), at::isfinite(b))) return false;
  if (a.is_complex()) return true;
  return at::equal(a == INFINITY, b == INFINITY);
}

void compare_exactly(const IValue& original, const IValue& current, OutputCheck& check) {
  check.exact = true;
  if (!original.isTensor()) {
    if (original != current) check.problem = "differs";
    return;
  }
  const at::Tensor &a = original.toTensor(), &b = current.toTensor();
  if (at::equal(a, b)) return;
  const std::int64_t differing = (a != b).sum().item<std::int64_t>();
  check.problem = fmt::format("{} of {} elements differ", differing, a.numel());
}

void compare_approximately(const at::Tensor& reference, const at::Tensor& rounded,
                           const at::Tensor& original, const at::Tensor& current,
                           const Comparison& how, OutputCheck& check) {
  const at::Tensor truth = wide(reference), a = wide(original), b = wide(current);
  const at::Tensor usable =
      at::isfinite(a).logical_and(at::isfinite(b)).logical_and(at::isfinite(truth));
  const auto distance = [&](const at::Tensor& t) {
    return largest(at::where(usable, (t - truth).abs(), at::zeros_like(truth.abs())));
  };
  check.scale = largest(at::where(usable, truth.abs(), at::zeros_like(truth.abs())));
  check.original_error = distance(a);
  check.current_error = distance(b);
  check.rounding_error = distance(wide(rounded));
  const c10::ScalarType dtype = original.scalar_type();
  const bool precise = how.precise && rounding(dtype) > rounding(at::kDouble);
  const double floor = precise ? kRoundings * rounding(dtype) : own_noise(dtype);
  check.allowed = how.tolerance > 0
                      ? how.tolerance * check.scale
                      : std::max(kGrowth * std::max(check.original_error, check.rounding_error),
                                 floor * check.scale);
  if (!same_places(a, b))
    check.problem = "nan or inf stands in other places";
  else if (!(check.current_error <= check.allowed))
    check.problem =
        fmt::format("the error is {:.2g}, allowed is {:.2g}", check.current_error, check.allowed);
}

std::string mismatch(const IValue& original, const IValue& current) {
  if (original.isTensor() != current.isTensor())
    return fmt::format("is {} instead of {}", type_of_value(current), type_of_value(original));
  if (!original.isTensor()) return "";
  const at::Tensor &a = original.toTensor(), &b = current.toTensor();
  if (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type()) return "";
  return fmt::format("is {} instead of {}", type_of_value(current), type_of_value(original));
}

OutputCheck compare(const IValue& reference, const IValue& rounded, const IValue& original,
                    const IValue& current, const std::string& path, const Comparison& how) {
  OutputCheck check;
  check.path = path;
  check.type = type_of_value(original);
  check.problem = mismatch(original, current);
  if (!check.problem.empty()) return check;
  if (original.isDouble() && reference.isDouble()) {
    const auto tensor = [](const IValue& v) {
      return at::scalar_tensor(v.toDouble(), at::kDouble);
    };
    compare_approximately(tensor(reference), tensor(reference), tensor(original), tensor(current),
                          how, check);
  } else if (original.isTensor() && is_approximate(original.toTensor().scalar_type())) {
    if (!reference.isTensor() || reference.toTensor().sizes() != original.toTensor().sizes())
      check.problem = "has another shape in the reference";
    else
      compare_approximately(reference.toTensor(), rounded.toTensor(), original.toTensor(),
                            current.toTensor(), how, check);
  } else {
    compare_exactly(original, current, check);
  }
  return check;
}

OutputCheck complaint(const Leaf& leaf, const char* problem) {
  OutputCheck check;
  check.path = leaf.path;
  check.type = type_of_value(leaf.value);
  check.problem = problem;
  return check;
}

const IValue* find(const Run& run, const std::string& path) {
  for (const Leaf& leaf : run.values)
    if (leaf.path == path) return &leaf.value;
  return nullptr;
}

}  // namespace

std::vector<OutputCheck> compare(const Run& reference, const Run& rounded, const Run& original,
                                 const Run& current, const Comparison& how) {
  std::vector<OutputCheck> checks;
  for (const Leaf& leaf : original.values) {
    const IValue* now = find(current, leaf.path);
    const IValue* truth = find(reference, leaf.path);
    const IValue* noisy = find(rounded, leaf.path);
    REFX_CHECK(truth && noisy, "the reference returns something else");
    const bool changed_now = now && !current.unchanged.count(leaf.path);
    if (original.unchanged.count(leaf.path) && !changed_now) continue;
    checks.push_back(now ? compare(*truth, *noisy, leaf.value, *now, leaf.path, how)
                         : complaint(leaf, "is not there any more"));
  }
  for (const Leaf& leaf : current.values)
    if (!find(original, leaf.path) && !current.unchanged.count(leaf.path))
      checks.push_back(complaint(leaf, "is new"));
  return checks;
}

}  // namespace refx
