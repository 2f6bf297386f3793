// SPDX-License-Identifier: Apache-2.0

#include "book/meanings.h"

#include <algorithm>

namespace refx::book {

namespace {

using Form = Meaning::Form;
using Names = std::array<Meaning::Argument, 3>;

constexpr Names kMatmul = {{{"self", "self"}, {"mat2", "other"}}};
constexpr Names kReshape = {{{"self", "self"}, {"size", "shape"}}};
constexpr Names kSwapped = {{{"other", "self"}, {"self", "other"}}};
constexpr Names kGroupedMm = {{{"input", "self"}, {"weight", "mat2"}, {"offs", "offs"}}};

// The order is that in which a matcher tries the rows of one name.
constexpr Meaning kMeanings[] = {
    {"t", "transpose", Form::transpose, {}, 0, true},
    {"numpy_T", "transpose", Form::transpose},
    {"mT", "transpose", Form::transpose},
    {"adjoint", "transpose", Form::transpose},
    {"permute", "transpose", Form::transpose, {}, 0, true},
    // Itself, with its dimensions counted from the end, so that all transposes compare equal.
    {"transpose", "transpose", Form::transpose, {}, 0, true},
    {"swapaxes", "transpose", Form::transpose},
    {"swapdims", "transpose", Form::transpose},
    // Not canonical: matmul takes any number of dimensions, and a pattern with mm is about two.
    {"mm", "matmul", Form::renamed, kMatmul},
    {"bmm", "matmul", Form::renamed, kMatmul},
    {"_softmax", "softmax", Form::softmax},
    {"softmax", "softmax", Form::softmax_dtype},
    {"to", "to", Form::cast},
    {"_to_copy", "to", Form::cast},
    {"type", "to", Form::cast},
    // Of the methods that cast (casts.h), those to a floating-point dtype. int(), float() and
    // bool() are functions of Python, too, and no rule is about integers.
    {"float", "to", Form::cast},
    {"double", "to", Form::cast},
    {"half", "to", Form::cast},
    {"bfloat16", "to", Form::cast},
    {"view", "reshape", Form::renamed, kReshape, 0, true},
    {"_unsafe_view", "reshape", Form::renamed, kReshape, 0, true},
    {"square", "pow", Form::square, {}, 0, true},
    {"mul", "pow", Form::square},
    {"sqrt", "pow", Form::power, {}, 0.5},
    {"rsqrt", "pow", Form::power, {}, -0.5},
    {"reciprocal", "pow", Form::power, {}, -1},
    // rsub(x, 1) is 1 - x.
    {"rsub", "sub", Form::renamed, kSwapped},
    // Only where c is a constant of the model, which the matcher finds out.
    {"div", "mul", Form::reciprocal},
    {kGroupedMmFallback, "_grouped_mm", Form::positional, kGroupedMm},
};

}  // namespace

std::span<const Meaning> meanings() { return kMeanings; }

bool is_read_by_meaning(std::string_view name) {
  return std::any_of(std::begin(kMeanings), std::end(kMeanings),
                     [&](const Meaning& row) { return row.canonical && row.name == name; });
}

std::vector<std::string_view> names_of_meaning(std::string_view name) {
  std::vector<std::string_view> names{name};
  for (const Meaning& row : kMeanings)
    if (row.means == name) names.push_back(row.name);
  return names;
}

// maximum, minimum and the comparisons for equality commute as well, but no rule has them yet, and
// every commutative operator doubles the orders that a matcher tries.
bool is_commutative(std::string_view name) { return name == "add" || name == "mul"; }

}  // namespace refx::book
