#pragma once

#include "refx/bench.h"
#include "util/json_writer.h"

namespace refx {

void write(Json& json, const Contest& contest);

}  // namespace refx
