// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/loss.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "refx/error.h"

namespace refx {

void require_budget(double budget) {
  if (!(budget >= 0) || std::isinf(budget))
    throw Error(fmt::format(
        "the error budget must be a finite number greater than 0, such as 0.01, not {}", budget));
}

void require_tolerance(double tolerance) {
  if (!(tolerance >= 0) || std::isinf(tolerance))
    throw Error(fmt::format(
        "the tolerance must be a finite number greater than 0, such as 1e-3, not {}", tolerance));
}

LossOf::LossOf(const Model& original, const std::vector<Inputs>& inputs, std::uint64_t seed)
    : original_(original_of_forms(original, original, wide_forms_)) {
  // Without rewritten weights there is nothing to perturb: only the fp64 run is used here.
  for (const Inputs& set : inputs) witnesses_.emplace_back(original_, set, seed).run_wide();
}

double LossOf::on(const Model& form, std::size_t first, std::size_t last) const {
  double most = 0;
  for (std::size_t i = first; i < last; ++i)
    for (const OutputCheck& check :
         witnesses_[i].judge_calls(witnesses_[i].run(form), nullptr, {.lossy = true})) {
      // NaN or inf moved to other positions: such an error has no size.
      if (check.answer > VerifyVerdict::not_judged) return std::numeric_limits<double>::infinity();
      most = std::max(most, loss(check));
    }
  return most;
}

}  // namespace refx
