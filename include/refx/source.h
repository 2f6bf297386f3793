// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"

namespace refx {

// The file that a model was loaded from: what the graph does not contain, and what save() needs.
class REFX_API Source {
 public:
  virtual ~Source() = default;

  virtual const std::string& path() const = 0;

  // How nested (args, kwargs) and results are flattened: treespecs of torch.utils._pytree, as JSON.
  // Empty if unknown.
  virtual std::string_view input_spec() const = 0;
  virtual std::string_view output_spec() const = 0;

  // The example (args, kwargs) as torch.save wrote them, checked; empty if there are none.
  virtual std::string_view sample_inputs() const = 0;

  // The values that a symbolic size may take.
  struct Range {
    std::optional<std::int64_t> min, max;
  };
  virtual const std::map<std::string, Range>& ranges() const = 0;

  // The operators that the caller of load() allowed besides the usual ones; see Executor.
  virtual const std::vector<std::string>& allowed_ops() const = 0;
};

}  // namespace refx
