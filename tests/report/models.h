// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/bench.h"
#include "refx/tune.h"
#include "refx/verify.h"

namespace refx::testing {

// An encoder with attention: about 24 nodes for each layer, in modules as torch.export names them.
// Two steps for each layer have been applied to it.
Model rewritten_encoder(int layers);

// Twelve layers with long names, whose 72 linears have been stored in int8, and two of them taken
// back.
Model lossy_encoder();

// A chain of operators that belong to no module at all.
Model chain(int nodes);

// Results as verify(), bench() and tune() may give them.
Verification some_verification();
Benchmark some_benchmark();
// With a budget of 0.01, four attempts, three of them on the frontier.
Tuning some_tuning();

}  // namespace refx::testing
