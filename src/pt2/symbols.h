#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace refx {

// Symbolic sizes. A file has them as sympy's constructor calls, "Mul(Integer(2), Symbol('s0', …))";
// the model has them readable, "2*s0". What was read can be written again, and products of it.
class Symbols {
 public:
  std::string readable(const std::string& stored);
  // Throws Error for an expression that is no product of numbers and known expressions.
  std::string stored(std::string_view readable) const;

 private:
  std::unordered_map<std::string, std::string> readable_;  // by stored
  std::unordered_map<std::string, std::string> stored_;    // by readable
};

}  // namespace refx
