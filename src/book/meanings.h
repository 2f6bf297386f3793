// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace refx::book {

// An operator of aten that computes the same as another one, always or for some arguments:
// mm(self, mat2) is matmul(self, other), permute is transpose where it swaps two dimensions. One
// row of the table in meanings.cpp. Both names are without the underscore of an in-place twin.
struct Meaning {
  // How the arguments of the one become those of the other.
  enum class Form : std::uint8_t {
    renamed,        // they have the names of `arguments`
    positional,     // likewise, given by position or by name: `name` is no operator of aten
    transpose,      // it swaps two dimensions
    cast,           // it changes the dtype and nothing else
    softmax,        // _softmax(self, dim, half_to_float)
    softmax_dtype,  // the dtype that softmax is given is the one that its input has
    square,         // the square of self, or self * self
    power,          // the power `exponent` of self
    reciprocal,     // self / c is self * (1 / c)
  };
  struct Argument {
    std::string_view from, to;
  };

  std::string_view name, means;
  Form form = Form::renamed;
  std::array<Argument, 3> arguments = {};  // empty names at the end
  double exponent = 0;
  bool canonical = false;  // the pattern of a rule that has `name` is read as `means`
};
std::span<const Meaning> meanings();

// Whether a call of `name` in the pattern of a rule is read as the operator that it means, so that
// the pattern also finds the other names for it.
bool is_read_by_meaning(std::string_view name);
// The names under which a call of `name` may be found, itself first.
std::vector<std::string_view> names_of_meaning(std::string_view name);

// Whether the operator gives the same when its two operands are swapped.
bool is_commutative(std::string_view name);

// transformers' operator that is read as aten._grouped_mm. Unlike aten's, it takes every dtype and
// stride, and rows after the last group are zeros.
inline constexpr std::string_view kGroupedMmFallback = "transformers.grouped_mm_fallback.default";

}  // namespace refx::book
