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

Kwargs Composition::parameters() const {
  List parts;
  for (const auto& part : parts_) parts.items.emplace_back(part->signature());
  return {{"transformations", std::move(parts)}};
}

bool Composition::preserves_computation() const {
  return std::ranges::all_of(parts_, [](auto& part) { return part->preserves_computation(); });
}

bool Composition::reversible() const {
  return std::ranges::all_of(parts_, [](auto& part) { return part->reversible(); });
}

Findings Composition::find(const Model& model) const {
  Findings all;
  for (const auto& part : parts_) {
    Findings found = part->find(model);
    std::ranges::move(found.sites, std::back_inserter(all.sites));
    std::ranges::move(found.refusals, std::back_inserter(all.refusals));
  }
  return all;
}

void Composition::apply(Editor&, const Site&) const {
  throw Error("a composition has no sites of its own: apply its parts, or the whole of it");
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
