// SPDX-License-Identifier: Apache-2.0

#include "exec/convert_argument.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <limits>

#include "refx/error.h"

namespace refx::exec {
namespace {

using c10::IValue;
using c10::TypeKind;

// An optional's inner type; any other type itself.
const c10::Type& inner(const c10::Type& type) {
  if (auto* optional = type.castRaw<c10::OptionalType>()) return *optional->getElementType();
  return type;
}

bool is_number(const IValue& v) {
  return v.isInt() || v.isDouble() || v.isBool() || v.isComplexDouble();
}

std::optional<std::vector<IValue>> elements(const IValue& v) {
  if (v.isTuple()) return v.toTupleRef().elements().vec();
  if (v.isList()) return v.toListRef().vec();
  return std::nullopt;
}

std::optional<IValue> to_type(const IValue& v, const c10::Type& type, std::optional<int> fixed);

std::optional<IValue> to_tensor(const IValue& v) {
  if (v.isTensor()) return v;
  if (is_number(v)) return at::native::wrapped_scalar_tensor(v.toScalar());
  return std::nullopt;
}

std::optional<IValue> to_float(const IValue& v) {
  if (v.isDouble()) return v;
  if (v.isInt()) return static_cast<double>(v.toInt());
  if (v.isBool()) return v.toBool() ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<IValue> to_scalar(const IValue& v) {
  if (is_number(v)) return v;
  // As in Python, a tensor without dimensions is taken for a number.
  if (v.isTensor() && v.toTensor().dim() == 0) return v.toTensor().item();
  return std::nullopt;
}

std::optional<IValue> to_int(const IValue& v) {
  if (v.isInt()) return v;
  if (v.isBool()) return static_cast<std::int64_t>(v.toBool());
  if (v.isTensor() && v.toTensor().dim() == 0 &&
      c10::isIntegralType(v.toTensor().scalar_type(), true)) {
    return v.toTensor().item().toLong();
  }
  return std::nullopt;
}

std::optional<IValue> to_device(const IValue& v) {
  if (v.isDevice()) return v;
  // Python takes a number for a CUDA device: x.to(0).
  constexpr std::int64_t kLast = std::numeric_limits<c10::DeviceIndex>::max();
  if (v.isInt() && v.toInt() >= 0 && v.toInt() <= kLast)
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(v.toInt()));
  if (v.isString()) return c10::Device(v.toStringRef());
  return std::nullopt;
}

// One of the values that an enumeration of torch has.
std::optional<IValue> to_enum(const IValue& v, int count) {
  if (!v.isInt() || v.toInt() < 0 || v.toInt() >= count) return std::nullopt;
  return v;
}

std::optional<IValue> to_list(const IValue& v, const c10::TypePtr& element,
                              std::optional<int> fixed) {
  auto items = elements(v);
  if (!items) {
    // As in Python, one number stands for all elements of a list of fixed length.
    if (!fixed || v.isNone()) return std::nullopt;
    items = std::vector<IValue>(static_cast<std::size_t>(*fixed), v);
  }
  // At run time, symbolic sizes are integers, and lists of them have that type.
  bool symbolic = element->kind() == TypeKind::SymIntType;
  c10::impl::GenericList list(symbolic ? c10::TypePtr(c10::IntType::get()) : element);
  list.reserve(items->size());
  for (const IValue& item : *items) {
    auto converted = to_type(item, *element, std::nullopt);
    if (!converted) return std::nullopt;
    list.push_back(std::move(*converted));
  }
  return list;
}

std::optional<IValue> to_type(const IValue& v, const c10::Type& type, std::optional<int> fixed) {
  if (auto* optional = type.castRaw<c10::OptionalType>()) {
    if (v.isNone()) return v;
    return to_type(v, *optional->getElementType(), fixed);
  }
  switch (type.kind()) {
    case TypeKind::TensorType:
      return to_tensor(v);
    case TypeKind::NumberType:
      return to_scalar(v);
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return to_float(v);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return to_int(v);
    case TypeKind::ScalarTypeType:
      return to_enum(v, static_cast<int>(c10::ScalarType::Undefined));
    case TypeKind::LayoutType:
      return to_enum(v, static_cast<int>(c10::Layout::NumOptions));
    case TypeKind::MemoryFormatType:
      return to_enum(v, static_cast<int>(c10::MemoryFormat::NumOptions));
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return v.isBool() ? std::optional(v) : std::nullopt;
    case TypeKind::StringType:
      return v.isString() ? std::optional(v) : std::nullopt;
    case TypeKind::DeviceObjType:
      return to_device(v);
    case TypeKind::ListType:
      return to_list(v, type.castRaw<c10::ListType>()->getElementType(), fixed);
    default:
      return v;
  }
}

int element_mismatch(const IValue& value, const c10::Type& type);

// Numbers where a tensor is wanted come last: an overload that takes the number is nearer.
constexpr int kWrapped = 10;

int number_mismatch(OperandKind kind, const c10::Type& type) {
  bool numeric = kind == OperandKind::integer || kind == OperandKind::floating ||
                 kind == OperandKind::boolean || kind == OperandKind::complex;
  switch (type.kind()) {
    case TypeKind::NumberType:
      return numeric ? 0 : kind == OperandKind::tensor ? 2 * kWrapped : -1;
    case TypeKind::FloatType:
      // An integer fits a float, but an overload that takes integers fits better.
      return kind == OperandKind::floating ? 0 : kind == OperandKind::integer ? 1 : -1;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return kind == OperandKind::integer ? 0 : kind == OperandKind::tensor ? 2 * kWrapped : -1;
    case TypeKind::BoolType:
      return kind == OperandKind::boolean ? 0 : -1;
    case TypeKind::TensorType:
      return kind == OperandKind::tensor ? 0 : numeric ? kWrapped : -1;
    default:
      return -1;
  }
}

int type_mismatch(const IValue& value, OperandKind kind, const c10::Type& type,
                  std::optional<int> fixed) {
  switch (type.kind()) {
    case TypeKind::ScalarTypeType:
      return kind == OperandKind::dtype ? 0 : -1;
    case TypeKind::LayoutType:
      return kind == OperandKind::layout ? 0 : -1;
    case TypeKind::MemoryFormatType:
      return kind == OperandKind::memory_format ? 0 : -1;
    case TypeKind::StringType:
      return kind == OperandKind::string ? 0 : -1;
    case TypeKind::DeviceObjType:
      return kind == OperandKind::device ? 0 : kind == OperandKind::string ? 1 : -1;
    case TypeKind::ListType: {
      const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
      auto items = elements(value);
      if (!items) {
        // One number for a list of fixed length is further away than a list.
        int one = fixed ? type_mismatch(value, kind, element, std::nullopt) : -1;
        return one < 0 ? -1 : one + 1;
      }
      int worst = 0;
      for (const IValue& item : *items) {
        int m = element_mismatch(item, element);
        if (m < 0) return -1;
        worst = std::max(worst, m);
      }
      return worst;
    }
    default:
      return number_mismatch(kind, type);
  }
}

int element_mismatch(const IValue& value, const c10::Type& type) {
  if (value.isNone()) return type.kind() == TypeKind::OptionalType ? 0 : -1;
  return type_mismatch(value, kind_of(value), inner(type), std::nullopt);
}

std::optional<int> fixed_length(const c10::Argument& a) {
  return a.N() ? std::optional<int>(*a.N()) : std::nullopt;
}

}  // namespace

Want want_of(const c10::Argument& argument) {
  switch (inner(*argument.real_type()).kind()) {
    case TypeKind::TensorType:
      return Want::tensor;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return Want::integer;
    case TypeKind::NumberType:
      return Want::scalar;
    default:
      return Want::other;
  }
}

bool takes_enum(const c10::Argument& argument) {
  const TypeKind kind = inner(*argument.real_type()).kind();
  return kind == TypeKind::ScalarTypeType || kind == TypeKind::LayoutType ||
         kind == TypeKind::MemoryFormatType;
}

std::optional<IValue> convert(const IValue& value, const c10::Argument& argument) {
  auto converted = to_type(value, *argument.real_type(), fixed_length(argument));
  // torch.nn passes stride=None for "the default".
  if (!converted && value.isNone() && argument.default_value()) return *argument.default_value();
  return converted;
}

int mismatch(const IValue& value, OperandKind kind, const c10::Argument& argument) {
  const c10::Type& type = *argument.real_type();
  // None fits an optional argument; elsewhere it asks for the default, which is further away.
  if (kind == OperandKind::none) {
    if (type.kind() == TypeKind::OptionalType) return 0;
    return argument.default_value() ? 1 : -1;
  }
  return type_mismatch(value, kind, inner(type), fixed_length(argument));
}

}  // namespace refx::exec
