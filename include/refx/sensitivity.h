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

// Measures which layers are most sensitive to lossy rewrites.

struct SensitivityOptions {
  // Applied first, to a copy of the model, to try steps that it does not have.
  std::vector<TransformationPtr> transformations = {};
  SiteFilter filter = {};  // selects their sites, and the steps of the model
  bool reversed = false;   // also measure the steps that redo() would bring back
  Measure measure = {};    // one set of inputs; the model runs on its own device
};

// One lossy step by itself: the original with this step and the steps that it builds on, and no
// others.
struct REFX_API StepLoss {
  StepId id;
  std::string transformation, site;
  std::vector<StepId> built_on;
  bool in_model = true;  // false: the step was only tried
  double error = 0;      // see Lossy; infinite if NaN or inf is at other positions
  std::size_t bytes_before = 0,
              bytes_after = 0;  // of the tensors that it replaced, and of the new ones

  double sqnr() const;  // in dB
};

struct Sensitivity {
  std::vector<StepLoss> steps = {};  // in the order of the graph
  double error = 0;                  // of all steps together
  std::string inputs = {};
  int threads = 1;
  // Runs of models: two of the original, one for each step, and one for all steps together.
  std::size_t runs = 0;
};

// Measures the error of each lossy step with one run. Does not change the model. Throws Error if
// there is no lossy step, or if a variant of the model cannot be run.
REFX_API Sensitivity sensitivity(const Model& model, const SensitivityOptions& options = {});

// A table for people, and a JSON object for programs.
REFX_API std::string to_text(const Sensitivity& sensitivity);
REFX_API std::string to_json(const Sensitivity& sensitivity);

}  // namespace refx
