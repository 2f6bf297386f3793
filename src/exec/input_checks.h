// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <limits>
#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// "a tensor", "a tuple of 2".
std::string kind_name(const c10::IValue& value);

namespace exec {

// Checks inputs against the dtypes and sizes that a model takes. Made once for a model, so that a
// check compares a few numbers. Devices are not checked: operators do that.
class InputChecks {
 public:
  InputChecks() = default;
  explicit InputChecks(const Model& model);

  // Throws Error that names the first input that does not fit, and what it should be.
  void check(const std::vector<c10::IValue>& inputs) const;

  // Why the value cannot be input i, worded to follow "input 'x'"; empty if it can. Does not
  // compare it with other inputs.
  std::string mismatch(std::size_t i, const c10::IValue& value) const;

 private:
  struct Size {
    std::int64_t min = 0, max = std::numeric_limits<std::int64_t>::max();  // equal: a fixed size
  };
  struct Input {
    std::string name;
    TypePtr type;  // null: anything
    std::vector<Size> sizes;
  };
  struct Dimension {
    std::size_t input, dim;
  };
  // Two dimensions that are one symbol, or a dimension that is an expression of symbols.
  struct Equal {
    Dimension first, second;
  };
  struct Computed {
    Dimension of;
    std::string expression;
  };

  bool fits(const Input& input, const c10::IValue& value) const;
  void check_symbols(const std::vector<c10::IValue>& inputs) const;
  std::string where(const Dimension& at) const;

  std::vector<Input> inputs_;
  std::vector<std::pair<std::string, Dimension>> symbols_;  // where each has its value from
  std::vector<Equal> equal_;
  std::vector<Computed> computed_;
};

}  // namespace exec
}  // namespace refx
