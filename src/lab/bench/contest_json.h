// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/bench.h"
#include "util/json_writer.h"

namespace refx {

// A contest as JSON, for bench and tune.
void write(Json& json, const Contest& contest);

}  // namespace refx
