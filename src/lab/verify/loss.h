// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "lab/verify/witness.h"

namespace refx {

// Throws Error unless the budget is a finite number and not negative.
void require_budget(double budget);

// Throws Error unless the tolerance is a finite number and not negative.
void require_tolerance(double tolerance);

// Measures the error of lossy models, see Lossy, with one run of the model on each set of inputs.
class LossOf {
 public:
  // Throws Error if the original does not run on the inputs.
  LossOf(const Model& original, const std::vector<Inputs>& inputs, std::uint64_t seed);

  // Infinite if NaN or inf is at other positions. Throws Error if the model does not run.
  double operator()(const Model& form) const { return on(form, 0, witnesses_.size()); }
  // Only on the sets [first, last).
  double on(const Model& form, std::size_t first, std::size_t last) const;

 private:
  WideForms wide_forms_;
  const Original original_;
  std::deque<Witness> witnesses_;
};

}  // namespace refx
