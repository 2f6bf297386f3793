// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "refx/export.h"
#include "refx/undo.h"

namespace refx {

// Takes steps back, bit for bit, in any order; what builds on them is applied again by the
// transformations of the registry. On any failure nothing is changed.
REFX_API Reversal reverse(Model& model, const ReversalPlan& plan,
                          const ReverseOptions& options = {});
REFX_API Reversal reverse(Model& model, const std::vector<StepId>& steps,
                          const ReverseOptions& options = {});
REFX_API Reversal reverse(Model& model, StepId step, const ReverseOptions& options = {});
// By step id, transformation or site pattern; see History::select.
REFX_API Reversal reverse(Model& model, std::string_view what, const ReverseOptions& options = {});
REFX_API Reversal reverse_all(Model& model, const ReverseOptions& options = {});

}  // namespace refx
