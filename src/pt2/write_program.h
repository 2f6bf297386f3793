#pragma once

#include <string>
#include <string_view>

#include "pt2/source.h"

namespace refx {

// models/model.json for the model: the original's text wherever the model is still the same.
std::string program_text(const Model& model, const Pt2Source& source);
// Whether that is `text`, which is compared as it would be written.
bool is_program_text(std::string_view text, const Model& model, const Pt2Source& source);

}  // namespace refx
