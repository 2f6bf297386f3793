// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pt2/image.h"
#include "refx/editor.h"
#include "refx/pt2.h"

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

// Reads it in two halves, between which the original is read; or what it says of the steps alone.
class HistoryReader {
 public:
  explicit HistoryReader(Pt2Source& source);
  ~HistoryReader();

  void read_original_records();   // where they are now
  void read_steps(Model& model);  // puts them back
  std::optional<std::vector<StepLabel>> read_labels();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refx
