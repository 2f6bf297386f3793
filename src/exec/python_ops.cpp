// SPDX-License-Identifier: Apache-2.0

#include "exec/python_ops.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/reciprocal.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>

#include "exec/indexing.h"
#include "exec/resolve.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx::exec {
namespace {

using c10::IValue;

// ---- numbers, with Python's rules --------------------------------------------------------------

bool is_int(const IValue& v) { return v.isInt() || v.isBool(); }
std::int64_t as_int(const IValue& v) {
  if (!is_int(v)) throw Error("expected an integer, got " + v.tagKind());
  return v.isBool() ? v.toBool() : v.toInt();
}

double as_double(const IValue& v) {
  if (v.isDouble()) return v.toDouble();
  if (is_int(v)) return static_cast<double>(as_int(v));
  if (v.isTensor()) return v.toTensor().item().toDouble();
  throw Error("expected a number, got " + v.tagKind());
}

// Python's integers grow; those of a graph have 64 bits.
[[noreturn]] void too_large(std::int64_t a, const char* op, std::int64_t b) {
  throw Error(fmt::format("{} {} {} does not fit into 64 bits", a, op, b));
}
std::int64_t int_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) too_large(a, "+", b);
  return out;
}
std::int64_t int_sub(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) too_large(a, "-", b);
  return out;
}
std::int64_t int_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) too_large(a, "*", b);
  return out;
}

template <class Number>
Number nonzero(Number v) {
  if (v == 0) throw Error("division by zero");
  return v;
}
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (nonzero(b) == -1) return int_sub(0, a);
  std::int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}
std::int64_t int_mod(std::int64_t a, std::int64_t b) {
  if (nonzero(b) == -1) return 0;
  std::int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
std::int64_t int_pow(std::int64_t base, std::int64_t exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  if (exponent >= 64) too_large(base, "**", exponent);
  std::int64_t out = 1;
  for (; exponent > 0; --exponent) out = int_mul(out, base);
  return out;
}
std::int64_t to_integer(double v) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (!(v >= -kEnd && v < kEnd)) throw Error(fmt::format("{} does not fit into 64 bits", v));
  return static_cast<std::int64_t>(v);
}
double float_mod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

std::vector<IValue> items(const IValue& v) {
  if (v.isTuple()) return v.toTupleRef().elements().vec();
  if (v.isList()) return v.toListRef().vec();
  throw Error("expected a tuple or list, got " + v.tagKind());
}
bool is_sequence(const IValue& v) { return v.isTuple() || v.isList(); }
IValue tuple(std::vector<IValue> values) { return c10::ivalue::Tuple::create(std::move(values)); }

template <class Ints, class Doubles>
IValue arithmetic(const NativeCall& call, Ints ints, Doubles doubles) {
  IValue a = call[0], b = call[1];
  if (is_int(a) && is_int(b)) return ints(as_int(a), as_int(b));
  return doubles(as_double(a), as_double(b));
}

// A list that is made of others, not yet.
void check_length(std::size_t items, std::size_t times) {
  if (items > 0 && times > limits::kListItems / items)
    throw Error(fmt::format("a list of {} times {} items is too long: at most {} are made", times,
                            items, limits::kListItems));
}

IValue add(const NativeCall& call) {
  if (is_sequence(call[0])) {
    auto all = items(call[0]), more = items(call[1]);
    check_length(all.size() + more.size(), 1);
    all.insert(all.end(), more.begin(), more.end());
    return tuple(std::move(all));
  }
  return arithmetic(
      call, [](auto a, auto b) { return IValue(int_add(a, b)); },
      [](double a, double b) { return IValue(a + b); });
}
IValue sub(const NativeCall& call) {
  return arithmetic(
      call, [](auto a, auto b) { return IValue(int_sub(a, b)); },
      [](double a, double b) { return IValue(a - b); });
}
IValue mul(const NativeCall& call) {
  if (is_sequence(call[0])) {
    const auto once = items(call[0]);
    const auto times = static_cast<std::size_t>(std::max<std::int64_t>(as_int(call[1]), 0));
    check_length(once.size(), times);
    std::vector<IValue> all;
    if (!once.empty())
      for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
    return tuple(std::move(all));
  }
  return arithmetic(
      call, [](auto a, auto b) { return IValue(int_mul(a, b)); },
      [](double a, double b) { return IValue(a * b); });
}
IValue truediv(const NativeCall& call) { return as_double(call[0]) / nonzero(as_double(call[1])); }
IValue floordiv(const NativeCall& call) {
  return arithmetic(
      call, [](auto a, auto b) { return IValue(floor_div(a, b)); },
      [](double a, double b) { return IValue(std::floor(a / nonzero(b))); });
}
IValue mod(const NativeCall& call) {
  return arithmetic(
      call, [](auto a, auto b) { return IValue(int_mod(a, b)); },
      [](double a, double b) { return IValue(float_mod(a, nonzero(b))); });
}
IValue pow(const NativeCall& call) {
  return arithmetic(
      call,
      [](std::int64_t a, std::int64_t b) {
        // Python's 2 ** -1 is a float.
        return b >= 0 ? IValue(int_pow(a, b))
                      : IValue(std::pow(static_cast<double>(a), static_cast<double>(b)));
      },
      [](double a, double b) { return IValue(std::pow(a, b)); });
}

bool equal(const IValue& a, const IValue& b) {
  if (is_sequence(a) && is_sequence(b)) {
    auto x = items(a), y = items(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  }
  bool numbers = (is_int(a) || a.isDouble()) && (is_int(b) || b.isDouble());
  if (numbers)
    return is_int(a) && is_int(b) ? as_int(a) == as_int(b) : as_double(a) == as_double(b);
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  // As `is` compares them; operator.eq of tensors is bound to aten.eq.
  if (a.isTensor() || b.isTensor()) return a.is(b);
  return a == b;
}
IValue eq(const NativeCall& call) { return equal(call[0], call[1]); }
IValue ne(const NativeCall& call) { return !equal(call[0], call[1]); }
IValue lt(const NativeCall& call) { return as_double(call[0]) < as_double(call[1]); }
IValue le(const NativeCall& call) { return as_double(call[0]) <= as_double(call[1]); }
IValue gt(const NativeCall& call) { return as_double(call[0]) > as_double(call[1]); }
IValue ge(const NativeCall& call) { return as_double(call[0]) >= as_double(call[1]); }

template <class Bits>
IValue bitwise(const NativeCall& call, Bits bits) {
  IValue a = call[0], b = call[1];
  if (a.isBool() && b.isBool()) return bits(a.toBool(), b.toBool()) != 0;
  return static_cast<std::int64_t>(bits(as_int(a), as_int(b)));
}
IValue bit_and(const NativeCall& call) {
  return bitwise(call, [](auto a, auto b) { return a & b; });
}
IValue bit_or(const NativeCall& call) {
  return bitwise(call, [](auto a, auto b) { return a | b; });
}
IValue bit_xor(const NativeCall& call) {
  return bitwise(call, [](auto a, auto b) { return a ^ b; });
}

bool truth_of(const IValue& v) {
  if (v.isNone()) return false;
  if (v.isTensor()) return v.toTensor().is_nonzero();
  if (is_sequence(v)) return !items(v).empty();
  return as_double(v) != 0;
}
IValue truth(const NativeCall& call) { return truth_of(call[0]); }
IValue not_(const NativeCall& call) { return !truth_of(call[0]); }
IValue neg(const NativeCall& call) {
  IValue v = call[0];
  return is_int(v) ? IValue(int_sub(0, as_int(v))) : IValue(-as_double(v));
}
IValue absolute(const NativeCall& call) {
  IValue v = call[0];
  if (!is_int(v)) return std::abs(as_double(v));
  return as_int(v) < 0 ? int_sub(0, as_int(v)) : as_int(v);
}
IValue invert(const NativeCall& call) { return ~as_int(call[0]); }
IValue identity(const NativeCall& call) { return call[0]; }
IValue is_same(const NativeCall& call) { return equal(call[0], call[1]); }
IValue is_not_same(const NativeCall& call) { return !equal(call[0], call[1]); }
IValue contains(const NativeCall& call) {
  auto all = items(call[0]);
  IValue wanted = call[1];
  return std::any_of(all.begin(), all.end(), [&](const IValue& v) { return equal(v, wanted); });
}

// number / tensor: what Tensor.__rtruediv__ does, to the bit.
IValue reverse_div(const NativeCall& call) {
  return at::reciprocal(call.tensor(1)).mul(call[0].toScalar());
}

// ---- math and torch.sym_* ----------------------------------------------------------------------

template <double (*F)(double)>
IValue real(const NativeCall& call) {
  return F(as_double(call[0]));
}
template <double (*F)(double)>
IValue rounded(const NativeCall& call) {
  IValue v = call[0];
  return is_int(v) ? IValue(as_int(v)) : IValue(to_integer(F(as_double(v))));
}
IValue to_int(const NativeCall& call) { return rounded<std::trunc>(call); }
IValue to_float(const NativeCall& call) { return as_double(call[0]); }

std::vector<IValue> spread(const NativeCall& call) {
  if (call.size() == 1 && is_sequence(call[0])) return items(call[0]);
  std::vector<IValue> all;
  for (std::size_t i = 0; i < call.size(); ++i) all.push_back(call[i]);
  return all;
}
template <bool kLargest>
IValue extreme(const NativeCall& call) {
  auto all = spread(call);
  if (all.empty()) throw Error("max and min expect at least one number");
  return *std::max_element(all.begin(), all.end(), [](const IValue& a, const IValue& b) {
    return kLargest ? as_double(a) < as_double(b) : as_double(a) > as_double(b);
  });
}
IValue sum(const NativeCall& call) {
  auto all = spread(call);
  bool ints = std::all_of(all.begin(), all.end(), is_int);
  if (ints) {
    return std::accumulate(all.begin(), all.end(), std::int64_t{0},
                           [](std::int64_t s, const IValue& v) { return int_add(s, as_int(v)); });
  }
  return std::accumulate(all.begin(), all.end(), 0.0,
                         [](double s, const IValue& v) { return s + as_double(v); });
}
IValue ite(const NativeCall& call) { return truth_of(call[0]) ? call[1] : call[2]; }
IValue length(const NativeCall& call) {
  IValue v = call[0];
  return v.isTensor() ? v.toTensor().size(0) : static_cast<std::int64_t>(items(v).size());
}
IValue to_tuple(const NativeCall& call) { return tuple(items(call[0])); }

// ---- what a tensor says about itself ------------------------------------------------------------

IValue size(const NativeCall& call) {
  at::Tensor x = call.tensor(0);
  return call.has(1) ? IValue(x.size(as_int(call[1]))) : IValue(x.sizes());
}
IValue stride(const NativeCall& call) {
  at::Tensor x = call.tensor(0);
  return call.has(1) ? IValue(x.stride(as_int(call[1]))) : IValue(x.strides());
}
IValue dim(const NativeCall& call) { return call.tensor(0).dim(); }
IValue numel(const NativeCall& call) { return call.tensor(0).numel(); }
IValue element_size(const NativeCall& call) {
  return static_cast<std::int64_t>(call.tensor(0).element_size());
}

using Attribute = IValue (*)(const at::Tensor&);
const std::map<std::string_view, Attribute>& attributes() {
  static const std::map<std::string_view, Attribute> all = {
      {"shape", [](const at::Tensor& x) { return IValue(x.sizes()); }},
      {"dtype", [](const at::Tensor& x) { return IValue(x.scalar_type()); }},
      {"layout", [](const at::Tensor& x) { return IValue(x.layout()); }},
      {"device", [](const at::Tensor& x) { return IValue(x.device()); }},
      {"ndim", [](const at::Tensor& x) { return IValue(x.dim()); }},
      {"is_cuda", [](const at::Tensor& x) { return IValue(x.is_cuda()); }},
      // Runs are without gradients.
      {"requires_grad", [](const at::Tensor&) { return IValue(false); }},
      {"data", [](const at::Tensor& x) { return IValue(x); }},
      {"T", [](const at::Tensor& x) { return IValue(x.numpy_T()); }},
      {"mT", [](const at::Tensor& x) { return IValue(x.mT()); }},
      {"H", [](const at::Tensor& x) { return IValue(x.matrix_H()); }},
      {"mH", [](const at::Tensor& x) { return IValue(x.mH()); }},
      {"itemsize",
       [](const at::Tensor& x) { return IValue(static_cast<std::int64_t>(x.itemsize())); }},
      {"nbytes", [](const at::Tensor& x) { return IValue(static_cast<std::int64_t>(x.nbytes())); }},
  };
  return all;
}

// ---- arithmetic that may meet tensors ----------------------------------------------------------

struct Arithmetic {
  Native numbers;
  const char* aten;                 // tensor on the left
  const char* reflected = nullptr;  // tensor only on the right; null: as on the left
  bool swap = false;                // … with the operands exchanged
  Native reflected_native = nullptr;
};

const std::map<std::string_view, Arithmetic>& arithmetic_table() {
  static const std::map<std::string_view, Arithmetic> all = {
      {"add", {add, "add", "add", true}},
      {"sub", {sub, "sub", "rsub", true}},
      {"mul", {mul, "mul", "mul", true}},
      {"truediv", {truediv, "div", nullptr, false, reverse_div}},
      {"floordiv", {floordiv, "floor_divide"}},
      {"mod", {mod, "remainder"}},
      {"pow", {pow, "pow"}},
      {"matmul", {nullptr, "matmul"}},
      {"eq", {eq, "eq", "eq", true}},
      {"ne", {ne, "ne", "ne", true}},
      {"lt", {lt, "lt", "gt", true}},
      {"le", {le, "le", "ge", true}},
      {"gt", {gt, "gt", "lt", true}},
      {"ge", {ge, "ge", "le", true}},
      {"and_", {bit_and, "bitwise_and", "bitwise_and", true}},
      {"or_", {bit_or, "bitwise_or", "bitwise_or", true}},
      {"xor", {bit_xor, "bitwise_xor", "bitwise_xor", true}},
      {"lshift", {nullptr, "bitwise_left_shift"}},
      {"rshift", {nullptr, "bitwise_right_shift"}},
      {"neg", {neg, "neg"}},
      {"abs", {absolute, "abs"}},
      {"invert", {invert, "bitwise_not"}},
      {"iadd", {add, "add_", "add", true}},
      {"isub", {sub, "sub_", "rsub", true}},
      {"imul", {mul, "mul_", "mul", true}},
      {"itruediv", {truediv, "div_", nullptr, false, reverse_div}},
      {"ifloordiv", {floordiv, "floor_divide_", "floor_divide", false}},
      {"imod", {mod, "remainder_", "remainder", false}},
      {"ipow", {pow, "pow_", "pow", false}},
      {"iand", {bit_and, "bitwise_and_", "bitwise_and", true}},
      {"ior", {bit_or, "bitwise_or_", "bitwise_or", true}},
      {"ixor", {bit_xor, "bitwise_xor_", "bitwise_xor", true}},
      {"imatmul", {nullptr, "matmul"}},
  };
  return all;
}

void use_native(Instruction& instruction, Native native) {
  instruction.native = native;
  instruction.op.reset();
  instruction.inputs.clear();
}

void bind_arithmetic(Instruction& instruction, const Values& slots) {
  const Arithmetic& row = arithmetic_table().at(instruction.name);
  const auto& args = instruction.args;
  auto is_tensor = [&](const Operand& o) { return kind_of(o, slots) == OperandKind::tensor; };
  if (std::none_of(args.begin(), args.end(), is_tensor)) {
    if (!row.numbers) throw Error("operator." + instruction.name + " expects tensors");
    return use_native(instruction, row.numbers);
  }
  bool reflect = args.size() == 2 && !is_tensor(args[0]);
  if (reflect && row.reflected_native) return use_native(instruction, row.reflected_native);
  if (!reflect || !row.reflected) return bind_best_overload(instruction, row.aten, args, {}, slots);
  std::vector<Operand> operands = args;
  if (row.swap) std::swap(operands[0], operands[1]);
  bind_best_overload(instruction, row.reflected, operands, {}, slots);
}

// x.to(device or dtype or other, …): Python reads it by the kinds of its arguments.
void bind_to(Instruction& instruction, const Values& slots) {
  if (instruction.args.empty()) throw Error("to: there is no tensor");
  NamedOperands kwargs = instruction.kwargs;
  const char* flags[] = {"non_blocking", "copy"};
  std::size_t next_flag = 0;
  for (std::size_t i = 1; i < instruction.args.size(); ++i) {
    const Operand& o = instruction.args[i];
    OperandKind kind = kind_of(o, slots);
    // x.to(other) takes dtype and device from a tensor.
    if (kind == OperandKind::tensor) {
      return bind_best_overload(instruction, "to", instruction.args, instruction.kwargs, slots);
    }
    if (kind == OperandKind::dtype) {
      kwargs.emplace_back("dtype", o);
    } else if (kind == OperandKind::device || kind == OperandKind::string ||
               kind == OperandKind::integer) {
      kwargs.emplace_back("device", o);
    } else if (kind == OperandKind::boolean && next_flag < 2) {
      kwargs.emplace_back(flags[next_flag++], o);
    } else if (kind != OperandKind::none) {
      throw Error("to: argument " + std::to_string(i) +
                  " is neither a dtype, a device nor a tensor");
    }
  }
  std::erase_if(kwargs, [](const auto& k) { return k.second.is_none(); });
  bind_operator(instruction, find_operator("aten.to.dtype_layout"), {instruction.args[0]}, kwargs);
}

using Functions = std::map<std::string_view, PythonFunction>;

const PythonFunction* look_up(const Functions& all, std::string_view name) {
  auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

IValue get_attribute_of(const IValue& v, const std::string& name) {
  // torch.max(x, 1).values: a named tuple.
  if (v.isTuple() && v.toTupleRef().size() == 2) {
    if (name == "values") return v.toTupleRef().elements()[0];
    if (name == "indices") return v.toTupleRef().elements()[1];
  }
  auto it = attributes().find(name);
  if (it == attributes().end() || !v.isTensor()) {
    throw Error("getattr: no attribute '" + name + "' of " + v.tagKind());
  }
  return it->second(v.toTensor());
}

}  // namespace

IValue get_attribute(const NativeCall& call) {
  const IValue name = call[1];
  if (!name.isString())
    throw Error("getattr expects the name of an attribute, got " + name.tagKind());
  return get_attribute_of(call[0], name.toStringRef());
}

bool reads_metadata_only(Native native) {
  return native == size || native == stride || native == dim || native == numel ||
         native == element_size || native == length;
}

const PythonFunction* find_operator_function(std::string_view name) {
  static const Functions all = [] {
    Functions f = {
        {"getitem", {getitem}}, {"setitem", {setitem}},    {"not_", {not_}},
        {"truth", {truth}},     {"pos", {identity}},       {"index", {to_int}},
        {"is_", {is_same}},     {"is_not", {is_not_same}}, {"contains", {contains}},
    };
    for (const auto& row : arithmetic_table()) f[row.first] = {nullptr, bind_arithmetic};
    return f;
  }();
  return look_up(all, name);
}

const PythonFunction* find_builtin(const book::Target& target) {
  static const Functions builtins = {
      {"getattr", {get_attribute}},
      {"len", {length}},
      {"int", {to_int}},
      {"float", {to_float}},
      {"bool", {truth}},
      {"max", {extreme<true>}},
      {"min", {extreme<false>}},
      {"sum", {sum}},
      {"abs", {absolute}},
      // nearbyint rounds halves to even in the default mode, as Python does.
      {"round", {rounded<std::nearbyint>}},
      {"tuple", {to_tuple}},
      {"list", {to_tuple}},
  };
  static const Functions math = {
      {"floor", {rounded<std::floor>}},
      {"ceil", {rounded<std::ceil>}},
      {"trunc", {to_int}},
      {"sqrt", {real<std::sqrt>}},
      {"exp", {real<std::exp>}},
      {"log", {real<std::log>}},
      {"log2", {real<std::log2>}},
      {"sin", {real<std::sin>}},
      {"cos", {real<std::cos>}},
      {"pow", {pow}},
  };
  static const Functions torch = {
      {"sym_int", {to_int}},
      {"sym_float", {to_float}},
      {"sym_max", {extreme<true>}},
      {"sym_min", {extreme<false>}},
      {"sym_sum", {sum}},
      {"sym_not", {not_}},
      {"sym_ite", {ite}},
      {"sym_sqrt", {real<std::sqrt>}},
      {"_sym_sqrt", {real<std::sqrt>}},
      {"numel", {numel}},
  };
  if (target.kind == book::Target::Kind::builtin) return look_up(builtins, target.name);
  if (target.space == "math") return look_up(math, target.name);
  return target.space == "torch" ? look_up(torch, target.name) : nullptr;
}

const PythonFunction* find_method(std::string_view name) {
  static const Functions all = {
      {"size", {size}},
      {"stride", {stride}},
      {"dim", {dim}},
      {"ndimension", {dim}},
      {"numel", {numel}},
      {"nelement", {numel}},
      {"element_size", {element_size}},
      {"__getitem__", {getitem}},
      {"to", {nullptr, bind_to}},
  };
  return look_up(all, name);
}

}  // namespace refx::exec
