// SPDX-License-Identifier: Apache-2.0

#include "refx/tune.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "exec/policy.h"
#include "ir/content.h"
#include "lab/bench/clock.h"
#include "lab/bench/contest.h"
#include "lab/run/machine.h"
#include "lab/run/on_device.h"
#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"
#include "lab/tune/budget.h"
#include "lab/tune/classes.h"
#include "lab/tune/ranks.h"
#include "lab/tune/trials.h"
#include "lab/verify/loss.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "transforms/apply.h"
#include "util/fingerprint.h"

namespace refx {

namespace {

using Moves = std::vector<std::string>;

constexpr double kPlacePart = 0.2;     // of the seconds, for each trial of a place
constexpr std::size_t kMaxForms = 32;  // of one place

std::string text_of(const Moves& moves) { return fmt::format("{}", fmt::join(moves, ", then ")); }

std::string ratio_of(const Contest& c) {
  return fmt::format("{} ({:.3f}x, {:.3f} .. {:.3f})", to_string(c.speed), c.ratio, c.low, c.high);
}

class Tuner {
 public:
  Tuner(const Model& model, const TuneOptions& options)
      : input_(model),
        options_(options),
        device_(to_device(options.measure.device, model)),
        clock_(make_clock(device_)),
        environment_(options.measure.threads.value_or(0)),
        ranks_(options.shards == 0 ? Ranks::from_environment() : nullptr) {
    for (const TransformationPtr& t :
         options.transformations.empty() ? registry() : options.transformations)
      if (!options.transformations.empty() || t->preserves_computation()) all_.push_back(t);
  }

  Tuning run(Model& result) {
    describe();
    FilterUse filter(options_.filter);
    Model start = without_own_steps(filter);
    const Model form = on_device(start, device_);
    const std::vector<Place> places = places_of(start, form, all_, filter);
    filter.require_matches(start);
    make_classes(places, form);
    total_ = classes_.size() + 1;
    if (!measure_classes()) {
      tuning_.decided = false;
    } else {
      decide(start, form, result);
      if (ranks_) ranks_->publish("decision", "made");
    }
    for (Class& c : classes_) tuning_.classes.push_back(std::move(c.result));
    tuning_.bytes_before = bytes_of(input_.state());
    tuning_.bytes_after = bytes_of(result.state());
    return std::move(tuning_);
  }

 private:
  void describe() {
    given_ = sized_inputs(input_, options_.measure);
    inputs_ = on_device(given_.call(given_.calls() - 1), device_);
    tuning_.inputs = describe_inputs(given_);
    tuning_.device = device_.str();
    tuning_.machine = describe_machine(device_);
    tuning_.threads = at::get_num_threads();
    note_if_busy(tuning_.notes);
    trials_.emplace(
        fmt::format("{}; {}, {} threads{}", tuning_.machine, tuning_.device, tuning_.threads,
                    options_.prefer == Prefer::size ? "; not timed" : ""),
        options_.record);
    for (const std::string& path : options_.known)
      if (trials_->read(path) == 0)
        tuning_.notes.push_back(
            fmt::format("{} has no trials that were made here and with these settings", path));
  }

  // Steps of these transformations must earn their place like new ones.
  Model without_own_steps(FilterUse& filter) {
    Model start = input_;
    std::vector<StepId> own;
    SiteNames names(input_);
    for (const Step& step : input_.history())
      if (std::any_of(all_.begin(), all_.end(),
                      [&](const auto& t) { return t->name() == step.transformation; }) &&
          filter.accepts(step, names))
        own.push_back(step.id);
    try {
      if (!own.empty()) reverse(start, own);
    } catch (const Error& error) {
      tuning_.notes.push_back(fmt::format("the steps that the model has stay: {}", error.what()));
      return input_;
    }
    return start;
  }

  void make_classes(const std::vector<Place>& places, const Model& form) {
    const auto types = types_where_unknown(places, form);
    std::map<std::string, std::size_t> positions;
    for (const Place& place : places) {
      std::string key = place.key;
      for (NodeId id : place.inputs)
        if (const auto it = types.find(id); it != types.end()) key += it->second;
      const auto [it, is_new] = positions.emplace(key, classes_.size());
      if (is_new) classes_.emplace_back();
      classes_[it->second].places.push_back(&place);
      classes_[it->second].result.sites.push_back(place.site);
    }
    take_values(form);
  }

  // Of values whose types the graph does not tell.
  std::map<NodeId, std::string> types_where_unknown(const std::vector<Place>& places,
                                                    const Model& form) const {
    std::map<NodeId, std::string> types;
    for (const Place& place : places)
      for (NodeId id : place.inputs)
        if (!form.graph()[id].type) types[id];
    std::vector<NodeId> nodes;
    for (const auto& [id, type] : types) nodes.push_back(id);
    const std::vector<c10::IValue> values = values_of(form, nodes, inputs_);
    for (std::size_t i = 0; i < nodes.size(); ++i) types[nodes[i]] = exact_type(values[i]);
    return types;
  }

  static std::string exact_type(const c10::IValue& value) {
    if (!value.isTensor()) return type_of_value(value) + ";";
    return fmt::format("{} {};", type_of_value(value), value.toTensor().strides());
  }

  // One run of the model gives the values for all.
  void take_values(const Model& form) {
    std::vector<NodeId> nodes;
    for (const Class& c : classes_)
      nodes.insert(nodes.end(), c.places[0]->inputs.begin(), c.places[0]->inputs.end());
    const std::vector<c10::IValue> values = values_of(form, nodes, inputs_);
    auto next = values.begin();
    for (Class& c : classes_) {
      const auto end = next + static_cast<std::ptrdiff_t>(c.places[0]->inputs.size());
      c.values.assign(next, end);
      next = end;
      // Symbolic sizes are others in other runs.
      std::string key = c.places[0]->key;
      for (const c10::IValue& value : c.values) key += exact_type(value);
      c.result.key = fingerprint(key);
    }
  }

  // ---- measuring -------------------------------------------------------------------------------

  // False in a process that is not the one to decide.
  bool measure_classes() {
    if (ranks_) return measure_with_others();
    const auto shards = static_cast<std::size_t>(std::max(1, options_.shards));
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (i % shards == static_cast<std::size_t>(options_.shard)) measure(classes_[i]);
      ++done_;
    }
    return options_.shards == 0;
  }

  // Each takes what no other one, that lives, has taken; so does the decision.
  bool measure_with_others() {
    const auto first = static_cast<std::size_t>(ranks_->rank()) * classes_.size() /
                       static_cast<std::size_t>(ranks_->count());
    std::vector<bool> known(classes_.size());
    while (true) {
      bool all = true;
      for (std::size_t i = 0; i < classes_.size(); ++i) {
        const std::size_t at = (first + i) % classes_.size();
        if (known[at]) continue;
        Class& c = classes_[at];
        if (const auto lines = ranks_->result(c.result.key)) {
          take_lines(*lines);
          known[at] = true;
        } else if (ranks_->claim(c.result.key)) {
          measure(c);
          ranks_->publish(c.result.key, lines_);
          known[at] = true;
        }
        all = all && known[at];
        done_ = static_cast<std::size_t>(std::count(known.begin(), known.end(), true));
      }
      if (all) break;
      progress("waiting for the others", 0);
      ranks_->wait();
    }
    while (!ranks_->claim("decision")) {
      if (ranks_->result("decision")) return false;
      progress("waiting for the decision", 0);
      ranks_->wait();
    }
    // What others measured on machines like this one is known now.
    for (Class& c : classes_)
      if (c.result.trials.empty()) measure(c);
    return true;
  }

  void take_lines(const std::string& lines) {
    for (std::size_t from = 0, to; (to = lines.find('\n', from)) != lines.npos; from = to + 1)
      trials_->read_line(lines.substr(from, to - from));
  }

  struct Form {
    Moves moves;
    Model model;
  };

  // Every way to apply one transformation after the other to the place, each once.
  std::vector<Form> forms_of(const Place& place) const {
    std::vector<Form> forms = {{{}, place.part}};
    std::set<std::string> seen = {print(place.part)};
    const auto accept = [&](const Site& site) {
      return std::none_of(site.nodes.begin(), site.nodes.end(),
                          [&](NodeId id) { return place.users.count(id) != 0; });
    };
    for (std::size_t i = 0; i < forms.size(); ++i)
      for (const TransformationPtr& t : all_) {
        if (forms.size() == kMaxForms) return forms;
        if (std::count(forms[i].moves.begin(), forms[i].moves.end(), t->name())) continue;
        Form next = forms[i];
        apply_sites(next.model, *t, accept, [](const Site&, StepId) {});
        if (!seen.insert(print(next.model)).second) continue;
        next.moves.push_back(t->name());
        forms.push_back(std::move(next));
      }
    return forms;
  }

  // The ways to rewrite a place that run by themselves; none if it does not do so itself.
  std::vector<Form> runnable_forms(Class& c) const {
    std::vector<Form> forms = forms_of(*c.places[0]);
    std::erase_if(forms, [&](const Form& form) {
      try {
        runs_of(form.model, {c.values, ""})().run();
        return false;
      } catch (const Error& error) {
        if (form.moves.empty())
          c.result.why = fmt::format("left: it does not run by itself: {}", error.what());
        return true;
      }
    });
    if (!c.result.why.empty()) forms.clear();
    return forms;
  }

  void measure(Class& c) {
    lines_.clear();
    c.result.trials.clear();
    const std::vector<Form> forms = runnable_forms(c);
    if (forms.empty()) return;
    const MakeRunner alone = runs_of(forms[0].model, {c.values, ""});
    const std::int64_t bytes = bytes_of(forms[0].model.state());
    for (std::size_t i = 1; i < forms.size(); ++i) {
      const Moves& moves = forms[i].moves;
      progress(fmt::format("{}: {}", c.places[0]->site, text_of(moves)),
               static_cast<double>(i - 1) / static_cast<double>(forms.size()));
      const Trial* known = trials_->find(c.result.key, moves);
      Trial trial{.moves = moves};
      if (known)
        trial = *known;
      else if (options_.prefer == Prefer::speed)
        trial = tried(moves, alone, runs_of(forms[i].model, {c.values, ""}));
      trial.saved = bytes - bytes_of(forms[i].model.state());
      if (!known) lines_ += trials_->add(c.result.key, trial) + "\n";
      c.result.trials.push_back(std::move(trial));
    }
  }

  Trial tried(const Moves& moves, const MakeRunner& before, const MakeRunner& after) {
    const Contest c =
        contest(before, after, *clock_,
                {.rounds = 10,
                 .seconds = kPlacePart * options_.measure.seconds,
                 .seed = options_.measure.seed,
                 .progress = [this](double) { progress(std::string(what_), part_); }});
    return {moves, c.before.median, c.after.median, c.ratio, c.low, c.high, c.speed};
  }

  // ---- deciding --------------------------------------------------------------------------------

  void decide(const Model& start, const Model& form, Model& result) {
    if (errors_count())
      choose_within_budget(start, form);
    else
      for (Class& c : classes_) choose(c);
    Model best = with_chosen(start);
    if (steps_of(best) == steps_of(input_)) return;
    const std::string why_not =
        options_.prefer == Prefer::size ? why_not_smaller(best) : why_not_faster(start, best);
    if (!why_not.empty()) {
      leave_all("the whole model gains nothing by it: " + why_not);
    } else if (const std::string wrong = differs(best); !wrong.empty()) {
      leave_all("the whole model gives something else with it: " + wrong);
    } else {
      tuning_.changed = true;
      result = std::move(best);
    }
  }

  // The result that is the fastest.
  std::string why_not_faster(const Model& start, Model& best) {
    const MakeRunner as_given = whole(input_);
    tuning_.proof = prove("the whole model", as_given, whole(best));
    if (tuning_.proof.speed == Speed::faster) {
      drop_what_hurts(start, best);
    } else {
      one_by_one(start, as_given);
      best = with_chosen(start);
      tuning_.proof =
          any_chosen() ? prove("the whole model again", as_given, whole(best)) : tuning_.proof;
    }
    const bool pays = tuning_.proof.speed == Speed::faster && steps_of(best) != steps_of(input_);
    return pays ? "" : ratio_of(tuning_.proof);
  }

  std::string why_not_smaller(const Model& best) {
    const std::int64_t before = bytes_of(input_.state()), after = bytes_of(best.state());
    if (after >= before) return fmt::format("{} bytes instead of {}", after, before);
    tuning_.proof = prove("the whole model", whole(input_), whole(best));
    return "";
  }

  bool errors_count() const {
    return options_.ask || options_.budget > 0 || options_.prefer == Prefer::size ||
           std::any_of(all_.begin(), all_.end(), is_lossy_transformation);
  }

  static bool is_lossy_transformation(const TransformationPtr& t) {
    return !t->preserves_computation();
  }

  void choose_within_budget(const Model& start, const Model& form) {
    progress("the original", 0);
    Model original = original_of(input_);
    HeldOut inputs = hold_out(original, given_, options_.more_inputs, options_.measure);
    if (!inputs.note.empty()) tuning_.notes.push_back(inputs.note);
    budget_ = std::make_unique<BudgetedChoice>(
        Budget{options_, all_, on_device(original, device_), form, start, std::move(inputs),
               [this](const std::string& what) { progress(what, 0); }},
        classes_);
    budget_->choose();
    tuning_.budget = budget_->result();
    for (Class& c : classes_)
      for (int pick : c.picks) c.result.chosen = std::max(c.result.chosen, pick);
  }

  void leave_all(const std::string& why) {
    for (Class& c : classes_)
      if (c.any_picked()) leave(c, why);
  }

  static void leave(Class& c, const std::string& why) {
    c.pick_everywhere(-1);
    c.result.chosen = -1;
    for (SiteChoice& choice : c.result.choices) choice.chosen = -1;
    c.result.why = "left: " + why;
  }

  // What is wrong with the result, if anything.
  std::string differs(const Model& best) {
    progress("comparing results", 1);
    if (budget_) {
      const bool good = budget_->proves(on_device(best, device_), best);
      tuning_.budget = budget_->result();
      if (!good && options_.budget > 0 && tuning_.budget->error > options_.budget)
        return fmt::format("its error is {:.2g}, the budget {:.2g}", tuning_.budget->error,
                           options_.budget);
      if (!good) return "it will not do, as was asked";
    }
    const bool lossy = std::any_of(best.history().begin(), best.history().end(), is_lossy);
    const Verification verification =
        verify(best, {.against = lossy ? nullptr : &input_,
                      .measure = {.inputs = given_, .threads = 0, .seed = options_.measure.seed}});
    tuning_.verdict = verification.answer();
    if (tuning_.verdict == Answer::not_judged) tuning_.verdict = Answer::pass;  // it was, above
    if (tuning_.verdict == Answer::cannot_tell)
      tuning_.notes.push_back("it cannot be told whether the result computes what the model did: " +
                              verification.reason());
    return tuning_.verdict == Answer::fail ? verification.reason() : "";
  }

  static std::multiset<std::string> steps_of(const Model& model) {
    std::multiset<std::string> all;
    for (const Step& step : model.history()) all.insert(step.signature + " " + step.site);
    return all;
  }

  // The way that is surely the fastest; a shorter one if there are equals.
  static void choose(Class& c) {
    const std::vector<Trial>& trials = c.result.trials;
    int& best = c.result.chosen;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].speed != Speed::faster) continue;
      if (best < 0 || trials[i].low > trials[static_cast<std::size_t>(best)].low)
        best = static_cast<int>(i);
    }
    c.pick_everywhere(best);
    if (best >= 0)
      c.result.why =
          fmt::format("kept: {} pays", text_of(trials[static_cast<std::size_t>(best)].moves));
    else if (c.result.why.empty())
      c.result.why = std::any_of(trials.begin(), trials.end(),
                                 [](const Trial& t) { return t.speed == Speed::unstable; })
                         ? "left: what was measured varied too much to tell what is faster"
                         : "left: nothing that was tried is faster";
  }

  std::ptrdiff_t chosen_classes() const {
    return std::count_if(classes_.begin(), classes_.end(),
                         [](const Class& c) { return c.any_picked(); });
  }
  bool any_chosen() const { return chosen_classes() > 0; }

  Model with_chosen(const Model& start, const Class* only = nullptr) const {
    return with_picks(start, classes_, all_, options_.filter, only).model;
  }

  // What pays by itself can still lose in the whole, where the next operator sees other strides.
  void drop_what_hurts(const Model& start, Model& best) {
    if (chosen_classes() < 2) return;
    bool dropped = false;
    for (Class& c : classes_) {
      if (!c.any_picked()) continue;
      const std::vector<int> picks = c.picks;
      c.pick_everywhere(-1);
      Model without = with_chosen(start);
      const Contest contest = prove("without " + c.result.sites[0], whole(best), whole(without));
      if (contest.speed == Speed::faster) {
        leave(c, fmt::format("the whole model is {} without it", ratio_of(contest)));
        best = std::move(without);
        dropped = true;
      } else {
        c.picks = picks;
      }
    }
    if (dropped) tuning_.proof = prove("the whole model again", whole(input_), whole(best));
  }

  void one_by_one(const Model& start, const MakeRunner& as_given) {
    const auto chosen = chosen_classes();
    for (Class& c : classes_) {
      if (!c.any_picked()) continue;
      const Contest alone =
          chosen == 1 ? tuning_.proof
                      : prove("only " + c.result.sites[0], as_given, whole(with_chosen(start, &c)));
      if (alone.speed != Speed::faster)
        leave(c, fmt::format("with it alone the whole model is {}", ratio_of(alone)));
    }
  }

  MakeRunner whole(const Model& model) const {
    return runs_of(on_device(model, device_), on_device(given_, device_));
  }

  Contest prove(const std::string& what, const MakeRunner& before, const MakeRunner& after) {
    return contest(before, after, *clock_,
                   {.rounds = 10,
                    .seconds = options_.measure.seconds,
                    .seed = options_.measure.seed,
                    .progress = [&](double part) { progress(what, part); }});
  }

  void progress(const std::string& what, double part) {
    what_ = what;
    part_ = part;
    if (const OnProgress& tell = options_.measure.progress)
      tell({100 * done_ + static_cast<std::size_t>(100 * part), 100 * total_, what});
  }

  const Model& input_;
  const TuneOptions& options_;
  const c10::Device device_;
  const std::unique_ptr<Clock> clock_;
  const Environment environment_;
  const std::unique_ptr<Ranks> ranks_;
  std::vector<TransformationPtr> all_;
  Inputs given_;
  std::vector<c10::IValue> inputs_;  // those of the last call, on the device
  std::optional<Trials> trials_;
  std::vector<Class> classes_;
  std::unique_ptr<BudgetedChoice> budget_;  // where errors count
  std::string lines_;                       // of the class just measured
  std::string what_;                        // is being done
  double part_ = 0;                         // of it that is done
  std::size_t done_ = 0, total_ = 1;
  Tuning tuning_;
};

}  // namespace

Tuning tune(Model& model, const TuneOptions& options) {
  const bool whole = options.shard == 0 && options.shards == 0;
  if (!whole && (options.shard < 0 || options.shard >= options.shards))
    throw Error(fmt::format("there is no part {} of {}: parts are counted from 0", options.shard,
                            options.shards));
  require_budget(options.budget);
  exec::require_allowed(model);
  Model result = model;
  Tuning tuning = Tuner(model, options).run(result);
  if (tuning.changed) model = std::move(result);
  return tuning;
}

}  // namespace refx
