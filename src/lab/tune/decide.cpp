// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/content.h"
#include "lab/run/on_device.h"
#include "refx/original.h"

namespace refx {

namespace {

std::string ratio_of(const Contest& c) {
  return fmt::format("{} ({:.3f}x, {:.3f} .. {:.3f})", to_string(c.speed), c.ratio, c.low, c.high);
}

std::string effect_alone(const Contest& c) {
  const char* effect = c.speed == Speed::unstable ? "its effect on the whole model varied too much"
                       : c.speed == Speed::no_difference
                           ? "it makes no difference to the whole model"
                           : "it makes the whole model slower";
  return fmt::format("alone, {} ({:.3f}x, {:.3f} .. {:.3f})", effect, c.ratio, c.low, c.high);
}

std::multiset<std::string> step_names(const Model& model) {
  std::multiset<std::string> all;
  for (const Step& step : model.history()) all.insert(step.signature + " " + step.site);
  return all;
}

void skip(Class& c, const std::string& why) {
  c.pick_everywhere(-1);
  c.result.chosen = -1;
  for (SiteChoice& choice : c.result.choices) choice.chosen = -1;
  c.result.why = "skipped: " + why;
}

// The trial that is faster with certainty and has the best lower bound; the shorter one of equals,
// which comes first.
void choose_fastest(Class& c) {
  const std::vector<Trial>& trials = c.result.trials;
  int& best = c.result.chosen;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].speed != Speed::faster) continue;
    if (best < 0 || trials[i].low > trials[static_cast<std::size_t>(best)].low)
      best = static_cast<int>(i);
  }
  c.pick_everywhere(best);
  const auto unstable = [](const Trial& t) { return t.speed == Speed::unstable; };
  if (best >= 0)
    c.result.why = fmt::format("kept: {} is faster",
                               describe_moves(trials[static_cast<std::size_t>(best)].moves));
  else if (c.result.why.empty())
    c.result.why = std::any_of(trials.begin(), trials.end(), unstable)
                       ? "skipped: the measurements varied too much to decide"
                       : "skipped: no variant is faster";
}

class Decision {
 public:
  Decision(TuneSession& session, const Model& start, const Model& form)
      : session_(session), start_(start), form_(form) {}

  void run(Model& result) {
    if (errors_count())
      choose_within_budget();
    else
      for (Class& c : session_.classes) choose_fastest(c);
    Model best = with_chosen();
    if (step_names(best) == step_names(session_.input())) return;
    const std::string why_not =
        session_.options().prefer == Prefer::size ? why_not_smaller(best) : why_not_faster(best);
    if (!why_not.empty()) {
      skip_all("the whole model does not improve: " + why_not);
    } else if (const std::string problem = why_rejected(best); !problem.empty()) {
      skip_all(problem);
    } else {
      session_.tuning.changed = true;
      result = std::move(best);
    }
  }

 private:
  // ---- choosing --------------------------------------------------------------------------------

  bool errors_count() const {
    const TuneOptions& options = session_.options();
    return options.accept || options.budget > 0 || options.prefer == Prefer::size ||
           std::any_of(session_.all().begin(), session_.all().end(),
                       [](const auto& t) { return !t->preserves_computation(); });
  }

  void choose_within_budget() {
    session_.progress("the original", 0);
    Model original = original_of(session_.input());
    const TuneOptions& options = session_.options();
    HeldOut inputs = hold_out(original, session_.given(), options.more_inputs, options.measure);
    if (!inputs.note.empty()) session_.tuning.notes.push_back(inputs.note);
    budget_ = std::make_unique<BudgetedChoice>(
        Budget{options, session_.all(), on_device(original, session_.device()), form_, start_,
               std::move(inputs), [this](const std::string& what) { session_.progress(what, 0); }},
        session_.classes);
    budget_->choose();
    session_.tuning.budget = budget_->result();
    for (Class& c : session_.classes)
      for (int pick : c.picks) c.result.chosen = std::max(c.result.chosen, pick);
  }

  void skip_all(const std::string& why) {
    for (Class& c : session_.classes)
      if (c.any_picked()) skip(c, why);
  }

  std::ptrdiff_t chosen_classes() const {
    return std::count_if(session_.classes.begin(), session_.classes.end(),
                         [](const Class& c) { return c.any_picked(); });
  }

  Model with_chosen(const Class* only = nullptr) const {
    return with_picks(start_, session_.classes, session_.all(), session_.options().filter, only)
        .model;
  }

  // ---- proving ---------------------------------------------------------------------------------

  // May change `best` to a result without the steps that make the whole model slower.
  std::string why_not_faster(Model& best) {
    const MakeRunner as_given = session_.whole(session_.input());
    Contest& proof = session_.tuning.proof;
    proof = session_.race("the whole model", as_given, session_.whole(best));
    if (proof.speed == Speed::faster) {
      drop_what_hurts(best);
    } else {
      keep_what_helps_alone(as_given);
      best = with_chosen();
      if (chosen_classes() > 0)
        proof = session_.race("the whole model again", as_given, session_.whole(best));
    }
    const bool pays =
        proof.speed == Speed::faster && step_names(best) != step_names(session_.input());
    return pays ? "" : ratio_of(proof);
  }

  std::string why_not_smaller(const Model& best) {
    const std::int64_t before = bytes_of(session_.input().state()), after = bytes_of(best.state());
    if (after >= before) return fmt::format("{} bytes instead of {}", after, before);
    session_.tuning.proof =
        session_.race("the whole model", session_.whole(session_.input()), session_.whole(best));
    return "";
  }

  // A rewrite that is faster by itself can still slow down the whole, because the next operator
  // gets other strides.
  void drop_what_hurts(Model& best) {
    if (chosen_classes() < 2) return;
    bool dropped = false;
    for (Class& c : session_.classes) {
      if (!c.any_picked()) continue;
      const std::vector<int> picks = c.picks;
      c.pick_everywhere(-1);
      Model without = with_chosen();
      const Contest contest = session_.race("without " + c.result.sites[0], session_.whole(best),
                                            session_.whole(without));
      if (contest.speed == Speed::faster) {
        skip(c, fmt::format("the whole model is {} without it", ratio_of(contest)));
        best = std::move(without);
        dropped = true;
      } else {
        c.picks = picks;
      }
    }
    if (dropped)
      session_.tuning.proof = session_.race("the whole model again",
                                            session_.whole(session_.input()), session_.whole(best));
  }

  void keep_what_helps_alone(const MakeRunner& as_given) {
    const auto chosen = chosen_classes();
    for (Class& c : session_.classes) {
      if (!c.any_picked()) continue;
      const Contest alone = chosen == 1 ? session_.tuning.proof
                                        : session_.race("only " + c.result.sites[0], as_given,
                                                        session_.whole(with_chosen(&c)));
      if (alone.speed != Speed::faster) skip(c, effect_alone(alone));
    }
  }

  // Empty if the results of the rewritten model are good enough.
  std::string why_rejected(const Model& best) {
    session_.progress("comparing results", 1);
    if (std::string why = why_beyond_budget(best); !why.empty()) return why;
    // Approximate steps are compared with the original, within the budget of verify().
    const bool lossy = std::any_of(best.history().begin(), best.history().end(), is_lossy);
    const Verification verification = verify(
        best,
        {.against = lossy ? nullptr : &session_.input(),
         .measure = {
             .inputs = session_.given(), .threads = 0, .seed = session_.options().measure.seed}});
    auto& verdict = session_.tuning.verdict;
    verdict = verification.answer();
    // Of approximate steps without a budget in verify(): the budget here has been checked above.
    if (verdict == VerifyVerdict::not_judged) verdict = VerifyVerdict::pass;
    if (verdict == VerifyVerdict::cannot_tell)
      session_.tuning.notes.push_back(
          "cannot tell whether the result computes the same as the input: " +
          verification.reason());
    return verdict == VerifyVerdict::fail ? "the results differ: " + verification.reason() : "";
  }

  std::string why_beyond_budget(const Model& best) {
    if (!budget_) return "";
    const bool good = budget_->proves(on_device(best, session_.device()), best);
    session_.tuning.budget = budget_->result();
    if (good) return "";
    const double budget = session_.options().budget, error = budget_->result().error;
    if (budget > 0 && error > budget)
      return fmt::format("the error of the result is {:.2g}, the error budget {:.2g}", error,
                         budget);
    return "rejected by the acceptance test";
  }

  TuneSession& session_;
  const Model &start_, &form_;
  std::unique_ptr<BudgetedChoice> budget_;  // if errors count
};

}  // namespace

void decide(TuneSession& session, const Model& start, const Model& form, Model& result) {
  Decision(session, start, form).run(result);
}

}  // namespace refx
