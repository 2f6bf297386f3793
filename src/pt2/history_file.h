#pragma once

#include "pt2/image.h"
#include "refx/editor.h"

namespace refx {

// The folder `refx/` of a file: the steps, and what of the original the file does not hold itself.
//   refx/history.json    the steps, as edits of the original
//   refx/original/NAME   a record of the original that the file has no longer, or has changed
//   refx/tensors/N       a tensor that one step made and another replaced
//   refx/skeleton        the original's bytes besides its records
constexpr std::string_view kHistory = "refx/history.json";

// Tells whether a history belongs to the program beside it.
std::string fit_of(std::string_view model, std::string_view weights, std::string_view constants);

// Adds the folder to the image of a model that has steps.
void add_history(Image& image, const Model& model, const Pt2Source& source);

// The two halves of reading it. First: where the original's records are now.
void read_original_records(Pt2Source& source);
// Then, when the original has been read: the steps are put back.
void read_steps(const Pt2Source& source, Model& model);

}  // namespace refx
