#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "refx/model.h"

namespace refx::exec {

// What a model may call. The book has the operators that are refused in every model; a model from a
// file may besides call no operator of other namespaces than aten and prims. A namespace ("mylib")
// or an operator ("aten.from_file") that is allowed by name is called.
class Policy {
 public:
  // Allows what the model's file may call, and these.
  explicit Policy(const Model& model, const std::vector<std::string>& more = {});

  // Why the operator is refused; empty if it runs.
  std::string why_not(std::string_view space, std::string_view name) const;
  // Throws HintedError if it is refused.
  void require(std::string_view space, std::string_view name);

 private:
  std::vector<std::string> allowed_;
  bool from_file_;
  std::unordered_set<std::string> passed_;
};

// Throws HintedError that names the first node which calls something refused.
void require_allowed(const Model& model);

}  // namespace refx::exec
