#pragma once

#include <string>

#include "refx/bench.h"
#include "refx/verify.h"

namespace refx::testing {

// An encoder with attention: about 24 nodes for each layer, in modules as torch.export names them.
// Two steps for each layer have been applied to it.
Model rewritten_encoder(int layers);

// A chain of operators that belong to no module at all.
Model chain(int nodes);

// Results as verify() and bench() may give them.
Verification some_verification();
Benchmark some_benchmark();

}  // namespace refx::testing
