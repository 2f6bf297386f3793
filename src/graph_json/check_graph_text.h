// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace c10 {
struct FunctionSchema;
}  // namespace c10

namespace refx {

// Checks the JSON of calls that refx itself wrote by the rules of torch.export's loader, which
// trusts what it reads: a violation makes a file that torch cannot load. What is found is a fault
// of refx (InternalError).
class GraphTextCheck {
 public:
  // One element of `nodes`: its outputs are those of the schema in number and kind. A null schema
  // stands for a function without one.
  void call(std::string_view text, const c10::FunctionSchema* schema);

  // Values that the texts name, with their kind: "tensor", "sym_int", "sym_float" or "sym_bool".
  // Each of them needs an entry in `tensor_values`, `sym_int_values` and so on.
  const std::unordered_map<std::string, std::string>& values() const { return values_; }

 private:
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::string> makers_;  // of outputs: the node that gives them
};

}  // namespace refx
