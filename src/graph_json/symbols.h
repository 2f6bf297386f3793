// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "util/limits.h"

namespace refx {

// Symbolic sizes. A file has them as sympy's constructor calls, "Mul(Integer(2), Symbol('s0', …))";
// the model has them readable, "2*s0". What was read can be written again, and products of it.
class Symbols {
 public:
  // Throws Error for one that is too long.
  std::string readable(const std::string& stored);
  // Throws Error for an expression that is no product of numbers and known expressions.
  std::string stored(std::string_view readable) const;

  std::size_t bytes() const;  // of all expressions that it remembers

 private:
  std::unordered_map<std::string, std::string> readable_;  // by stored
  std::unordered_map<std::string, std::string> stored_;    // by readable
  std::size_t room_for_parts_ = limits::kExpressionParts;
};

}  // namespace refx
