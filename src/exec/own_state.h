// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/program.h"

namespace refx {

// The state entries that a run of the model may write: batch-norm statistics, counters, caches.
std::vector<StateId> written_state(const Model& model);

// Whether what a run returns may depend on the runs before: it reads state that runs write.
bool keeps_state(const Model& model);

namespace exec {

// Tells the program which of the state that it reads needs a copy of its own: what a run may write,
// and what shares memory with that.
void find_own_state(const Model& model, const std::unordered_map<std::string, Slot>& slots,
                    Program& program);

// Makes the copies, unless they are there.
void make_own_state(Program& program);
// Gives them the values that the model has.
void reset_own_state(Program& program);

}  // namespace exec
}  // namespace refx
