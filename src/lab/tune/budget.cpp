// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lab/run/forms.h"
#include "lab/run/machine.h"
#include "lab/run/on_device.h"
#include "refx/error.h"

namespace refx {

namespace {

// The most forms that are run to see whether they fit, and more for each site: the bisection of the
// budget takes about 20, and the rest tries changes of one site or two.
constexpr std::size_t kMostRuns = 128, kMostRunsPerSite = 2;
// The most forms that the acceptance test gets: it may evaluate a whole data set.
constexpr std::size_t kMostTests = 16;

std::vector<Inputs> all_of(const HeldOut& inputs, const Model& model) {
  std::vector<Inputs> sets = inputs.choosing;
  sets.insert(sets.end(), inputs.proof.begin(), inputs.proof.end());
  for (Inputs& set : sets) set.values = on_device(set.values, to_device("", model));
  return sets;
}

}  // namespace

BudgetedChoice::BudgetedChoice(Budget budget, std::vector<Class>& classes)
    : budget_(std::move(budget)),
      classes_(classes),
      loss_(budget_.original, all_of(budget_.inputs, budget_.original),
            budget_.options.measure.seed) {
  result_.budget = budget_.options.budget;
  result_.prefer = budget_.options.prefer;
  result_.chosen_on = describe(budget_.inputs.choosing);
  result_.proven_on = describe(budget_.inputs.proof);
}

void BudgetedChoice::choose() {
  find_candidates();
  make_full_models();
  measure_errors();
  const bool tests = static_cast<bool>(budget_.options.accept);
  Choice choice =
      best_that_fits(candidates_, sites_,
                     {.fits = [this](const Choice& choice) { return fits(choice); },
                      .budget = budget_.options.budget,
                      .most_asked = tests ? kMostTests : kMostRuns + kMostRunsPerSite * sites_});
  repair(choice);
  pick(choice);
  explain(choice);
}

// ---- candidates and their errors ---------------------------------------------------------------

double BudgetedChoice::gain_of(const Trial& trial) const {
  if (budget_.options.prefer == Prefer::size) return static_cast<double>(trial.saved);
  return trial.speed == Speed::faster ? trial.before - trial.after : 0;
}

bool BudgetedChoice::approximates(const Trial& trial) const {
  return std::any_of(trial.moves.begin(), trial.moves.end(), [&](const std::string& move) {
    return std::any_of(budget_.all.begin(), budget_.all.end(), [&](const TransformationPtr& t) {
      return t->name() == move && !t->preserves_computation();
    });
  });
}

void BudgetedChoice::find_candidates() {
  for (std::size_t of_class = 0; of_class < classes_.size(); ++of_class) {
    Class& c = classes_[of_class];
    c.result.choices.assign(c.sites.size(), {-1, std::vector<double>(c.result.trials.size(), 0)});
    for (std::size_t site = 0; site < c.sites.size(); ++site, ++sites_)
      for (std::size_t i = 0, rank = 0; i < c.result.trials.size(); ++i)
        if (const double gain = gain_of(c.result.trials[i]); gain > 0) {
          candidates_.push_back({sites_, gain, 0});
          where_.push_back({of_class, site, static_cast<int>(i), rank++});
        }
  }
}

// Models in which everything is rewritten. A form is one of them without some steps: undoing steps
// is faster than computing new weights again.
void BudgetedChoice::make_full_models() {
  std::size_t ranks = 0;
  for (const Where& where : where_) ranks = std::max(ranks, where.rank + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    budget_.progress("rewriting every site");
    for (Class& c : classes_) c.pick_everywhere(-1);
    for (const Where& where : where_)
      if (where.rank == rank) classes_[where.of_class].picks[where.site] = where.trial;
    const std::vector<StepId> before = budget_.start.history().ids();
    full_.push_back({with_picks(budget_.start, classes_, budget_.all, budget_.options.filter),
                     {before.begin(), before.end()}});
  }
}

// Of each candidate by itself: one run for each.
void BudgetedChoice::measure_errors() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Where& where = where_[i];
    Class& c = classes_[where.of_class];
    const auto trial = static_cast<std::size_t>(where.trial);
    if (!approximates(c.result.trials[trial])) continue;
    budget_.progress("the error of " + c.result.sites[where.site]);
    candidates_[i].error = c.result.choices[where.site].errors[trial] =
        error_alone(static_cast<int>(i), On::choosing);
  }
}

// ---- forms -------------------------------------------------------------------------------------

void BudgetedChoice::pick(const Choice& choice) {
  for (Class& c : classes_) c.pick_everywhere(-1);
  for (int position : choice) {
    if (position < 0) continue;
    const Where& where = where_[static_cast<std::size_t>(position)];
    classes_[where.of_class].picks[where.site] = where.trial;
  }
}

Model BudgetedChoice::form_of(const Choice& choice) {
  pick(choice);
  const auto rank_of = [&](int position) {
    return where_[static_cast<std::size_t>(position)].rank;
  };
  const auto first = std::find_if(choice.begin(), choice.end(), [](int i) { return i >= 0; });
  if (first == choice.end()) return budget_.start;
  const bool alike = std::all_of(first, choice.end(),
                                 [&](int i) { return i < 0 || rank_of(i) == rank_of(*first); });
  if (alike) {
    const Full& full = full_[rank_of(*first)];
    std::set<StepId> kept = full.before;
    for (const Class& c : classes_)
      for (std::size_t i = 0; i < c.picks.size(); ++i) {
        const auto steps = full.picked.steps.find(c.sites[i]);
        if (c.picks[i] >= 0 && steps != full.picked.steps.end())
          kept.insert(steps->second.begin(), steps->second.end());
      }
    Model form = form_with(full.picked.model, kept);
    if (form.history().size() == kept.size()) return form;
  }
  return with_picks(budget_.start, classes_, budget_.all, budget_.options.filter).model;
}

// ---- judging -----------------------------------------------------------------------------------

double BudgetedChoice::error_of(const Model& form, On inputs) const {
  const std::size_t held_out = budget_.inputs.choosing.size();
  try {
    return inputs == On::choosing
               ? loss_.on(form, 0, held_out)
               : loss_.on(form, held_out, held_out + budget_.inputs.proof.size());
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

double BudgetedChoice::error_alone(int position, On inputs) {
  Choice alone(sites_, -1);
  alone[candidates_[static_cast<std::size_t>(position)].site] = position;
  return error_of(form_of(alone), inputs);
}

bool BudgetedChoice::is_good(double error, const std::function<Model()>& as_given,
                             Attempt& attempt) {
  attempt.error = error;
  attempt.good = budget_.options.budget == 0 || error <= budget_.options.budget;
  if (attempt.good && budget_.options.accept) {
    const Acceptance acceptance = budget_.options.accept(as_given());
    attempt.good = acceptance.accepted;
    attempt.score = acceptance.score;
  }
  return attempt.good;
}

bool BudgetedChoice::fits(const Choice& choice) {
  budget_.progress("searching the best form within the budget");
  Attempt attempt{.gain = refx::gain_of(candidates_, choice)};
  attempt.sites = static_cast<std::size_t>(
      std::count_if(choice.begin(), choice.end(), [](int i) { return i >= 0; }));
  const double error = error_of(form_of(choice), On::choosing);
  is_good(
      error,
      [&] {
        return with_picks(budget_.as_given, classes_, budget_.all, budget_.options.filter).model;
      },
      attempt);
  result_.tried.push_back(attempt);
  return attempt.good;
}

bool BudgetedChoice::proves(const Model& form, const Model& as_given) {
  Attempt attempt;
  const bool good = is_good(
      error_of(form, On::proof), [&] { return as_given; }, attempt);
  result_.error = attempt.error;
  result_.score = attempt.score;
  return good;
}

// Errors differ between inputs: on those that are held out, the choice may exceed the budget.
void BudgetedChoice::repair(Choice& choice) {
  const auto fits = [&] {
    budget_.progress("checking the choice on other inputs");
    return error_of(form_of(choice), On::proof) <= budget_.options.budget;
  };
  if (budget_.options.budget == 0 || fits()) return;
  std::vector<Candidate> there = candidates_;
  for (int position : choice) {
    if (position < 0) continue;
    Candidate& candidate = there[static_cast<std::size_t>(position)];
    if (candidate.error > 0) candidate.error = error_alone(position, On::proof);
  }
  for (int worst; (worst = worst_of(there, choice)) >= 0 && !fits();) {
    choice[there[static_cast<std::size_t>(worst)].site] = -1;
    taken_back_.insert(where_[static_cast<std::size_t>(worst)].of_class);
  }
}

// Of a class with a candidate that is not chosen anywhere.
std::string BudgetedChoice::why_left(std::size_t of_class) const {
  const double budget = budget_.options.budget;
  std::map<std::size_t, double> least_at;  // by site, of the candidates there
  for (std::size_t i = 0; i < where_.size(); ++i) {
    if (where_[i].of_class != of_class) continue;
    const double error = candidates_[i].error;
    const auto [at, is_new] = least_at.emplace(candidates_[i].site, error);
    if (!is_new) at->second = std::min(at->second, error);
  }
  double least = std::numeric_limits<double>::infinity();
  std::size_t beyond = 0;
  for (const auto& [site, error] : least_at) {
    least = std::min(least, error);
    beyond += budget > 0 && !(error <= budget);
  }
  if (!std::isfinite(least)) return "skipped: the rewritten model has results that are not finite";
  if (budget > 0 && least > budget)
    return fmt::format(
        "skipped: the {} variants exceed the error budget (error {:.2g}, budget {:.2g})",
        budget_.options.prefer == Prefer::size ? "smaller" : "faster", least, budget);
  if (taken_back_.contains(of_class))
    return "skipped: it exceeds the error budget on the inputs of the proof";
  if (budget_.options.accept)
    return "skipped: the acceptance test rejected it, or nothing was gained";
  if (beyond > 0)
    return fmt::format(
        "skipped: at {} of {} sites it exceeds the error budget by itself; at the others, the "
        "rewrites that are kept gain more",
        beyond, least_at.size());
  return "skipped: it is within the error budget by itself, but the rewrites that are kept gain "
         "more";
}

void BudgetedChoice::explain(const Choice& choice) {
  for (int position : choice) {
    if (position < 0) continue;
    const Where& where = where_[static_cast<std::size_t>(position)];
    classes_[where.of_class].result.choices[where.site].chosen = where.trial;
  }
  for (std::size_t of_class = 0; of_class < classes_.size(); ++of_class) {
    Class& c = classes_[of_class];
    const auto taken = std::count_if(c.picks.begin(), c.picks.end(), [](int i) { return i >= 0; });
    const bool any = std::any_of(where_.begin(), where_.end(),
                                 [&](const Where& where) { return where.of_class == of_class; });
    if (taken > 0)
      c.result.why = fmt::format("kept at {} of {}", taken, c.sites.size());
    else if (any)
      c.result.why = why_left(of_class);
    else if (c.result.why.empty())
      c.result.why = budget_.options.prefer == Prefer::size ? "skipped: no variant is smaller"
                                                            : "skipped: no variant is faster";
  }
}

}  // namespace refx
