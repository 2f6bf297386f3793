#pragma once

#include "refx/arg.h"
#include "util/json_writer.h"

namespace refx {

// Arguments as JSON. What JSON has no word for becomes the text that print() writes.
void write_json(Json& json, const Arg& arg);
void write_json(Json& json, const Kwargs& kwargs);

}  // namespace refx
