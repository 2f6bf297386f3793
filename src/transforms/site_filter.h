// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "refx/registry.h"
#include "transforms/site_names.h"

namespace refx {

// A filter in use: it remembers which of its patterns have matched.
class FilterUse {
 public:
  explicit FilterUse(const SiteFilter& filter);

  bool accepts(const Site& site);
  // The same for what a live step rewrote.
  bool accepts(const Step& step, SiteNames& names);

  // Applies the accepted sites; the refusals of others are left out.
  Outcome apply(Model& model, const Transformation& transformation);
  // Only what is accepted.
  Findings find(const Model& model, const Transformation& transformation);

  // Throws UnmatchedPattern for the first that matched nothing.
  void require_matches(const Model& model) const;

 private:
  void see_steps(const Model& model, const Transformation& transformation);

  const SiteFilter& filter_;
  std::vector<bool> site_used_, exclude_used_;
  std::set<std::string> names_;  // that would have matched
};

}  // namespace refx
