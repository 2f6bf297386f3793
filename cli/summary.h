// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "output.h"
#include "refx/detach.h"
#include "refx/model.h"
#include "util/json_writer.h"

namespace refx::cli {

// How often each operator, module type and method is called.
using Counts = std::map<std::string, std::size_t>;
Counts operators(const Model& model);
std::size_t total(const Counts& counts);
Json& write(Json& json, const Counts& counts);

// "12 originals (3.4 MB)"
std::string originals(const std::vector<DetachedTensor>& tensors);
std::size_t total_bytes(const std::vector<DetachedTensor>& tensors);

// "aten.div.Tensor  1 -> 0" for every count that changed, and for their sum.
Table changes(const Counts& before, const Counts& after);

}  // namespace refx::cli
