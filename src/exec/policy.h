// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "refx/model.h"

namespace refx::exec {

// What a model may call. A model from a file calls the operators of aten that the book's table has,
// and none of other namespaces; one that was made in this process calls any but those of aten that
// the book refuses everywhere. A namespace ("mylib") or an operator ("aten.from_file") that is
// allowed by name is called.
class Policy {
 public:
  using Overload = std::optional<std::string_view>;  // none: it is chosen when the model runs

  // Allows what the model's file may call, and these.
  explicit Policy(const Model& model, const std::vector<std::string>& more = {});

  // Why the operator is refused; empty if it runs.
  std::string why_not(std::string_view space, std::string_view name, Overload overload) const;
  // Throws HintedError if it is refused.
  void require(std::string_view space, std::string_view name, Overload overload);
  // Whether the operator runs only because it is in the table. Then only its overloads there do,
  // and results are dense.
  bool is_by_table(std::string_view space, std::string_view name) const;

 private:
  bool is_by_name(std::string_view space, std::string_view name) const;

  std::vector<std::string> allowed_;
  bool from_file_;
  std::unordered_set<std::string> passed_;
};

// Throws HintedError that names the first node which calls something refused.
void require_allowed(const Model& model);

}  // namespace refx::exec
