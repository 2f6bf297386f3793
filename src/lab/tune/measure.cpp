// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/content.h"
#include "refx/error.h"
#include "refx/text.h"
#include "transforms/apply.h"

namespace refx {

namespace {

using Moves = std::vector<std::string>;

// The sequences of transformations of one site grow exponentially with the transformations that
// apply to it. In practice there are fewer than ten.
constexpr std::size_t kMaxForms = 32;

struct SiteForm {
  Moves moves;
  Model model;
};

// Every way to apply one transformation after the other to the site, each result once. The first is
// the site as it is.
std::vector<SiteForm> forms_of(const TunedSite& tuned, const std::vector<TransformationPtr>& all) {
  std::vector<SiteForm> forms = {{{}, tuned.part}};
  std::set<std::string> seen = {print(tuned.part)};
  const auto accept = [&](const Site& site) {
    return std::none_of(site.nodes.begin(), site.nodes.end(),
                        [&](NodeId id) { return tuned.users.count(id) != 0; });
  };
  for (std::size_t i = 0; i < forms.size(); ++i)
    for (const TransformationPtr& t : all) {
      if (forms.size() == kMaxForms) return forms;
      if (std::count(forms[i].moves.begin(), forms[i].moves.end(), t->name())) continue;
      SiteForm next = forms[i];
      apply_sites(next.model, *t, accept, [](const Site&, StepId) {});
      if (!seen.insert(print(next.model)).second) continue;
      next.moves.push_back(t->name());
      forms.push_back(std::move(next));
    }
  return forms;
}

// The forms that run by themselves; none if the site as it is does not.
std::vector<SiteForm> runnable_forms(Class& c, const std::vector<TransformationPtr>& all) {
  std::vector<SiteForm> forms = forms_of(*c.sites[0], all);
  std::erase_if(forms, [&](const SiteForm& form) {
    try {
      runs_of(form.model, {c.values, ""})().run();
      return false;
    } catch (const Error& error) {
      if (form.moves.empty())
        c.result.why = fmt::format("skipped: it does not run by itself: {}", error.what());
      return true;
    }
  });
  if (!c.result.why.empty()) forms.clear();
  return forms;
}

class Measuring {
 public:
  Measuring(TuneSession& session, Ranks* ranks) : session_(session), ranks_(ranks) {}

  bool run() {
    if (ranks_) return run_with_others();
    for (std::size_t i = 0; i < session_.classes.size(); ++i) {
      session_.set_done(i);
      measure(session_.classes[i]);
    }
    session_.set_done(session_.classes.size());
    return true;
  }

 private:
  // Each process takes what no other live process has taken. The decision is taken in the same way.
  bool run_with_others() {
    measured_.assign(session_.classes.size(), false);
    while (!measure_what_is_free()) {
      session_.progress("waiting for the others", 0);
      ranks_->wait();
    }
    while (!ranks_->claim("decision")) {
      if (ranks_->result("decision")) return false;
      session_.progress("waiting for the decision", 0);
      ranks_->wait();
    }
    // Looks up what the others measured, and measures what a machine unlike this one did.
    for (Class& c : session_.classes)
      if (c.result.trials.empty()) measure(c);
    return true;
  }

  // Returns whether all classes are measured.
  bool measure_what_is_free() {
    const std::size_t count = session_.classes.size();
    // Processes start at different classes, so that they rarely want the same one.
    const std::size_t first = static_cast<std::size_t>(ranks_->rank()) * count /
                              static_cast<std::size_t>(ranks_->count());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (first + i) % count;
      if (measured_[at]) continue;
      Class& c = session_.classes[at];
      if (const auto lines = ranks_->result(c.result.key)) {
        read_lines(*lines);
        measured_[at] = true;
      } else if (ranks_->claim(c.result.key)) {
        ranks_->publish(c.result.key, measure(c));
        measured_[at] = true;
      }
      session_.set_done(
          static_cast<std::size_t>(std::count(measured_.begin(), measured_.end(), true)));
    }
    return std::all_of(measured_.begin(), measured_.end(), [](bool is) { return is; });
  }

  void read_lines(const std::string& lines) {
    for (std::size_t from = 0, to; (to = lines.find('\n', from)) != lines.npos; from = to + 1)
      session_.trials().read_line(lines.substr(from, to - from));
  }

  // Returns the lines of the new trials.
  std::string measure(Class& c) {
    std::string lines;
    c.result.trials.clear();
    const std::vector<SiteForm> forms = runnable_forms(c, session_.all());
    if (forms.empty()) return lines;
    const MakeRunner before = runs_of(forms[0].model, {c.values, ""});
    const std::int64_t bytes = bytes_of(forms[0].model.state());
    for (std::size_t i = 1; i < forms.size(); ++i) {
      session_.progress(fmt::format("{}: {}", c.sites[0]->name, describe_moves(forms[i].moves)),
                        static_cast<double>(i - 1) / static_cast<double>(forms.size()));
      const Trial* known = session_.trials().find(c.result.key, forms[i].moves);
      Trial trial = known ? *known : try_form(c, forms[i], before);
      trial.saved = bytes - bytes_of(forms[i].model.state());
      if (!known) lines += session_.trials().add(c.result.key, trial) + "\n";
      c.result.trials.push_back(std::move(trial));
    }
    return lines;
  }

  Trial try_form(const Class& c, const SiteForm& form, const MakeRunner& before) {
    if (session_.options().prefer == Prefer::size) return {.moves = form.moves};
    const Contest result = session_.race_sites(before, runs_of(form.model, {c.values, ""}));
    return {.moves = form.moves,
            .before = result.before.median,
            .after = result.after.median,
            .ratio = result.ratio,
            .low = result.low,
            .high = result.high,
            .speed = result.speed};
  }

  TuneSession& session_;
  Ranks* ranks_;
  std::vector<bool> measured_;  // for each class
};

}  // namespace

bool measure_classes(TuneSession& session, Ranks* ranks) { return Measuring(session, ranks).run(); }

}  // namespace refx
