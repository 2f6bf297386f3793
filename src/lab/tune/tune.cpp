#include "refx/tune.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "exec/policy.h"
#include "lab/bench/clock.h"
#include "lab/bench/contest.h"
#include "lab/run/machine.h"
#include "lab/run/on_device.h"
#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"
#include "lab/tune/place.h"
#include "lab/tune/ranks.h"
#include "lab/tune/trials.h"
#include "refx/error.h"
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

// Places that are alike, the first of which is measured.
struct Class {
  std::vector<const Place*> places;
  std::vector<c10::IValue> values;  // what the first one takes
  SiteClass result;

  const Moves* chosen() const {
    return result.chosen < 0 ? nullptr
                             : &result.trials[static_cast<std::size_t>(result.chosen)].moves;
  }
};

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
    Model start = without_own_steps();
    const Model form = on_device(start, device_);
    const std::vector<Place> places = places_of(form, all_);
    make_classes(places, form);
    total_ = classes_.size() + 1;
    if (!measure_classes()) {
      tuning_.decided = false;
    } else {
      decide(start, result);
      if (ranks_) ranks_->publish("decision", "made");
    }
    for (Class& c : classes_) tuning_.classes.push_back(std::move(c.result));
    return std::move(tuning_);
  }

 private:
  void describe() {
    given_ = sized_inputs(input_, options_.measure);
    inputs_ = on_device(given_.values, device_);
    tuning_.inputs = describe_inputs(given_);
    tuning_.device = device_.str();
    tuning_.machine = describe_machine(device_);
    tuning_.threads = at::get_num_threads();
    trials_.emplace(
        fmt::format("{}; {}, {} threads", tuning_.machine, tuning_.device, tuning_.threads),
        options_.record);
    for (const std::string& path : options_.known)
      if (trials_->read(path) == 0)
        tuning_.notes.push_back(
            fmt::format("{} has no trials that were made here and with these settings", path));
  }

  // Steps of these transformations must earn their place like new ones.
  Model without_own_steps() {
    Model start = input_;
    std::vector<StepId> own;
    for (const Step& step : input_.history())
      if (std::any_of(all_.begin(), all_.end(),
                      [&](const auto& t) { return t->name() == step.transformation; }))
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
        runs_of(form.model, c.values)()();
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
    const MakeRunner alone = runs_of(forms[0].model, c.values);
    for (std::size_t i = 1; i < forms.size(); ++i) {
      const Moves& moves = forms[i].moves;
      progress(fmt::format("{}: {}", c.places[0]->site, text_of(moves)),
               static_cast<double>(i - 1) / static_cast<double>(forms.size()));
      const Trial* known = trials_->find(c.result.key, moves);
      Trial trial = known ? *known : tried(moves, alone, runs_of(forms[i].model, c.values));
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
    return {moves, c.before.median, c.after.median, c.ratio, c.low, c.high, c.speed, false};
  }

  // ---- deciding --------------------------------------------------------------------------------

  void decide(const Model& start, Model& result) {
    for (Class& c : classes_) choose(c);
    const MakeRunner as_given = whole(input_);
    Model best = with_chosen(start);
    if (steps_of(best) == steps_of(input_)) return;
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
    if (!pays) {
      leave_all(fmt::format("the whole model gains nothing by it: {}", ratio_of(tuning_.proof)));
    } else if (const std::string wrong = differs(best); !wrong.empty()) {
      leave_all("the whole model gives something else with it: " + wrong);
    } else {
      tuning_.changed = true;
      result = std::move(best);
    }
  }

  void leave_all(const std::string& why) {
    for (Class& c : classes_)
      if (c.chosen()) c.result.why = "left: " + why;
    for (Class& c : classes_) c.result.chosen = -1;
  }

  // What is wrong with the result, if anything.
  std::string differs(const Model& best) {
    const bool exact = std::all_of(all_.begin(), all_.end(),
                                   [](const auto& t) { return t->preserves_computation(); });
    if (!exact) return "";
    progress("comparing results", 1);
    const Verification verification =
        verify(best, {.against = &input_,
                      .measure = {.inputs = given_, .threads = 0, .seed = options_.measure.seed}});
    tuning_.verdict = verification.answer();
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
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].speed != Speed::faster) continue;
      const int best = c.result.chosen;
      if (best < 0 || trials[i].low > trials[static_cast<std::size_t>(best)].low)
        c.result.chosen = static_cast<int>(i);
    }
    if (const Moves* moves = c.chosen())
      c.result.why = fmt::format("kept: {} pays", text_of(*moves));
    else if (c.result.why.empty())
      c.result.why = "left: nothing that was tried is faster";
  }

  bool any_chosen() const {
    return std::any_of(classes_.begin(), classes_.end(), [](const Class& c) { return c.chosen(); });
  }

  // The chosen moves of all places, or of those of one class.
  Model with_chosen(const Model& start, const Class* only = nullptr) const {
    Model model = start;
    std::unordered_map<NodeId, const Class*> owners;
    std::size_t longest = 0;
    for (const Class& c : classes_) {
      if (!c.chosen() || (only && only != &c)) continue;
      longest = std::max(longest, c.chosen()->size());
      for (const Place* place : c.places)
        for (NodeId id : place->core) owners[id] = &c;
    }
    for (std::size_t depth = 0; depth < longest; ++depth)
      for (const TransformationPtr& t : all_) apply_at(model, *t, depth, owners);
    return model;
  }

  static void apply_at(Model& model, const Transformation& t, std::size_t depth,
                       std::unordered_map<NodeId, const Class*>& owners) {
    const auto accept = [&](const Site& site) {
      bool any = false;
      for (NodeId id : site.nodes) {
        const auto owner = owners.find(id);
        if (owner == owners.end()) continue;
        const Moves& moves = *owner->second->chosen();
        if (depth >= moves.size() || moves[depth] != t.name()) return false;
        any = true;
      }
      return any;
    };
    apply_sites(model, t, accept, [&](const Site& site, StepId id) {
      const Class* owner = nullptr;
      for (NodeId node : site.nodes)
        if (const auto it = owners.find(node); it != owners.end()) owner = it->second;
      for (NodeId node : model.history()[id].nodes) owners.emplace(node, owner);
    });
  }

  // What pays by itself can still lose in the whole, where the next operator sees other strides.
  void drop_what_hurts(const Model& start, Model& best) {
    if (std::count_if(classes_.begin(), classes_.end(), [](const Class& c) { return c.chosen(); }) <
        2)
      return;
    bool dropped = false;
    for (Class& c : classes_) {
      if (!c.chosen()) continue;
      const int chosen = std::exchange(c.result.chosen, -1);
      Model without = with_chosen(start);
      const Contest contest = prove("without " + c.result.sites[0], whole(best), whole(without));
      if (contest.speed == Speed::faster) {
        c.result.why = fmt::format("left: the whole model is {} without it", ratio_of(contest));
        best = std::move(without);
        dropped = true;
      } else {
        c.result.chosen = chosen;
      }
    }
    if (dropped) tuning_.proof = prove("the whole model again", whole(input_), whole(best));
  }

  void one_by_one(const Model& start, const MakeRunner& as_given) {
    const auto chosen =
        std::count_if(classes_.begin(), classes_.end(), [](const Class& c) { return c.chosen(); });
    for (Class& c : classes_) {
      if (!c.chosen()) continue;
      const Contest alone =
          chosen == 1 ? tuning_.proof
                      : prove("only " + c.result.sites[0], as_given, whole(with_chosen(start, &c)));
      if (alone.speed == Speed::faster) continue;
      c.result.chosen = -1;
      c.result.why = fmt::format("left: with it alone the whole model is {}", ratio_of(alone));
    }
  }

  MakeRunner whole(const Model& model) const { return runs_of(on_device(model, device_), inputs_); }

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
  std::vector<c10::IValue> inputs_;  // those, on the device
  std::optional<Trials> trials_;
  std::vector<Class> classes_;
  std::string lines_;  // of the class just measured
  std::string what_;   // is being done
  double part_ = 0;    // of it that is done
  std::size_t done_ = 0, total_ = 1;
  Tuning tuning_;
};

}  // namespace

Tuning tune(Model& model, const TuneOptions& options) {
  const bool whole = options.shard == 0 && options.shards == 0;
  if (!whole && (options.shard < 0 || options.shard >= options.shards))
    throw Error(fmt::format("there is no part {} of {}: parts are counted from 0", options.shard,
                            options.shards));
  exec::require_allowed(model);
  Model result = model;
  Tuning tuning = Tuner(model, options).run(result);
  if (tuning.changed) model = std::move(result);
  return tuning;
}

}  // namespace refx
