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
        "an error budget of {}: it is a finite number greater than 0, such as 0.01", budget));
}

LossOf::LossOf(const Model& original, const std::vector<Inputs>& inputs, std::uint64_t seed)
    : original_(original_of_forms(original, original, wide_forms_)) {
  for (const Inputs& set : inputs) witnesses_.emplace_back(original_, set, seed).run_wide();
}

double LossOf::on(const Model& form, std::size_t first, std::size_t last) const {
  double most = 0;
  for (std::size_t i = first; i < last; ++i)
    for (const OutputCheck& check :
         witnesses_[i].judge_calls(witnesses_[i].run(form), nullptr, {.lossy = true})) {
      if (check.answer > Answer::not_judged) return std::numeric_limits<double>::infinity();
      most = std::max(most, loss(check));
    }
  return most;
}

}  // namespace refx
