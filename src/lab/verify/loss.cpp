#include "lab/verify/loss.h"

#include <fmt/format.h>

#include <limits>

#include "refx/error.h"

namespace refx {

void require_budget(double budget) {
  if (!(budget >= 0))
    throw Error(fmt::format("an error budget of {} cannot be kept; 0 is none", budget));
}

LossOf::LossOf(const Model& original, const std::vector<Inputs>& inputs, std::uint64_t seed)
    : original_(original_of_forms(original, original, wide_forms_)) {
  for (const Inputs& set : inputs) witnesses_.emplace_back(original_, set, seed).run_wide();
}

double LossOf::on(const Model& form, std::size_t first, std::size_t last) const {
  double most = 0;
  for (std::size_t i = first; i < last; ++i)
    for (const OutputCheck& check :
         judge(witnesses_[i].evidence(), witnesses_[i].run(form), nullptr, {.lossy = true})) {
      if (check.answer != Answer::pass) return std::numeric_limits<double>::infinity();
      most = std::max(most, loss(check));
    }
  return most;
}

}  // namespace refx
