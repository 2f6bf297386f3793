#include "refx/verify.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lab/compare.h"
#include "lab/forms.h"
#include "lab/in_double.h"
#include "lab/run_once.h"
#include "refx/bisect.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/reverse.h"

namespace refx {

namespace {

constexpr int kVariations = 2;  // of symbolic sizes

// What the original returns on one set of inputs, in its own dtype and as a reference.
struct Truth {
  Inputs inputs;
  Run original, reference, rounded;
};

class Verifier {
 public:
  Verifier(const Model& model, const VerifyOptions& options)
      : model_(model),
        options_(options),
        original_(options.against ? *options.against : original_of(model)) {
    result_.seed = options.seed;
  }

  Verification run() {
    const Environment environment(options_.threads);
    result_.threads = at::get_num_threads();
    collect_truths();
    for (const Truth& truth : truths_)
      result_.sets.push_back({truth.inputs.origin, compare_with(truth, model_)});
    if (options_.per_step) check_steps();
    if (!options_.against && model_.history().empty())
      result_.notes.push_back("the model has no steps: it was compared with itself");
    return std::move(result_);
  }

  // For judging many forms: the original is run by prepare(), once.
  void prepare() {
    const Environment environment(options_.threads);
    collect_truths();
  }
  bool passes(const Model& form) const {
    const Environment environment(options_.threads);
    return std::all_of(truths_.begin(), truths_.end(), [&](const Truth& truth) {
      return SetCheck{"", compare_with(truth, form)}.passed();
    });
  }

 private:
  // ---- the original ----------------------------------------------------------------------------

  void collect_truths() {
    if (!options_.inputs.empty()) {
      for (const Inputs& inputs : options_.inputs) add_truth(inputs);
    } else {
      add_truth(default_inputs());
      if (has_symbolic_inputs(original_))
        for (int i = 1; i <= kVariations; ++i) add_variation(i);
    }
    result_.random = std::any_of(truths_.begin(), truths_.end(),
                                 [](const Truth& truth) { return truth.original.random; });
    make_references();
  }

  Inputs default_inputs() {
    try {
      if (auto samples = sample_inputs(original_))
        return {std::move(*samples), "the file's sample inputs"};
    } catch (const Error& error) {
      result_.notes.push_back(fmt::format("the sample inputs were not used: {}", error.what()));
    }
    return {generated_inputs(original_, options_.seed),
            fmt::format("generated with seed {}", options_.seed)};
  }

  void add_truth(Inputs inputs) {
    Run run = run_once(original_, inputs.values, options_.seed);
    truths_.push_back({std::move(inputs), std::move(run), {}, {}});
  }

  // Sizes that the ranges allow but the model does not are no fault of a rewrite.
  void add_variation(int variation) {
    const std::string origin =
        fmt::format("generated with seed {}, other sizes ({})", options_.seed, variation);
    try {
      add_truth({generated_inputs(original_, options_.seed, variation), origin});
    } catch (const Error& error) {
      result_.notes.push_back(
          fmt::format("{}: the original does not run: {}", origin, error.what()));
    }
  }

  void make_references() {
    try {
      if (result_.random) throw Error("the model draws random numbers, and fp64 would draw others");
      const DoubleByDefault by_default;
      const Model wide = in_double(original_);
      const Model rounded = jittered(wide, original_, options_.seed);
      for (Truth& truth : truths_) {
        const auto inputs = in_double(truth.inputs.values);
        truth.reference = run_once(wide, inputs, options_.seed);
        truth.rounded =
            run_once(rounded, jittered(inputs, truth.inputs.values, options_.seed), options_.seed);
        check_alike(truth.original, truth.reference);
        check_alike(truth.original, truth.rounded);
      }
    } catch (const Error& error) {
      use_original_as_reference(error.what());
    } catch (const c10::Error& error) {
      use_original_as_reference(error.what_without_backtrace());
    }
  }

  static void check_alike(const Run& original, const Run& reference) {
    bool same = original.values.size() == reference.values.size();
    for (std::size_t i = 0; same && i < original.values.size(); ++i) {
      const Leaf &a = original.values[i], &b = reference.values[i];
      same = a.path == b.path && a.value.isTensor() == b.value.isTensor() &&
             (!a.value.isTensor() || a.value.toTensor().sizes() == b.value.toTensor().sizes());
    }
    if (!same) throw Error("it returns something else in fp64");
  }

  void use_original_as_reference(const std::string& why) {
    result_.in_fp64 = false;
    result_.why_not = why.substr(0, why.find('\n'));
    for (Truth& truth : truths_) truth.reference = truth.rounded = truth.original;
  }

  // ---- other forms -----------------------------------------------------------------------------

  std::vector<OutputCheck> compare_with(const Truth& truth, const Model& form) const {
    const Run run = run_once(form, truth.inputs.values, options_.seed);
    return compare(truth.reference, truth.rounded, truth.original, run,
                   {.precise = result_.in_fp64, .tolerance = options_.tolerance});
  }

  // How far into what is allowed an error goes; beyond 1 it is too large.
  static double load(const OutputCheck& check) {
    if (!check.passed()) return std::numeric_limits<double>::infinity();
    return check.allowed > 0 ? check.current_error / check.allowed : 0;
  }

  using Checks = std::vector<std::vector<OutputCheck>>;  // of each set

  Checks check(const Model& form) const {
    Checks all;
    for (const Truth& truth : truths_) all.push_back(compare_with(truth, form));
    return all;
  }

  // ---- steps -----------------------------------------------------------------------------------

  void check_steps() {
    const auto bases = built_on(model_);
    const Checks without_any = check(form_with(model_, {}));
    for (const auto& [id, bases_of_it] : bases) check_step(id, bases_of_it, without_any);
  }

  void check_step(StepId id, const std::set<StepId>& built_on, const Checks& without_any) {
    const Step& step = model_.history()[id];
    StepCheck result{id, step.transformation, step.site, {built_on.begin(), built_on.end()}, {}};
    std::set<StepId> kept = built_on;
    const Checks before = kept.empty() ? without_any : check(form_with(model_, kept));
    kept.insert(id);
    const Checks after = check(form_with(model_, kept));
    double most = -1;
    for (std::size_t set = 0; set < after.size(); ++set)
      for (const OutputCheck& output : after[set]) {
        if (load(output) <= most) continue;
        most = load(output);
        result.worst = output;
        result.added_error = output.current_relative() - relative_at(before[set], output.path);
      }
    result_.steps.push_back(std::move(result));
  }

  static double relative_at(const std::vector<OutputCheck>& outputs, const std::string& path) {
    for (const OutputCheck& output : outputs)
      if (output.path == path) return output.current_relative();
    return 0;
  }

  const Model& model_;
  const VerifyOptions& options_;
  const Model original_;
  std::vector<Truth> truths_;
  Verification result_;
};

template <class Items>
bool all_passed(const Items& items) {
  return std::all_of(items.begin(), items.end(), [](const auto& item) { return item.passed(); });
}

}  // namespace

bool SetCheck::passed() const { return all_passed(outputs); }
bool Verification::passed() const { return all_passed(sets) && all_passed(steps); }

Verification verify(const Model& model, const VerifyOptions& options) {
  return Verifier(model, options).run();
}

Check within(const Model& model, const VerifyOptions& options) {
  struct Judge {
    Model model;
    VerifyOptions options;
    Verifier verifier;
    Judge(const Model& m, const VerifyOptions& o) : model(m), options(o), verifier(model, options) {}
  };
  const auto judge = std::make_shared<Judge>(model, options);
  judge->verifier.prepare();
  return [judge](const Model& form) {
    return judge->verifier.passes(form) ? Verdict::good : Verdict::bad;
  };
}

}  // namespace refx
