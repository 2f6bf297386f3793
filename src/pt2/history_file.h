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

// A hash of the records that describe the program. The history stores it, to detect that another
// program has changed the model.
std::string program_fingerprint(std::string_view model, std::string_view weights,
                                std::string_view constants);

// Adds the folder to the image of a model that has steps.
void add_history(Image& image, const Model& model, const Pt2Source& source);

// Reads the folder in two parts: first where the records of the original are, then, after the
// original was read, the steps. read_labels() reads only one line about each step.
class HistoryReader {
 public:
  explicit HistoryReader(Pt2Source& source);
  ~HistoryReader();

  void read_original_records();   // their locations in this file
  void read_steps(Model& model);  // applies them to the original
  std::optional<std::vector<StepLabel>> read_labels();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refx
