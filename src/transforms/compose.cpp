// SPDX-License-Identifier: Apache-2.0

#include "refx/compose.h"

#include <algorithm>
#include <ranges>

#include "refx/error.h"

namespace refx {

Composition::Composition(std::vector<TransformationPtr> parts, Inplace inplace)
    : parts_(std::move(parts)), inplace_(inplace) {
  if (parts_.empty()) throw Error("compose needs at least one transformation");
}

std::string Composition::signature() const {
  std::string text;
  for (const auto& part : parts_) text += (text.empty() ? "" : ", ") + part->signature();
  return "compose(" + text + ")";
}

Numerics Composition::numerics() const {
  const bool preserved =
      std::ranges::all_of(parts_, [](auto& part) { return part->preserves_computation(); });
  return preserved ? Numerics::preserved : Numerics::approximate;
}

bool Composition::reversible() const {
  return std::ranges::all_of(parts_, [](auto& part) { return part->reversible(); });
}

Outcome Composition::operator()(Model& model, Reverse direction) const {
  if (direction == Reverse::yes && !reversible())
    throw Error("this composition is not reversible: " +
                (*std::ranges::find_if(parts_, [](auto& p) { return !p->reversible(); }))->name() +
                " is not; its steps are in the history and can be reversed one by one");
  Outcome outcome;
  if (inplace_ == Inplace::no) outcome.copy = model;
  Model& target = outcome.copy ? *outcome.copy : model;
  auto take = [&](const Transformation& part) {
    Outcome one = part(target, direction);
    if (one.copy) target = std::move(*one.copy);
    std::ranges::move(one.steps, std::back_inserter(outcome.steps));
    std::ranges::move(one.refusals, std::back_inserter(outcome.refusals));
    std::ranges::move(one.reversal.reversed, std::back_inserter(outcome.reversal.reversed));
    std::ranges::move(one.reversal.replaced, std::back_inserter(outcome.reversal.replaced));
  };
  if (direction == Reverse::no)
    for (const auto& part : parts_) take(*part);
  else
    for (const auto& part : parts_ | std::views::reverse) take(*part);
  return outcome;
}

Composition compose(std::vector<TransformationPtr> parts, Inplace inplace) {
  return Composition(std::move(parts), inplace);
}

}  // namespace refx
