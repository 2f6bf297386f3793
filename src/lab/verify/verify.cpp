// SPDX-License-Identifier: Apache-2.0

#include "refx/verify.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "exec/own_state.h"
#include "exec/policy.h"
#include "lab/run/forms.h"
#include "lab/run/machine.h"
#include "lab/run/sized_inputs.h"
#include "lab/verify/loss.h"
#include "lab/verify/power.h"
#include "lab/verify/verifier.h"
#include "refx/bisect.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/original.h"
#include "refx/registry.h"

namespace refx {

namespace {

// Generated inputs, beside those of the file: two seeds, so that one lucky set does not decide, and
// two more sizes if sizes are symbolic, since a rewrite may be wrong for other sizes only.
constexpr std::uint64_t kSeeds = 2;
constexpr int kVariations = 2;
// Limits the runs of the model that find steps whose errors would not be detected, for each
// transformation: see warn_of_undetected().
constexpr std::size_t kPowerRuns = 64;

// One call of verify(): chooses the inputs and the models to compare, and collects the report.
class Session {
 public:
  Session(const Model& model, const VerifyOptions& options)
      : model_(model), options_(options), verifier_(verifier_of(model, options)) {
    const std::string& device = options.measure.device;
    if (!device.empty() && to_device(device, model) != to_device("", model))
      throw Error(fmt::format(
          "verify cannot move models to '{}': it runs them on the device of their tensors",
          device));
    result_.seed = options.measure.seed;
  }

  Verification run() {
    const Environment environment(options_.measure.threads.value_or(1));
    result_.threads = at::get_num_threads();
    call_witnesses();
    const Allowance allowance = allow_loss();
    progress("comparing the two models");
    result_.sets = check(model_, allowance);
    // Exact steps cannot hide behind a budget: they are checked without the lossy ones.
    if (result_.lossy) {
      result_.lossy->error = loss_of(result_.sets);
      check_what_is_exact();
    }
    if (options_.per_step) check_steps();
    test_power();
    if (std::all_of(witnesses_.begin(), witnesses_.end(),
                    [](const Witness& w) { return w.calls() == 1; }) &&
        keeps_state(original().model))
      result_.notes.push_back(kOneCallWasMade);
    if (!options_.against && model_.history().empty())
      result_.notes.push_back("the model has no steps: it was compared with itself");
    return std::move(result_);
  }

  // To judge many models, for bisect: prepare() runs the original once.
  void prepare() {
    const Environment environment(options_.measure.threads.value_or(1));
    call_witnesses();
  }
  VerifyVerdict answer(const Model& form) const {
    const Environment environment(options_.measure.threads.value_or(1));
    VerifyVerdict worst = VerifyVerdict::pass;
    const PreparedForm prepared = verifier_.prepare(form);
    for (const Witness& witness : witnesses_) {
      worst = std::max(worst, SetCheck{"", verifier_.judge(witness, prepared, exactly())}.answer());
      if (worst == VerifyVerdict::fail) break;  // bisect needs no more
    }
    return worst;
  }

 private:
  // ---- the original ----------------------------------------------------------------------------

  static Verifier verifier_of(const Model& model, const VerifyOptions& options) {
    const Model original = options.against ? *options.against : original_of(model);
    exec::require_allowed(model);
    exec::require_allowed(original);
    const Environment environment(options.measure.threads.value_or(1));
    return Verifier(original, model);
  }
  const Original& original() const { return verifier_.original(); }

  void call_witnesses() {
    const Measure& measure = options_.measure;
    if (!measure.inputs.values.empty() || measure.batch > 0 || measure.steps > 0)
      add_witness(sized_inputs(original().model, measure));
    else
      call_usual_witnesses();
    for (const Inputs& inputs : options_.more_inputs)
      add_witness(with_steps(original().model, inputs, measure.steps, measure.seed));
    result_.random = std::any_of(witnesses_.begin(), witnesses_.end(),
                                 [](const Witness& w) { return w.is_random(); });
    for (Witness& witness : witnesses_) {
      progress("the original in fp64");
      if (const std::string why_not = witness.run_wide(); !why_not.empty()) {
        result_.in_fp64 = false;
        result_.why_not = why_not;
      }
    }
  }

  void call_usual_witnesses() {
    const std::uint64_t seed = options_.measure.seed;
    add_samples();
    for (std::uint64_t i = 0; i < kSeeds; ++i) add_generated(seed + i, 0);
    if (has_symbolic_inputs(original().model))
      for (int i = 1; i <= kVariations; ++i) add_generated(seed, i);
    if (witnesses_.empty()) throw Error(first_refusal_);
  }

  void add_witness(Inputs inputs) {
    progress("the original");
    witnesses_.emplace_back(original(), std::move(inputs), options_.measure.seed);
  }

  void add_samples() {
    try {
      if (auto samples = sample_inputs(original().model))
        add_witness({std::move(*samples), "the file's sample inputs"});
    } catch (const Error& error) {
      result_.notes.push_back(fmt::format("the sample inputs were not used: {}", error.what()));
    }
  }

  // The original may not accept all values and sizes that its types allow. That is no error of a
  // rewrite, so such inputs are skipped with a note.
  void add_generated(std::uint64_t seed, int variation) {
    std::string origin = fmt::format("generated with seed {}", seed);
    if (variation > 0) origin += fmt::format(", other sizes ({})", variation);
    try {
      add_witness({generated_inputs(original().model, seed, variation), origin});
    } catch (const Error& error) {
      if (first_refusal_.empty()) first_refusal_ = error.what();
      result_.notes.push_back(
          fmt::format("inputs {}: the original does not run: {}", origin, error.what()));
    }
  }

  // ---- other forms -----------------------------------------------------------------------------

  Allowance exactly() const { return {.tolerance = options_.tolerance}; }

  using Checks = std::vector<SetCheck>;  // of each set of inputs

  Checks check(const Model& form, const Allowance& allowance) const {
    Checks all;
    const PreparedForm prepared = verifier_.prepare(form, !allowance.lossy);
    for (const Witness& witness : witnesses_)
      all.push_back({witness.inputs().origin, verifier_.judge(witness, prepared, allowance),
                     witness.calls()});
    return all;
  }

  // ---- what is meant to err --------------------------------------------------------------------

  // A tolerance replaces the budget. Against another model the steps have no meaning.
  Allowance allow_loss() {
    if (options_.against || options_.tolerance > 0) return exactly();
    Lossy lossy;
    lossy.budget = options_.budget;
    for (const Step& step : model_.history()) {
      if (is_lossy(step))
        lossy.steps.push_back(step.id);
      else if (step.numerics == Numerics::approximate)
        result_.notes.push_back(
            fmt::format("step {} is marked as approximate, but {} is the name of an exact "
                        "transformation of refx: the step must stay within rounding; if it is a "
                        "rule of yours, rename it",
                        step.id.value, step.transformation));
    }
    if (lossy.steps.empty()) return exactly();
    result_.lossy = std::move(lossy);
    return {.lossy = true, .budget = options_.budget};
  }

  bool is_lossy_with(StepId id, const std::set<StepId>& built_on) const {
    const auto is_lossy_step = [&](StepId step) { return is_lossy(model_.history()[step]); };
    return is_lossy_step(id) || std::any_of(built_on.begin(), built_on.end(), is_lossy_step);
  }

  static double loss_of(const Checks& checks) {
    double most = 0;
    for (const SetCheck& set : checks)
      for (const OutputCheck& output : set.outputs) most = std::max(most, loss(output));
    return most;
  }

  // Checks the steps that are not lossy, in layers: those that build on no lossy step are compared
  // with the original; those that build on lossy steps with the model that has only the steps
  // below.
  void check_what_is_exact() {
    const auto bases = built_on(model_);
    std::set<StepId> kept;
    for (std::size_t before = 1; before != kept.size();) {
      before = kept.size();
      const std::set<StepId> under = kept;
      add_steps(kept, bases, /*lossy=*/false);
      if (kept.size() > under.size()) check_layer(form_with(model_, kept), under);
      add_steps(kept, bases, /*lossy=*/true);
    }
  }

  // Adds the steps whose bases are all in `kept`.
  void add_steps(std::set<StepId>& kept, const std::map<StepId, std::set<StepId>>& bases,
                 bool lossy) const {
    for (const auto& [id, under] : bases)
      if (is_lossy(model_.history()[id]) == lossy &&
          std::includes(kept.begin(), kept.end(), under.begin(), under.end()))
        kept.insert(id);
  }

  void check_layer(const Model& form, const std::set<StepId>& under) {
    progress("the steps that are not lossy");
    for (SetCheck& set : under.empty() ? check(form, exactly()) : check_upon(under, form)) {
      set.origin +=
          under.empty() ? ", without the lossy steps" : ", the steps that build on lossy steps";
      result_.sets.push_back(std::move(set));
    }
  }

  Checks check_upon(const std::set<StepId>& under, const Model& form) const {
    const Model base = form_with(model_, under);
    VerifyOptions options{.against = &base, .measure = options_.measure};
    options.more_inputs = options_.more_inputs;
    return verify(form, options).sets;
  }

  // ---- steps -----------------------------------------------------------------------------------

  void check_steps() {
    const auto bases = built_on(model_);
    const Checks without_any = check(form_with(model_, {}), exactly());
    for (const auto& [id, bases_of_it] : bases) {
      progress(fmt::format("step {} by itself", id.value));
      check_step(id, bases_of_it, without_any);
      if (result_.lossy && result_.steps.back().lossy)
        result_.steps.back().marginal_error = result_.lossy->error - loss_without(id, bases);
    }
    if (options_.sort == StepOrder::error)
      std::stable_sort(result_.steps.begin(), result_.steps.end(),
                       [](const StepCheck& a, const StepCheck& b) { return cost(a) > cost(b); });
  }

  static double cost(const StepCheck& step) {
    return step.lossy ? loss(step.worst) : step.worst.relative(step.worst.native_error.error);
  }

  // The error of the model without one step and the steps that build on it.
  double loss_without(StepId id, const std::map<StepId, std::set<StepId>>& bases) const {
    std::set<StepId> kept;
    for (const auto& [other, under] : bases)
      if (other != id && !under.contains(id)) kept.insert(other);
    return loss_of(check(form_with(model_, kept), {.lossy = true}));
  }

  void check_step(StepId id, const std::set<StepId>& built_on, const Checks& without_any) {
    const Step& step = model_.history()[id];
    StepCheck result{id, step.transformation, step.site, {built_on.begin(), built_on.end()}, {}};
    result.lossy = result_.lossy && is_lossy_with(id, built_on);
    const Allowance allowance = result.lossy ? Allowance{.lossy = true} : exactly();
    std::set<StepId> kept = built_on;
    const Checks before = kept.empty() ? without_any : check(form_with(model_, kept), allowance);
    kept.insert(id);
    const Checks after = check(form_with(model_, kept), allowance);
    double most = -1;
    for (std::size_t set = 0; set < after.size(); ++set)
      for (const OutputCheck& output : after[set].outputs) {
        const double weight = result.lossy ? loss(output) : fraction_of_tolerance(output);
        if (weight <= most) continue;
        most = weight;
        result.worst = output;
        result.added_error = output.relative(output.native_error.error) -
                             relative_at(before[set].outputs, output.path);
      }
    result_.steps.push_back(std::move(result));
  }

  static double relative_at(const std::vector<OutputCheck>& outputs, const std::string& path) {
    for (const OutputCheck& output : outputs)
      if (output.path == path) return output.relative(output.native_error.error);
    return 0;
  }

  // ---- which errors would be detected ----------------------------------------------------------

  // One step stands for all steps of its transformation, since each test is a run of the model. If
  // an error in it is not detected, the others are tested, too.
  void test_power() {
    // Planted errors are detected by the fp64 comparison, which none of these cases has.
    if (!result_.in_fp64 || options_.tolerance > 0 || result_.lossy || model_.history().empty())
      return;
    const PreparedForm form = verifier_.prepare(model_);
    if (!form.wide) return;
    const PowerTest test(model_, *form.wide, witnesses_, options_.measure.seed);
    std::map<std::string, std::vector<const Step*>> alike;
    for (const Step& step : model_.history())
      if (test.can_plant(step)) alike[std::string(current_name(step.signature))].push_back(&step);
    for (const auto& [signature, steps] : alike) {
      progress(fmt::format("what would be detected: {}", signature));
      const PowerTest::Steps all(steps);
      if (test.detects(all.last(1), kPlantedError)) continue;
      std::size_t runs = kPowerRuns;
      const std::size_t untried = warn_of_undetected(test, all, runs);
      if (untried > 0)
        result_.notes.push_back(
            fmt::format("{}: not tested for {} of {} steps whether an error would be detected",
                        signature, untried, steps.size()));
    }
    if (!options_.power) return;
    for (const Step& step : model_.history()) {
      if (!test.can_plant(step)) continue;
      progress(fmt::format("the smallest error of step {} that would be detected", step.id.value));
      result_.power.push_back(
          {step.id, step.transformation, step.site, test.smallest_detected(step)});
    }
  }

  // Plants errors in many steps at once, and halves the set until a part is not detected as a whole
  // or a single step is detected. Testing each step by itself would take one run of the model per
  // step. Returns the number of steps that were not tested.
  std::size_t warn_of_undetected(const PowerTest& test, PowerTest::Steps steps, std::size_t& runs) {
    if (runs == 0) return steps.size();
    --runs;
    if (!test.detects(steps, kPlantedError)) {
      warn(steps, test.reaches(steps));
      return 0;
    }
    if (steps.size() == 1) return 0;
    const std::size_t half = steps.size() / 2;
    const std::size_t untried = warn_of_undetected(test, steps.first(half), runs);
    return untried + warn_of_undetected(test, steps.subspan(half), runs);
  }

  void warn(PowerTest::Steps steps, bool reached) {
    const Step &first = *steps.front(), &last = *steps.back();
    const std::string which =
        steps.size() == 1
            ? fmt::format("step {}, {} at {}", first.id.value, first.transformation, first.site)
            : fmt::format("{} steps from {} to {}, {} at {} and others", steps.size(),
                          first.id.value, last.id.value, first.transformation, first.site);
    result_.warnings.push_back(fmt::format(
        "{}: {}", which,
        reached
            ? fmt::format("an error of {:g}% in its results would not be detected on these inputs",
                          100 * kPlantedError)
            : "these inputs do not reach it: the outputs do not depend on its results"));
  }

  void progress(const std::string& what) {
    if (options_.measure.progress) options_.measure.progress({0, 0, what});
  }

  const Model& model_;
  const VerifyOptions& options_;
  const Verifier verifier_;
  std::deque<Witness> witnesses_;
  std::string first_refusal_;
  Verification result_;
};

VerifyVerdict worst_of(const std::vector<OutputCheck>& outputs) {
  VerifyVerdict worst = VerifyVerdict::pass;
  for (const OutputCheck& output : outputs) worst = std::max(worst, output.answer);
  return worst;
}

}  // namespace

std::string to_string(VerifyVerdict answer) {
  switch (answer) {
    case VerifyVerdict::pass:
      return "pass";
    case VerifyVerdict::not_judged:
      return "not judged";
    case VerifyVerdict::cannot_tell:
      return "cannot tell";
    case VerifyVerdict::fail:
      return "fail";
  }
  return "";
}

bool is_lossy(const Step& step) {
  return step.numerics == Numerics::approximate && !ships_as_exact(step.transformation);
}

VerifyVerdict SetCheck::answer() const { return worst_of(outputs); }

VerifyVerdict Verification::answer() const {
  VerifyVerdict worst = VerifyVerdict::pass;
  for (const SetCheck& set : sets) worst = std::max(worst, set.answer());
  for (const StepCheck& step : steps)
    if (!step.lossy)
      worst = std::max(worst, step.worst.answer);  // lossy steps are judged together, in the sets
  return worst;
}

std::string Verification::verdict() const {
  return lossy && passed() ? "lossy" : to_string(answer());
}

std::string Verification::reason() const {
  const VerifyVerdict worst = answer();
  if (worst == VerifyVerdict::pass) return "";
  if (worst == VerifyVerdict::not_judged) return kNoBudget;
  for (const SetCheck& set : sets)
    for (const OutputCheck& output : set.outputs)
      if (output.answer == worst)
        return fmt::format("{}{}: {}", output.call ? fmt::format("call {}: ", output.call) : "",
                           output.path, output.problem);
  for (const StepCheck& step : steps)
    if (step.worst.answer == worst)
      return fmt::format("step {}: {}: {}", step.id.value, step.worst.path, step.worst.problem);
  return "";
}

Verification verify(const Model& model, const VerifyOptions& options) {
  require_budget(options.budget);
  require_tolerance(options.tolerance);
  require_valid(options.measure);
  return Session(model, options).run();
}

BisectCheck check_tolerance(const Model& model, const VerifyOptions& options) {
  require_tolerance(options.tolerance);
  require_valid(options.measure);
  struct Prepared {
    Model model;
    VerifyOptions options;
    Session session;
    Prepared(const Model& m, const VerifyOptions& o)
        : model(m), options(o), session(model, options) {}
  };
  const auto prepared = std::make_shared<Prepared>(model, options);
  prepared->session.prepare();
  return [prepared](const Model& form) {
    switch (prepared->session.answer(form)) {
      case VerifyVerdict::pass:
        return BisectVerdict::good;
      case VerifyVerdict::fail:
        return BisectVerdict::bad;
      case VerifyVerdict::not_judged:
      case VerifyVerdict::cannot_tell:
        break;
    }
    return BisectVerdict::skip;
  };
}

}  // namespace refx
