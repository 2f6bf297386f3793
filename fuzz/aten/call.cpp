// SPDX-License-Identifier: Apache-2.0

#include "call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <istream>
#include <limits>

#include "exec/convert_argument.h"
#include "exec/guard.h"
#include "refx/error.h"

namespace refx::fuzz {

namespace {

using c10::IValue;
using c10::TypeKind;
using Kind = Value::Kind;

template <class T, std::size_t N>
const T& one_of(const std::array<T, N>& items, Random& random) {
  return items[below(random, N)];
}

bool one_in(std::size_t n, Random& random) { return below(random, n) == 0; }

constexpr std::array<std::int64_t, 26> kIntegers = {0,
                                                    1,
                                                    -1,
                                                    2,
                                                    3,
                                                    -2,
                                                    4,
                                                    5,
                                                    -3,
                                                    7,
                                                    8,
                                                    64,
                                                    255,
                                                    1000,
                                                    -1000,
                                                    INT32_MAX,
                                                    INT32_MIN,
                                                    std::int64_t{1} << 31,
                                                    std::int64_t{1} << 32,
                                                    std::int64_t{1} << 40,
                                                    -(std::int64_t{1} << 40),
                                                    std::int64_t{1} << 62,
                                                    INT64_MAX,
                                                    INT64_MAX - 1,
                                                    INT64_MIN,
                                                    INT64_MIN + 1};
constexpr std::array<double, 14> kNumbers = {0.0,    -0.0, 1.0,   -1.0,   0.5,    2.0,  1e-45,
                                             1e-300, 1e38, 1e300, -1e300, 9.3e18, 1e10, -3.5};
constexpr std::array<const char*, 18> kTexts = {
    "mean",  "sum",  "max", "none",   "constant", "reflect", "replicate", "circular", "trunc",
    "floor", "tanh", "ij",  "ij->ji", "valid",    "same",    "left",      "cpu",      ""};
constexpr std::array<int, 13> kDtypes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15};
constexpr std::array<int, 5> kRareDtypes = {23, 24, 27, 28, 29};  // float8 and unsigned integers

double any_number(Random& random) {
  switch (below(random, 6)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return one_in(2, random) ? INFINITY : -INFINITY;
    default:
      return one_of(kNumbers, random);
  }
}

std::int64_t any_size(Random& random) {
  constexpr std::array<std::int64_t, 12> kSizes = {0, 1, 1, 2, 2, 3, 3, 4, 5, 8, 16, 33};
  return one_of(kSizes, random);
}

void make_contiguous(Value& tensor) {
  tensor.strides.assign(tensor.sizes.size(), 1);
  for (std::size_t i = tensor.sizes.size(); i-- > 1;)
    tensor.strides[i - 1] = tensor.strides[i] * std::max<std::int64_t>(1, tensor.sizes[i]);
}

Value any_tensor(Random& random) {
  Value tensor{.kind = Kind::tensor};
  tensor.dtype = one_in(2, random)    ? 6
                 : one_in(3, random)  ? 4
                 : one_in(20, random) ? one_of(kRareDtypes, random)
                                      : one_of(kDtypes, random);
  for (std::size_t n = below(random, 6); n > 0; --n) tensor.sizes.push_back(any_size(random));
  make_contiguous(tensor);
  tensor.content = static_cast<int>(below(random, 6));
  return tensor;
}

Value integer(std::int64_t n) { return {.kind = Kind::integer, .integer = n}; }

Value any_value(const c10::Type& type, Random& random) {
  if (const auto* optional = type.castRaw<c10::OptionalType>())
    return one_in(2, random) ? Value{} : any_value(*optional->getElementType(), random);
  switch (type.kind()) {
    case TypeKind::TensorType:
      return any_tensor(random);
    case TypeKind::NumberType:
      if (one_in(2, random)) return {.kind = Kind::number, .number = any_number(random)};
      if (one_in(8, random)) return {.kind = Kind::complex, .number = 1, .imaginary = -2};
      return integer(one_of(kIntegers, random));
    case TypeKind::FloatType:
      return {.kind = Kind::number, .number = any_number(random)};
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return integer(one_in(2, random) ? static_cast<std::int64_t>(below(random, 5)) - 1
                                       : one_of(kIntegers, random));
    case TypeKind::BoolType:
      return {.kind = Kind::boolean, .integer = static_cast<std::int64_t>(below(random, 2))};
    case TypeKind::StringType:
      return {.kind = Kind::text, .text = one_of(kTexts, random)};
    case TypeKind::DeviceObjType:
      return {.kind = Kind::text, .text = one_in(3, random) ? "meta" : "cpu"};
    case TypeKind::ScalarTypeType:
      return integer(one_in(4, random) ? static_cast<std::int64_t>(below(random, 46))
                                       : one_of(kDtypes, random));
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return integer(static_cast<std::int64_t>(below(random, 8)));
    case TypeKind::ListType: {
      Value list{.kind = Kind::list};
      for (std::size_t n = below(random, 5); n > 0; --n)
        list.items.push_back(any_value(*type.castRaw<c10::ListType>()->getElementType(), random));
      return list;
    }
    default:
      return {};
  }
}

// ---- changes
// -------------------------------------------------------------------------------------

void distort_shape(Value& tensor, Random& random) {
  auto& sizes = tensor.sizes;
  const std::size_t at = sizes.empty() ? 0 : below(random, sizes.size());
  const auto offset = static_cast<std::ptrdiff_t>(at);
  switch (below(random, 9)) {
    case 0:
      if (!sizes.empty()) sizes[at] = any_size(random);
      break;
    case 1:
      if (!sizes.empty()) sizes[at] = std::max<std::int64_t>(0, sizes[at] - 1);
      break;
    case 2:
      if (!sizes.empty()) ++sizes[at];
      break;
    case 3:
      if (!sizes.empty()) sizes.erase(sizes.begin() + offset);
      break;
    case 4:
      sizes.insert(sizes.begin() + offset, any_size(random));
      break;
    case 5:
      sizes.clear();
      break;
    case 6:
      if (!sizes.empty()) sizes[at] = 0;
      break;
    case 7:  // transposed: the strides stay
      if (sizes.size() == tensor.strides.size() && sizes.size() > 1) {
        std::swap(sizes[at], sizes[(at + 1) % sizes.size()]);
        std::swap(tensor.strides[at], tensor.strides[(at + 1) % sizes.size()]);
        return;
      }
      break;
    default:  // expanded, perhaps far
      if (sizes.size() == tensor.strides.size() && !sizes.empty()) {
        sizes[at] = one_in(4, random) ? 4096 : any_size(random);
        tensor.strides[at] = 0;
        return;
      }
  }
  make_contiguous(tensor);
}

void distort_tensor(Value& tensor, Random& random) {
  switch (below(random, 8)) {
    case 0:
    case 1:
    case 2:
      distort_shape(tensor, random);
      break;
    case 3:
      tensor.dtype = one_in(10, random) ? one_of(kRareDtypes, random) : one_of(kDtypes, random);
      break;
    case 4:
      tensor.content = static_cast<int>(below(random, 6));
      if (one_in(2, random)) tensor.values.clear();
      break;
    case 5:
    case 6:
      if (tensor.values.empty())
        tensor.content = static_cast<int>(below(random, 6));
      else
        tensor.values[below(random, tensor.values.size())] = one_of(kIntegers, random);
      break;
    default:
      if (one_in(4, random))
        tensor.meta = true;
      else
        distort_shape(tensor, random);
  }
}

void distort_value(Value& value, const c10::Type& type, Random& random) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    if (value.kind == Kind::none || one_in(8, random))
      value = any_value(type, random);
    else
      distort_value(value, *optional->getElementType(), random);
    return;
  }
  if (value.kind == Kind::tensor) return distort_tensor(value, random);
  if (value.kind == Kind::list && type.kind() == TypeKind::ListType) {
    const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
    auto& items = value.items;
    switch (below(random, 5)) {
      case 0:
        if (!items.empty())
          items.erase(items.begin() + static_cast<long>(below(random, items.size())));
        break;
      case 1:
        items.push_back(any_value(element, random));
        break;
      case 2:
        if (one_in(3, random)) items.clear();
        break;
      default:
        if (!items.empty()) distort_value(items[below(random, items.size())], element, random);
    }
    return;
  }
  if (value.kind == Kind::integer && type.kind() != TypeKind::ScalarTypeType && one_in(3, random)) {
    value.integer += one_in(2, random) ? 1 : -1;
    return;
  }
  value = any_value(type, random);
}

// ---- values of torch
// -----------------------------------------------------------------------------

double element(int content, Random& random) {
  switch (content) {
    case 0:
      return static_cast<double>(below(random, 4));
    case 1:
      return static_cast<double>(below(random, 2));
    case 2:
      return 0;
    case 3:
      return static_cast<double>(below(random, 2001)) / 500.0 - 2;
    case 4:
      return one_in(4, random) ? any_number(random) : static_cast<double>(below(random, 4));
    default:
      return static_cast<double>(below(random, 3)) - 1;
  }
}

template <class T>
void fill(const Value& spec, void* data, std::size_t count, Random& random) {
  auto* to = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      if (!spec.values.empty())
        to[i] = static_cast<T>(spec.values[i % spec.values.size()]);
      else if (spec.content >= 4 && one_in(4, random))
        to[i] = static_cast<T>(one_in(3, random) ? std::numeric_limits<T>::min()
                                                 : one_of(kIntegers, random));
      else
        to[i] = static_cast<T>(below(random, 4)) - (spec.content == 5 ? 1 : 0);
    } else {
      to[i] = static_cast<T>(element(spec.content, random));
    }
  }
}

at::Tensor to_tensor(const Value& spec, Random& random) {
  const auto dtype = static_cast<c10::ScalarType>(spec.dtype);
  for (const std::int64_t size : spec.sizes)
    if (size < 0 || size > 8192) throw Error("a size out of bounds");
  const auto bytes =
      at::detail::computeStorageNbytes(spec.sizes, spec.strides, c10::elementSize(dtype));
  if (bytes > 1u << 20) throw Error("too large");
  const auto options = at::TensorOptions(dtype).device(spec.meta ? at::kMeta : at::kCPU);
  const auto count = bytes / c10::elementSize(dtype);
  at::Tensor memory = at::empty({static_cast<std::int64_t>(count)}, options);
  if (!spec.meta && count > 0) {
    void* data = memory.data_ptr();
    const bool complex = c10::isComplexType(dtype);
    const std::size_t numbers = count * (complex ? 2 : 1);
    switch (complex ? c10::toRealValueType(dtype) : dtype) {
      case at::kBool:
        for (std::size_t i = 0; i < count; ++i) static_cast<bool*>(data)[i] = one_in(2, random);
        break;
      case at::kByte:
        fill<std::uint8_t>(spec, data, numbers, random);
        break;
      case at::kChar:
        fill<std::int8_t>(spec, data, numbers, random);
        break;
      case at::kShort:
        fill<std::int16_t>(spec, data, numbers, random);
        break;
      case at::kInt:
        fill<std::int32_t>(spec, data, numbers, random);
        break;
      case at::kLong:
        fill<std::int64_t>(spec, data, numbers, random);
        break;
      case at::kHalf:
        fill<c10::Half>(spec, data, numbers, random);
        break;
      case at::kBFloat16:
        fill<c10::BFloat16>(spec, data, numbers, random);
        break;
      case at::kFloat:
        fill<float>(spec, data, numbers, random);
        break;
      case at::kDouble:
        fill<double>(spec, data, numbers, random);
        break;
      default:
        for (std::size_t i = 0; i < bytes; ++i)
          static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(random());
    }
  }
  return memory.as_strided(spec.sizes, spec.strides);
}

IValue to_ivalue(const Value& value, const std::vector<IValue>& before, Random& random) {
  if (value.same_as >= 0 && static_cast<std::size_t>(value.same_as) < before.size())
    return before[static_cast<std::size_t>(value.same_as)];
  switch (value.kind) {
    case Kind::none:
      return {};
    case Kind::boolean:
      return value.integer != 0;
    case Kind::integer:
      return value.integer;
    case Kind::number:
      return value.number;
    case Kind::complex:
      return c10::complex<double>(value.number, value.imaginary);
    case Kind::text:
      return value.text;
    case Kind::list: {
      std::vector<IValue> items;
      for (const Value& item : value.items) items.push_back(to_ivalue(item, {}, random));
      return c10::ivalue::Tuple::create(std::move(items));
    }
    case Kind::tensor:
      return to_tensor(value, random);
  }
  return {};
}

// Reads all of it: a result that lies outside its memory ends here.
void read(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || !tensor.is_cpu() || tensor.numel() == 0) return;
    const auto end =
        at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                         static_cast<std::size_t>(tensor.storage_offset()));
    if (tensor.storage_offset() < 0 || end > tensor.storage().nbytes()) {
      std::fprintf(stderr, "a result needs %zu bytes and has %zu\n", end,
                   tensor.storage().nbytes());
      std::abort();
    }
    if (tensor.numel() <= 1 << 16) tensor.clone();
  } else if (value.isList()) {
    for (const IValue& item : value.toListRef()) read(item);
  }
}

}  // namespace

std::string Value::str() const {
  switch (kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return integer ? "True" : "False";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::number:
      return fmt::format("{}", number);
    case Kind::complex:
      return fmt::format("({}+{}j)", number, imaginary);
    case Kind::text:
      return "'" + text + "'";
    case Kind::list: {
      std::string out;
      for (const Value& item : items) out += (out.empty() ? "" : ", ") + item.str();
      return "[" + out + "]";
    }
    case Kind::tensor: {
      if (same_as >= 0) return fmt::format("argument {}", same_as);
      std::string out = fmt::format("{}{}", c10::toString(static_cast<c10::ScalarType>(dtype)),
                                    fmt::join(std::vector<std::int64_t>(), ""));
      out += fmt::format("[{}]", fmt::join(sizes, ","));
      Value dense = *this;
      make_contiguous(dense);
      if (dense.strides != strides) out += fmt::format(" strides [{}]", fmt::join(strides, ","));
      if (!values.empty()) out += fmt::format(" of {}", fmt::join(values, ","));
      return out + (meta ? " meta" : "");
    }
  }
  return "";
}

Value read_value(std::istream& in) {
  Value value;
  char kind = 0;
  in >> kind;
  const auto read_list = [&](std::vector<std::int64_t>& to, std::size_t count) {
    to.resize(std::min<std::size_t>(count, 1 << 16));
    for (std::int64_t& n : to) in >> n;
  };
  const auto read_number = [&](double& to) {
    std::string word;
    in >> word;
    to = std::stod(word);
  };
  std::size_t count = 0;
  switch (kind) {
    case 'B':
      value.kind = Kind::boolean;
      in >> value.integer;
      break;
    case 'I':
      value.kind = Kind::integer;
      in >> value.integer;
      break;
    case 'F':
      value.kind = Kind::number;
      read_number(value.number);
      break;
    case 'C':
      value.kind = Kind::complex;
      read_number(value.number);
      read_number(value.imaginary);
      break;
    case 'S':
      value.kind = Kind::text;
      in >> value.text;
      if (value.text == "-") value.text.clear();
      break;
    case 'L':
      value.kind = Kind::list;
      for (in >> count; count > 0 && in; --count) value.items.push_back(read_value(in));
      break;
    case 'T':
      value.kind = Kind::tensor;
      in >> value.dtype >> count;
      read_list(value.sizes, count);
      read_list(value.strides, count);
      in >> count;
      read_list(value.values, count);
      break;
    default:
      break;
  }
  return value;
}

Arguments make_arguments(const c10::FunctionSchema& schema, Random& random) {
  Arguments arguments;
  for (const c10::Argument& argument : schema.arguments())
    arguments.push_back(any_value(*argument.real_type(), random));
  return arguments;
}

void distort(Arguments& arguments, const c10::FunctionSchema& schema,
             const std::vector<const Arguments*>& pool, Random& random) {
  if (arguments.empty()) return;
  for (std::size_t n = below(random, 4); n > 0; --n) {
    const std::size_t at = below(random, arguments.size());
    Value& value = arguments[at];
    if (one_in(10, random) && !pool.empty()) {  // the same kind of value from another call
      const Arguments& other = *pool[below(random, pool.size())];
      const Value& given = other[below(random, other.size())];
      if (given.kind == value.kind) value = given;
    } else if (one_in(16, random) && value.kind == Kind::tensor) {
      value.same_as = static_cast<int>(below(random, arguments.size()));
    } else {
      distort_value(value, *schema.arguments()[at].real_type(), random);
    }
  }
}

void call(const c10::OperatorHandle& op, const Arguments& arguments, Random& random) {
  std::vector<IValue> stack;
  const auto& wanted = op.schema().arguments();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto value = exec::convert(to_ivalue(arguments[i], stack, random), wanted[i]);
    if (!value) throw Error("argument '" + wanted[i].name() + "' does not fit");
    stack.push_back(std::move(*value));
  }
  const c10::AutoGradMode no_grad(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<IValue> written = stack;  // in-place operators may change the sizes of an argument
  if (const exec::Guard guard = exec::guard_of(op.operator_name())) guard(op.schema(), stack);
  op.callBoxed(stack);
  exec::require_dense(stack);
  for (const IValue& value : stack) read(value);
  for (const IValue& value : written) read(value);
}

}  // namespace refx::fuzz
