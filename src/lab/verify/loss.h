// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "lab/verify/witness.h"

namespace refx {

// Throws Error if nothing can be within it.
void require_budget(double budget);

// How far forms of an original are from it, see Lossy: one run of the form on each set of inputs.
class LossOf {
 public:
  // Throws Error if the original does not run on them.
  LossOf(const Model& original, const std::vector<Inputs>& inputs, std::uint64_t seed);

  // Infinite if what is no finite number stands in other places. Throws Error if it does not run.
  double operator()(const Model& form) const { return on(form, 0, witnesses_.size()); }
  // On the sets from `first` to before `last` alone.
  double on(const Model& form, std::size_t first, std::size_t last) const;

 private:
  WideForms wide_forms_;
  const Original original_;
  std::deque<Witness> witnesses_;
};

}  // namespace refx
