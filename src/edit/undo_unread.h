// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/undo.h"

namespace refx {

// Like undo(), but contents of originals are provided, or checked, when they are first read, not
// now: there may be none.
void undo_unread(Model& model, const ReversalPlan& plan, const ReverseOptions& options);

}  // namespace refx
