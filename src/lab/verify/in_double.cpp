// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/in_double.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <c10/core/DefaultDtype.h>

#include <optional>

#include "book/call.h"
#include "book/casts.h"
#include "ir/map_arg.h"
#include "lab/run/converted.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/reverse.h"

namespace refx {

namespace {

using c10::IValue;

c10::ScalarType widened(c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) return at::kDouble;
  if (c10::isComplexType(dtype)) return at::kComplexDouble;
  return dtype;
}

at::Tensor widened(const at::Tensor& tensor) {
  const c10::ScalarType dtype = widened(tensor.scalar_type());
  return dtype == tensor.scalar_type() ? tensor : tensor.detach().to(dtype);
}

// x.half(), and the other methods that cast to a floating-point dtype.
bool casts_to_floating(const Node& node) {
  if (node.op != Opcode::call_method) return false;
  const auto dtype = book::dtype_of_cast_method(node.target);
  return dtype && c10::isFloatingType(*dtype);
}

// view(dtype) reinterprets the bits of a number. In fp64 these are other bits.
bool reinterprets_bits(const Model& model, const Node& node) {
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return false;
  const std::string_view name = book::name_of_call(model, node);
  if (name != "view" && name != "view_copy") return false;
  const Arg* dtype = argument(node, 1, "dtype");
  return dtype && dtype->is<c10::ScalarType>();
}

void widen(const Model& model, Node& node) {
  if (node.op == Opcode::placeholder && node.state.empty() && node.type) {
    TensorType type = *node.type;
    type.dtype = widened(type.dtype);
    node.type = std::make_shared<const TensorType>(std::move(type));
  }
  // These have no arguments. The types of bound tensors follow from the state.
  if (node.op == Opcode::placeholder || node.op == Opcode::get_attr) return;
  if (reinterprets_bits(model, node))
    throw Error("node '" + node.name + "' reinterprets the bits of its input");
  map_arguments(node, [](const Arg& arg) {
    const auto* dtype = arg.get<c10::ScalarType>();
    return dtype ? Arg(widened(*dtype)) : arg;
  });
  if (casts_to_floating(node)) node.target = "double";
}

}  // namespace

Model in_double(const Model& model) {
  return in_double(model,
                   [](const at::Tensor& tensor, const Widen& widened) { return widened(tensor); });
}

Model in_double(const Model& model,
                const std::function<at::Tensor(const at::Tensor&, const Widen&)>& keep) {
  const Widen widen_tensor = [](const at::Tensor& tensor) { return widened(tensor); };
  return converted(
      model, [&](const at::Tensor& tensor) { return keep(tensor, widen_tensor); },
      [&](Node& node) { widen(model, node); });
}

std::vector<IValue> in_double(const std::vector<IValue>& inputs) {
  std::vector<IValue> wide;
  for (const IValue& input : inputs)
    wide.push_back(input.isTensor() ? IValue(widened(input.toTensor())) : input);
  return wide;
}

Inputs in_double(Inputs inputs) {
  inputs.values = in_double(inputs.values);
  for (std::vector<IValue>& call : inputs.next) call = in_double(call);
  return inputs;
}

bool is_approximate(c10::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

// 2^-p for a significand of p bits, including the implicit one.
double rounding(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kComplexDouble:
      return 0x1p-53;
    case at::kHalf:
    case at::kComplexHalf:
      return 0x1p-11;
    case at::kBFloat16:
      return 0x1p-8;
    case at::kFloat:
    case at::kComplexFloat:
      return 0x1p-24;
    default:
      return 0x1p-3;  // fp8: e5m2 has 3 bits, e4m3 has 4
  }
}

// Drawn on the CPU, so that a seed gives the same noise on every device.
at::Tensor random_factors(const at::Tensor& like, double part, at::Generator& generator) {
  return at::rand(like.sizes(), generator, at::kDouble)
      .mul_(2 * part)
      .add_(1 - part)
      .to(like.device());
}

namespace {

at::Tensor jittered(const at::Tensor& tensor, const EntryRounding& rounding, double times,
                    at::Generator& generator) {
  if (!rounding.off.defined())
    return tensor * random_factors(tensor, times * rounding.part, generator);
  // A constant may be off by the error of its computation and by one more rounding. Elements
  // without any error, such as those of a mask, stay exact.
  const at::Tensor most = (rounding.off + tensor.abs() * rounding.part) * (rounding.off > 0);
  return tensor + most.nan_to_num(0, 0, 0) * (random_factors(tensor, times, generator) - 1);
}

}  // namespace

Model jittered(const Model& exact, const Roundings& entries, double times, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  Model copy = exact;
  Editor editor(copy);
  std::unordered_map<const void*, at::Tensor> made;  // tied weights stay tied
  for (const auto& [id, rounding] : entries) {
    const at::Tensor tensor(exact.state().tensor(id));
    if (!is_approximate(tensor.scalar_type())) continue;
    at::Tensor& other = made[tensor.unsafeGetTensorImpl()];
    if (!other.defined()) other = jittered(tensor, rounding, times, generator);
    editor.set_state(id, other);
  }
  editor.commit_as_origin(exact.source());
  return copy;
}

DoubleByDefault::DoubleByDefault() : before_(c10::get_default_dtype_as_scalartype()) {
  c10::set_default_dtype(caffe2::TypeMeta::fromScalarType(at::kDouble));
}
DoubleByDefault::~DoubleByDefault() {
  c10::set_default_dtype(caffe2::TypeMeta::fromScalarType(before_));
}

}  // namespace refx
