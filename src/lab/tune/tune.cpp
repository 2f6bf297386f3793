// SPDX-License-Identifier: Apache-2.0

#include "refx/tune.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/policy.h"
#include "ir/content.h"
#include "lab/run/on_device.h"
#include "lab/run/sized_inputs.h"
#include "lab/tune/decide.h"
#include "lab/tune/measure.h"
#include "lab/tune/session.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/reverse.h"

namespace refx {

namespace {

// The model without its steps of the transformations to tune: they must earn their place like new
// ones.
Model without_own_steps(TuneSession& session, FilterUse& filter) {
  const auto is_own = [&](const Step& step) {
    return std::any_of(session.all().begin(), session.all().end(), [&](const auto& t) {
      return same_transformation(t->name(), step.transformation);
    });
  };
  Model start = session.input();
  std::vector<StepId> own;
  SiteNames names(session.input());
  for (const Step& step : session.input().history())
    if (is_own(step) && filter.accepts(step, names)) own.push_back(step.id);
  try {
    if (!own.empty()) reverse(start, own);
  } catch (const Error& error) {
    session.tuning.notes.push_back(fmt::format(
        "the existing steps are kept, because they cannot be undone: {}", error.what()));
    return session.input();
  }
  return start;
}

Tuning run_session(const Model& input, const TuneOptions& options, Model& result) {
  TuneSession session(input, options);
  const std::unique_ptr<Ranks> ranks = Ranks::from_environment();
  FilterUse filter(options.filter);
  const Model start = without_own_steps(session, filter);
  const Model form = on_device(start, session.device());
  const std::vector<TunedSite> sites = tuned_sites(start, form, session.all(), filter);
  filter.require_matches(start);
  session.classes = classes_of(sites, form, session.inputs());
  Tuning& tuning = session.tuning;
  tuning.decided = measure_classes(session, ranks.get());
  if (tuning.decided) {
    decide(session, start, form, result);
    if (ranks) ranks->publish("decision", "made");
  }
  for (Class& c : session.classes) tuning.classes.push_back(std::move(c.result));
  tuning.bytes_before = bytes_of(input.state());
  tuning.bytes_after = bytes_of(result.state());
  return std::move(tuning);
}

}  // namespace

Tuning tune(Model& model, const TuneOptions& options) {
  require_budget(options.budget);
  require_valid(options.measure);
  exec::require_allowed(model);
  Model result = model;
  Tuning tuning = run_session(model, options, result);
  if (tuning.changed) model = std::move(result);
  return tuning;
}

}  // namespace refx
