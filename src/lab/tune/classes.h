// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lab/tune/place.h"
#include "refx/tune.h"

namespace refx {

// Places that are alike, the first of which is measured.
struct Class {
  std::vector<const Place*> places;
  std::vector<c10::IValue> values;  // what the first one takes
  std::vector<int> picks;           // for each place, of the trials; -1: left alone
  SiteClass result;

  bool any_picked() const;
  void pick_everywhere(int trial) { picks.assign(places.size(), trial); }
};

// The model with the picks of all places, or of those of one class, and what that took.
struct Picked {
  Model model;
  std::map<const Place*, std::set<StepId>> steps;
};
Picked with_picks(const Model& start, const std::vector<Class>& classes,
                  const std::vector<TransformationPtr>& all, const SiteFilter& filter,
                  const Class* only = nullptr);

}  // namespace refx
