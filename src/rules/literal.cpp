// SPDX-License-Identifier: Apache-2.0

#include "rules/literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace refx::rules {

namespace {

constexpr double kNear = 1e-14;  // relative: what verify() does not tell from the same
constexpr std::string_view kOperators = "operator.", kQuestions = "rule.";

Literal of_integers(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (op == "add") overflows = __builtin_add_overflow(a, b, &result);
  if (op == "sub") overflows = __builtin_sub_overflow(a, b, &result);
  if (op == "mul") overflows = __builtin_mul_overflow(a, b, &result);
  if (op == "floordiv" || op == "mod") {
    if (b == 0) return no_literal("it divides by zero");
    // The smallest integer divided by -1 overflows, and traps.
    if (b == -1) {
      overflows = __builtin_sub_overflow(std::int64_t{0}, a, &result);
      if (op == "mod") return {Arg(0)};
    } else {
      // C++ rounds to zero and Python down: they differ where the signs do and the division is
      // inexact.
      const std::int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
      result = op == "floordiv" ? quotient : a - quotient * b;
    }
  }
  if (overflows) return no_literal("a number is too large");
  return {Arg(result)};
}

Literal of_reals(std::string_view op, double a, double b) {
  if (op == "add") return {a + b};
  if (op == "sub") return {a - b};
  if (op == "mul") return {a * b};
  if (op == "pow") return {std::pow(a, b)};
  if (b == 0) return no_literal("it divides by zero");
  if (op == "truediv") return {a / b};
  if (op == "floordiv") return {std::floor(a / b)};
  // The remainder has the sign of the divisor, as in Python.
  return {a - std::floor(a / b) * b};
}

Literal arithmetic(std::string_view op, const Arg& a, const Arg& b) {
  const auto x = number_of(a), y = number_of(b);
  if (!x || !y) return no_literal("it computes with something that is not a number");
  const bool integers = a.is<std::int64_t>() && b.is<std::int64_t>();
  if (integers && op != "truediv" && op != "pow")
    return of_integers(op, *a.get<std::int64_t>(), *b.get<std::int64_t>());
  return of_reals(op, *x, *y);
}

Literal comparison(std::string_view op, const Arg& a, const Arg& b) {
  const auto x = number_of(a), y = number_of(b);
  const bool equal = same_number(a, b);
  // Two expressions may be equal for some sizes.
  if (!equal && (a.is<SymInt>() || b.is<SymInt>())) return no_literal("a size is not known");
  if (op == "eq") return {equal};
  if (op == "ne") return {!equal};
  if (!x || !y) return no_literal("it compares something that is not a number");
  if (op == "lt") return {*x < *y};
  if (op == "le") return {*x <= *y};
  if (op == "gt") return {*x > *y};
  return {*x >= *y};
}

// ---- questions ---------------------------------------------------------------------------------

struct Asked {
  const Args& args;
  const TypeOfValue& type_of;

  // The type of the tensor that is asked about.
  TypePtr type(std::size_t i = 0) const {
    const NodeId* node = args[i].get<NodeId>();
    return node ? type_of(*node) : nullptr;
  }
  Literal not_known(std::string_view what) const {
    const bool untyped = std::any_of(args.begin(), args.end(), [&](const Arg& arg) {
      return arg.is<NodeId>() && !type_of(*arg.get<NodeId>());
    });
    return no_literal(
        fmt::format("{} is not known{}", what, untyped ? " (run shape propagation)" : ""));
  }
};

Literal rank(const Asked& asked) {
  const TypePtr type = asked.type();
  return type ? Literal{static_cast<std::int64_t>(type->sizes.size())}
              : asked.not_known("its rank");
}

Literal dim_as_arg(const Dim& dim) {
  return dim.known() ? Literal{dim.value} : Literal{SymInt{dim.expr}};
}

Literal size(const Asked& asked) {
  const TypePtr type = asked.type();
  const auto* dim = asked.args[1].get<std::int64_t>();
  if (!type || !dim) return asked.not_known("its size");
  const auto rank = static_cast<std::int64_t>(type->sizes.size());
  const std::int64_t at = *dim < 0 ? *dim + rank : *dim;
  if (at < 0 || at >= rank) return no_literal("it has no such dimension");
  return dim_as_arg(type->sizes[static_cast<std::size_t>(at)]);
}

// How many numbers it has.
Literal numel(const Asked& asked) {
  const TypePtr type = asked.type();
  if (!type) return asked.not_known("its size");
  std::vector<Dim> sizes = type->sizes;
  // The first stride of a tensor is the product of all sizes after the first.
  sizes.insert(sizes.begin(), 1);
  return dim_as_arg(contiguous_strides(sizes)[0]);
}

// Whether it is on a device of such a type.
Literal on(const Asked& asked) {
  const TypePtr type = asked.type();
  const auto* device = asked.args[1].get<std::string>();
  if (!type || !device) return asked.not_known("its device");
  return {c10::DeviceTypeName(type->device.type(), /*lower_case=*/true) == *device};
}

Literal dtype(const Asked& asked) {
  const TypePtr type = asked.type();
  if (!asked.args[0].is<NodeId>()) return {asked.args[0]};
  return type ? Literal{type->dtype} : asked.not_known("its dtype");
}

// The dtype that holds the numbers of both.
Literal wider(const Asked& asked) {
  std::optional<c10::ScalarType> both;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* given = asked.args[i].get<c10::ScalarType>();
    const TypePtr type = asked.type(i);
    if (!given && !type) return asked.not_known("its dtype");
    const c10::ScalarType one = given ? *given : type->dtype;
    both = both ? c10::promoteTypes(*both, one) : one;
  }
  return {*both};
}

// What stands for nothing is in nobody's way.
Literal floating(const Asked& asked) {
  if (asked.args[0].is<None>()) return {true};
  const Literal of = dtype(asked);
  const auto* type = of.value.get<c10::ScalarType>();
  return type ? Literal{c10::isFloatingType(*type)} : asked.not_known("its dtype");
}

Literal near(const Asked& asked) {
  const auto a = number_of(asked.args[0]), b = number_of(asked.args[1]);
  if (!a || !b) return no_literal("it compares something that is not a number");
  return {std::abs(*a - *b) <= kNear * std::max(std::abs(*a), std::abs(*b))};
}

Literal root(const Asked& asked) {
  const auto a = number_of(asked.args[0]);
  return a && *a >= 0 ? Literal{std::sqrt(*a)} : no_literal("it takes the root of no number");
}

Literal given(const Asked& asked) { return {!asked.args[0].is<None>()}; }

// A value, or what stands for it where it is absent.
Literal value_or(const Asked& asked) { return {asked.args[asked.args[0].is<None>() ? 1 : 0]}; }

// The smallest number of a dtype, which masks are filled with.
Literal lowest(const Asked& asked) {
  const Literal of = dtype(asked);
  const auto* type = of.value.get<c10::ScalarType>();
  if (!type) return asked.not_known("its dtype");
  switch (*type) {
    case c10::ScalarType::Double:
      return {std::numeric_limits<double>::lowest()};
    case c10::ScalarType::Float:
      return {static_cast<double>(std::numeric_limits<float>::lowest())};
    case c10::ScalarType::Half:
      // numeric_limits knows neither of the two narrow types.
      return {-65504.0};
    case c10::ScalarType::BFloat16:
      return {-3.3895313892515355e38};
    default:
      return no_literal("it is not a floating-point type");
  }
}

// Whether b is broadcast to a and leaves its sizes as they are.
Literal fits(const Asked& asked) {
  if (asked.args[1].is<None>()) return {true};
  const TypePtr a = asked.type(0), b = asked.type(1);
  if (!a || !b) return asked.not_known("its size");
  if (b->sizes.size() > a->sizes.size()) return {false};
  return {std::equal(b->sizes.rbegin(), b->sizes.rend(), a->sizes.rbegin(),
                     [](const Dim& from, const Dim& to) {
                       return from == to || (from.known() && from.value == 1);
                     })};
}

struct Question {
  std::size_t arguments;
  Literal (*answer)(const Asked&);
};
const std::map<std::string, Question, std::less<>>& all_questions() {
  static const std::map<std::string, Question, std::less<>> all = {
      {"rank", {1, rank}},         {"size", {2, size}},     {"dtype", {1, dtype}},
      {"floating", {1, floating}}, {"near", {2, near}},     {"sqrt", {1, root}},
      {"given", {1, given}},       {"lowest", {1, lowest}}, {"fits", {2, fits}},
      {"value_or", {2, value_or}}, {"numel", {1, numel}},   {"on", {2, on}},
      {"wider", {2, wider}},
  };
  return all;
}

// Rules that users wrote have the former names of questions.
std::string_view present_name(std::string_view name) {
  return name == "either" ? std::string_view("value_or") : name;
}

Literal operate(std::string_view op, const Args& args) {
  if (args.size() == 1) {
    if (op == "not_") return {!truth_of(args[0])};
    return op == "neg" ? arithmetic("sub", Arg(0), args[0]) : no_literal("it is not an operator");
  }
  if (args.size() != 2) return no_literal("it takes two arguments");
  if (op == "and_") return {truth_of(args[0]) && truth_of(args[1])};
  if (op == "or_") return {truth_of(args[0]) || truth_of(args[1])};
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"})
    if (op == name) return comparison(op, args[0], args[1]);
  return arithmetic(op, args[0], args[1]);
}

}  // namespace

bool truth_of(const Arg& arg) {
  if (const bool* truth = arg.get<bool>()) return *truth;
  if (const auto number = number_of(arg)) return *number != 0;
  return !arg.is<None>();
}

std::optional<double> number_of(const Arg& arg) {
  if (const auto* integer = arg.get<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* real = arg.get<double>()) return *real;
  return std::nullopt;
}

bool same_number(const Arg& a, const Arg& b) {
  const auto x = number_of(a), y = number_of(b);
  return x && y ? *x == *y : a == b;
}

bool is_operator(std::string_view target) {
  static constexpr std::string_view kKnown[] = {"add", "sub", "mul",  "truediv", "floordiv", "mod",
                                                "pow", "neg", "eq",   "ne",      "lt",       "le",
                                                "gt",  "ge",  "and_", "or_",     "not_"};
  if (!target.starts_with(kOperators)) return false;
  target.remove_prefix(kOperators.size());
  return std::find(std::begin(kKnown), std::end(kKnown), target) != std::end(kKnown);
}

bool is_question(std::string_view name) { return all_questions().contains(present_name(name)); }

const std::vector<std::string>& questions() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const auto& [name, question] : all_questions()) names.push_back(name);
    return names;
  }();
  return names;
}

std::size_t arguments_of(std::string_view question) {
  return all_questions().find(present_name(question))->second.arguments;
}

bool may_give_tensor(std::string_view question) { return present_name(question) == "value_or"; }

std::string question_target(std::string_view name) {
  return std::string(kQuestions).append(present_name(name));
}

Literal compute(std::string_view target, const Args& args, const TypeOfValue& type_of) {
  if (target.starts_with(kOperators)) return operate(target.substr(kOperators.size()), args);
  return all_questions().find(target.substr(kQuestions.size()))->second.answer({args, type_of});
}

}  // namespace refx::rules
