// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refx::book {

// The book of torch: what its operators, functions and layers are. Everyone who has to know that
// (the executor, the importers, the op views, the laboratory, files, bindings) reads it here.

// What the target of a call_function names, in parts.
struct Target {
  enum class Kind : std::uint8_t {
    op,          // an operator of the dispatcher: "aten.view.dtype", "torch.ops.aten.view.dtype"
    packet,      // one without its overload: "torch.ops.aten.view", "aten.view"
    functional,  // "torch.nn.functional.linear"
    torch,       // "torch.matmul", "torch._C._nn.linear", "torch.Tensor.view"
    python,      // "operator.mul", "math.floor"
    builtin,     // "builtins.getattr", "getattr"
    other,       // somebody else's function
  };
  Kind kind = Kind::other;
  std::string_view space;     // "aten", "operator", "torch.nn.functional"
  std::string_view name;      // "view"; of somebody else's function, all of it
  std::string_view overload;  // of an op: "dtype"; the default one is "default"

  bool is_op() const { return kind == Kind::op; }
  bool is_aten() const { return (is_op() || kind == Kind::packet) && space == "aten"; }
  // As the dispatcher has them: "aten::view", "" for the default overload.
  std::string qualified_name() const;
  std::string overload_name() const;
};
Target parse_target(std::string_view target);
// The operator of aten that a function of torch is: "linalg_norm" for torch.linalg.norm.
std::string operator_of(const Target& function);

// "torch.ops.aten.linear.default" in a file is "aten.linear.default" in a model, and
// "_operator.mul" is "operator.mul".
std::string target_from_file(std::string_view target);
std::string target_for_file(std::string_view target);

// The name that torch.fx gives to a value of such a call: "linear", "mul".
std::string_view value_name(std::string_view target);

}  // namespace refx::book
