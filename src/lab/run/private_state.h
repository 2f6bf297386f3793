#pragma once

#include "refx/model.h"

namespace refx {

// The state entries that a run of the model may write: batch-norm statistics, counters, caches.
std::vector<StateId> written_state(const Model& model);

// A copy, without history, that has its own copy of what a run may write; everything else is
// shared.
Model with_private_state(const Model& model);

}  // namespace refx
