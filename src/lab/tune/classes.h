// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lab/tune/tuned_site.h"
#include "refx/tune.h"

namespace refx {

// Sites that are alike. Only the first is measured.
struct Class {
  std::vector<const TunedSite*> sites;
  std::vector<c10::IValue> values;  // the inputs of the first site
  std::vector<int> picks;           // for each site, which trial is applied; -1: left alone
  SiteClass result;

  bool any_picked() const;
  void pick_everywhere(int trial) { picks.assign(sites.size(), trial); }
};

// Sorts sites into classes, in their order. `form` is the model where it is measured; the classes
// get their values from one run of it on the inputs.
std::vector<Class> classes_of(const std::vector<TunedSite>& sites, const Model& form,
                              const std::vector<c10::IValue>& inputs);

// The model with the picks of all sites, or of those of one class, and the steps of each site.
struct Picked {
  Model model;
  std::map<const TunedSite*, std::set<StepId>> steps;
};
Picked with_picks(const Model& start, const std::vector<Class>& classes,
                  const std::vector<TransformationPtr>& all, const SiteFilter& filter,
                  const Class* only = nullptr);

}  // namespace refx
