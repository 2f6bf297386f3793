// SPDX-License-Identifier: Apache-2.0

#include "transforms/site_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/module_path.h"
#include "refx/old_names.h"
#include "transforms/apply.h"
#include "util/did_you_mean.h"
#include "util/glob.h"

namespace refx {

namespace {

bool matches(const std::string& pattern, const Site& site) {
  return glob_match(pattern, site.name) ||
         std::any_of(site.paths.begin(), site.paths.end(),
                     [&](const Name& path) { return glob_match_path(pattern, path); });
}

bool matches_any(const std::vector<std::string>& patterns, const Site& site) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, site); });
}

void note_use(const std::vector<std::string>& patterns, const Site& site, std::vector<bool>& used) {
  for (std::size_t i = 0; i < patterns.size(); ++i) used[i] = used[i] || matches(patterns[i], site);
}

std::string complaint(UnmatchedPattern::Of of, const std::string& pattern) {
  return fmt::format("'{}' matches {}", pattern,
                     of == UnmatchedPattern::Of::site ? "no site" : "nothing");
}

std::string or_else(const std::string& suggestion, const std::string& hint) {
  return suggestion.empty() ? "; " + hint : suggestion;
}

}  // namespace

UnmatchedPattern::UnmatchedPattern(Of of, const std::string& pattern, const std::string& nearest)
    : Error(complaint(of, pattern) + or_else(nearest, "find_sites() lists the sites")),
      of_(of),
      problem_(complaint(of, pattern)),
      suggestion_(nearest) {}

std::string UnmatchedPattern::problem(const std::string& hint) const {
  return problem_ + or_else(suggestion_, hint);
}

bool SiteFilter::accepts(const Site& candidate) const {
  return (site.empty() || matches_any(site, candidate)) && !matches_any(exclude, candidate);
}

FilterUse::FilterUse(const SiteFilter& filter)
    : filter_(filter), site_used_(filter.site.size()), exclude_used_(filter.exclude.size()) {}

bool FilterUse::accepts(const Site& site) {
  if (filter_.empty()) return true;
  note_use(filter_.site, site, site_used_);
  note_use(filter_.exclude, site, exclude_used_);
  names_.emplace(site.name);
  for (const Name& path : site.paths) {
    names_.emplace(path);
    names_.emplace(owner_path(path));
  }
  return filter_.accepts(site);
}

bool FilterUse::accepts(const Step& step, SiteNames& names) {
  if (filter_.empty()) return true;
  Site site{.name = step.site};
  names.add_paths(step, site.paths);
  return accepts(site);
}

void FilterUse::see_steps(const Model& model, const Transformation& transformation) {
  if (filter_.empty()) return;
  SiteNames names(model);
  for (const Step& step : model.history())
    if (same_transformation(step.transformation, transformation.name())) accepts(step, names);
}

Outcome FilterUse::apply(Model& model, const Transformation& transformation) {
  see_steps(model, transformation);
  Outcome outcome;
  outcome.refusals = apply_sites(
      model, transformation, [&](const Site& site) { return accepts(site); },
      [&](const Site&, StepId id) { outcome.steps.push_back(id); });
  std::erase_if(outcome.refusals, [&](const Refusal& refusal) { return !accepts(refusal.site); });
  return outcome;
}

Findings FilterUse::find(const Model& model, const Transformation& transformation) {
  see_steps(model, transformation);
  Findings findings = find_sites(model, transformation);
  std::erase_if(findings.sites, [&](const Site& site) { return !accepts(site); });
  std::erase_if(findings.refusals, [&](const Refusal& refusal) { return !accepts(refusal.site); });
  return findings;
}

void FilterUse::require_matches(const Model& model) const {
  using Of = UnmatchedPattern::Of;
  const auto complain = [](Of of, const std::string& pattern, const std::set<std::string>& names) {
    throw UnmatchedPattern(of, pattern, did_you_mean(pattern, {names.begin(), names.end()}));
  };
  for (std::size_t i = 0; i < site_used_.size(); ++i)
    if (!site_used_[i]) complain(Of::site, filter_.site[i], names_);
  if (std::find(exclude_used_.begin(), exclude_used_.end(), false) == exclude_used_.end()) return;
  // What no site would rewrite is safe, if it is there.
  std::vector<bool> used = exclude_used_;
  std::set<std::string> all = names_;
  SiteNames names(model);
  const auto see = [&](const auto& part) {  // a node, or a step: what it replaced was there
    Site alone;
    names.add_paths(part, alone.paths);
    note_use(filter_.exclude, alone, used);
    for (const Name& path : alone.paths) all.emplace(owner_path(path));
  };
  for (NodeId id : model.graph()) see(id);
  for (const Step& step : model.history()) see(step);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) complain(Of::exclude, filter_.exclude[i], all);
}

std::vector<Findings> find_sites(const Model& model,
                                 const std::vector<TransformationPtr>& transformations,
                                 const SiteFilter& filter) {
  FilterUse use(filter);
  std::vector<Findings> all;
  for (const TransformationPtr& transformation : transformations)
    all.push_back(use.find(model, *transformation));
  use.require_matches(model);
  return all;
}

std::vector<Outcome> apply(Model& model, const std::vector<TransformationPtr>& transformations,
                           const SiteFilter& filter, const OnProgress& progress) {
  FilterUse use(filter);
  std::vector<Outcome> outcomes;
  Model result = model;  // on an error nothing is changed
  for (const TransformationPtr& transformation : transformations) {
    if (progress) progress({outcomes.size(), transformations.size(), transformation->name()});
    outcomes.push_back(use.apply(result, *transformation));
  }
  use.require_matches(result);
  model = std::move(result);
  return outcomes;
}

Outcome apply(Model& model, const Transformation& transformation, const SiteFilter& filter) {
  FilterUse use(filter);
  if (filter.empty()) return use.apply(model, transformation);
  Model result = model;
  Outcome outcome = use.apply(result, transformation);
  use.require_matches(result);
  model = std::move(result);
  return outcome;
}

}  // namespace refx
