// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/arg.h"
#include "refx/export.h"
#include "refx/name.h"
#include "refx/table.h"

namespace refx {

// A leaf module that call_module nodes call. Its tensors are state entries named "<name>.<tensor>".
struct REFX_API Module {
  Name name;          // its path: "encoder.layer.0.query"
  std::string type;   // exact type: "torch.nn.Linear"
  Kwargs parameters;  // hyper-parameters by their torch.nn names: in_features, bias, …
  bool training = false;
  std::string custom;  // why it is more than its type says (a hook, a parametrization); else empty
  friend bool operator==(const Module& a, const Module& b) = default;
};

using Modules = Table<Module>;

// A hyper-parameter by name; null if it is not there.
REFX_API const Arg* parameter(const Module& module, std::string_view name);

}  // namespace refx
