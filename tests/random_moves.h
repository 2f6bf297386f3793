// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace refx::testing {

// A property: a random model is rewritten and reversed at random; its results never change and its
// end is its start.
void ends_where_it_started();

// Rewrites and reversals that it made in this process until now.
int moves_made();

}  // namespace refx::testing
