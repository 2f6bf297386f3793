// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refx/arg.h"

namespace refx::book {

// A small notation for "this call of torch is that operator of aten":
//
//   signature  input running_mean running_var weight=None bias=None training=False
//   call       aten.batch_norm.default(input, weight, bias, running_mean, running_var, training)
//
// In a call, a name stands for an argument, `.weight` for the layer's tensor, `.bias?` for one that
// may be absent, `[n]` for n as a list; None, True, 1, 0.5 and 'text' stand for themselves. Where
// the argument `inplace` is true, the operator's in-place twin (aten.relu_.default) is meant.

struct Signature {
  struct Formal {
    std::string name;
    std::optional<Arg> otherwise;  // the default
  };
  std::string text;
  std::vector<Formal> formals;
};
Signature parse_signature(std::string_view text);

struct Operation {
  struct Actual {
    enum class Kind : std::uint8_t { argument, tensor, literal };
    Kind kind = Kind::argument;
    std::string name = {};  // of the argument, or of the layer's tensor
    Arg literal = {};
    bool optional = false;  // the tensor may be absent
    bool as_list = false;   // one number is a list of it
  };
  std::string target;
  std::vector<Actual> actuals;
};
Operation parse_operation(std::string_view text);
// "aten.relu_.default" for "aten.relu.default".
std::string in_place_twin(std::string target);

// Given values by the names of a signature, in its order; null where the default holds. Throws
// Error for one that is missing or unknown.
template <class Value>
using Bound = std::vector<const Value*>;
[[noreturn]] void missing_argument(const std::string& name);
[[noreturn]] void too_many_arguments(const Signature& signature);
[[noreturn]] void unknown_argument(const std::string& name);
[[noreturn]] void argument_given_twice(const Signature& signature);

template <class Value>
Bound<Value> bind(const Signature& signature, const std::vector<Value>& args,
                  const std::vector<std::pair<std::string, Value>>& kwargs) {
  auto named = [&](const std::string& name) -> const Value* {
    for (const auto& [key, value] : kwargs)
      if (key == name) return &value;
    return nullptr;
  };
  Bound<Value> bound;
  std::size_t next = 0, used = 0;
  for (const Signature::Formal& formal : signature.formals) {
    const Value* value = next < args.size() ? &args[next++] : nullptr;
    if (!value && (value = named(formal.name))) ++used;
    if (!value && !formal.otherwise) missing_argument(formal.name);
    bound.push_back(value);
  }
  if (next < args.size()) too_many_arguments(signature);
  if (used < kwargs.size()) {
    for (const auto& [name, value] : kwargs) {
      bool known = false;
      for (const Signature::Formal& formal : signature.formals) known |= formal.name == name;
      if (!known) unknown_argument(name);
    }
    argument_given_twice(signature);
  }
  return bound;
}

}  // namespace refx::book
