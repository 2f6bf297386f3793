// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refx::book {

// The book of torch: what its operators, functions and layers are. All other code (executor,
// importers, operator interfaces, laboratory, files, bindings) looks such facts up here.

// The parts of the target of a call_function.
struct Target {
  enum class Kind : std::uint8_t {
    op,          // an operator of the dispatcher: "aten.view.dtype", "torch.ops.aten.view.dtype"
    packet,      // an operator without its overload: "torch.ops.aten.view", "aten.view"
    functional,  // "torch.nn.functional.linear"
    torch,       // "torch.matmul", "torch._C._nn.linear", "torch.Tensor.view"
    python,      // "operator.mul", "math.floor"
    builtin,     // "builtins.getattr", "getattr"
    other,       // a function of another library
  };
  Kind kind = Kind::other;
  std::string_view space;     // "aten", "operator", "torch.nn.functional"
  std::string_view name;      // "view"; the whole target if the kind is `other`
  std::string_view overload;  // of an op: "dtype"; the default one is "default"

  bool is_op() const { return kind == Kind::op; }
  bool is_aten() const { return (is_op() || kind == Kind::packet) && space == "aten"; }
  // The names in the dispatcher: "aten::view", and "" for the default overload.
  std::string qualified_name() const;
  std::string overload_name() const;
};
Target parse_target(std::string_view target);
// The aten operator that a function of torch calls: "linalg_norm" for torch.linalg.norm.
std::string operator_of(const Target& function);

// Converts between the targets in a file and those in a model: "torch.ops.aten.linear.default" and
// "aten.linear.default", "_operator.mul" and "operator.mul".
std::string target_from_file(std::string_view target);
std::string target_for_file(std::string_view target);

// The name that torch.fx gives to the value of such a call: "linear", "mul".
std::string_view value_name(std::string_view target);

}  // namespace refx::book
