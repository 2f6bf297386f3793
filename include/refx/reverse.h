// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "refx/export.h"
#include "refx/undo.h"

namespace refx {

// Reverses steps, bit for bit, in any order. By default the transformations of the registry apply
// dependent steps again. If anything fails, nothing changes.
REFX_API Reversal reverse(Model& model, const ReversalPlan& plan,
                          const ReverseOptions& options = {});
REFX_API Reversal reverse(Model& model, const std::vector<StepId>& steps,
                          const ReverseOptions& options = {});
REFX_API Reversal reverse(Model& model, StepId step, const ReverseOptions& options = {});
// Selects the steps by id, transformation or site pattern; see History::select().
REFX_API Reversal reverse(Model& model, std::string_view what, const ReverseOptions& options = {});
REFX_API Reversal reverse_all(Model& model, const ReverseOptions& options = {});

}  // namespace refx
