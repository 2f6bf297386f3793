#pragma once

#include <string>

#include "pt2/source.h"

namespace refx {

// models/model.json for the model: the original's text wherever the model is still the same.
std::string program_text(const Model& model, const Pt2Source& source);

}  // namespace refx
