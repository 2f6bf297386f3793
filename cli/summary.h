// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "output.h"
#include "refx/detach.h"
#include "refx/model.h"
#include "refx/transformation.h"
#include "util/json_writer.h"

namespace refx::cli {

// The number of calls of each operator, module type and method.
using Counts = std::map<std::string, std::size_t>;
Counts operators(const Model& model);
std::size_t total(const Counts& counts);
Json& write(Json& json, const Counts& counts);

// The object of one refusal; `nodes` has the names of the nodes that the reason is about.
void write_refusal(Json& json, const Model& model, const std::string& transformation,
                   const Refusal& refusal);

// "12 originals (3.4 MB)"
std::string originals(const std::vector<DetachedTensor>& tensors);
std::size_t total_bytes(const std::vector<DetachedTensor>& tensors);

// "aten.div.Tensor  1 -> 0" for every count that changed, and for the total.
TextTable changes(const Counts& before, const Counts& after);

}  // namespace refx::cli
