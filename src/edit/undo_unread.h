// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/undo.h"

namespace refx {

// Like undo(), but does not require the contents of originals now. They are checked or computed
// when they are first read, and may be missing if they were detached.
void undo_unread(Model& model, const ReversalPlan& plan, const ReverseOptions& options);

}  // namespace refx
