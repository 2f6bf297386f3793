// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/measure.h"
#include "refx/model.h"
#include "refx/registry.h"

namespace refx {

// Which layers suffer most from lossy rewrites.

struct SensitivityOptions {
  // Applied first, to a copy: for what is not in the model, or not yet.
  std::vector<TransformationPtr> transformations = {};
  SiteFilter filter = {};  // which of their sites, and which steps of the model
  bool reversed = false;   // also the steps that redo() would bring back
  Measure measure = {};    // one set of inputs; the model runs where it is
};

// A lossy step by itself: the original with this step and those it is built on, and no others.
struct REFX_API StepLoss {
  StepId id;
  std::string transformation, site;
  std::vector<StepId> built_on;
  bool in_model = true;  // false: it was only tried
  double error = 0;      // see Lossy; infinite if what is no finite number stands in other places
  std::size_t bytes_before = 0, bytes_after = 0;  // of the tensors that it replaced, and of its own

  double sqnr() const;  // in dB
};

struct Sensitivity {
  std::vector<StepLoss> steps = {};  // in the order of the graph
  double error = 0;                  // of all of them together
  std::string inputs = {};
  int threads = 1;
  // Of the original and of other forms: two, and one more than there are steps.
  std::size_t runs = 0;
};

// What each lossy step costs, by one run for each. The model stays as it is. Throws Error if there
// is no lossy step, or if a form cannot be run.
REFX_API Sensitivity sensitivity(const Model& model, const SensitivityOptions& options = {});

// A table for people, and an object for programs.
REFX_API std::string to_text(const Sensitivity& sensitivity);
REFX_API std::string to_json(const Sensitivity& sensitivity);

}  // namespace refx
