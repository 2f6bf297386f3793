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
// In a call, a name is an argument, `.weight` is a tensor of the layer, `.bias?` one that may be
// absent, and `[n]` is n as a list. None, True, 1, 0.5 and 'text' are literals. If the argument
// `inplace` is true, the in-place operator (aten.relu_.default) is called.

struct Signature {
  struct Formal {
    std::string name;
    std::optional<Arg> default_value;
  };
  std::string text;
  std::vector<Formal> formals;
};
Signature parse_signature(std::string_view text);

struct Operation {
  struct Actual {
    enum class Source : std::uint8_t { argument, tensor, literal };
    Source source = Source::argument;
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

// Arranges arguments in the order of a signature; null where the default applies. Throws Error if
// one is missing or unknown.
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
    if (!value && !formal.default_value) missing_argument(formal.name);
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
