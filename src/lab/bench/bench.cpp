// SPDX-License-Identifier: Apache-2.0

#include "refx/bench.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <filesystem>

#include "exec/own_state.h"
#include "lab/bench/contest.h"
#include "lab/run/machine.h"
#include "lab/run/on_device.h"
#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/reverse.h"
#include "refx/source.h"

namespace refx {

namespace {

// The time for each step, as a fraction of the given seconds: a table of steps is for comparison,
// and a model may have hundreds of them.
constexpr double kStepPart = 0.2;
// Above this interquartile range, relative to the median, the machine is too noisy for the number
// of rounds, and the report says what may help.
constexpr double kWideSpread = 0.25;

std::string name_of(const Model& model) {
  if (!model.source()) return "the model";
  return std::filesystem::path(model.source()->path()).filename().string();
}

class Bench {
 public:
  Bench(const Model& model, const BenchOptions& options)
      : model_(model),
        options_(options),
        device_(to_device(options.measure.device, model)),
        clock_(make_clock(device_)),
        environment_(options.measure.threads.value_or(0)) {}

  Benchmark run() {
    if (options_.cuda_graph && device_.is_cpu())
      throw HintedError("a CPU has no graphs to capture", Hint::other_device);
    describe();
    note_if_busy(result_.notes);
    const Model other = options_.against ? *options_.against : original_of(model_);
    if (options_.against) check_inputs_fit(other, inputs_.values, result_.before);
    const MakeRunner after = fresh(model_);
    result_.contest = measure("the whole model", fresh(other), after, options_.measure.seconds);
    if (options_.per_step) measure_steps(after);
    advise();
    return std::move(result_);
  }

 private:
  void describe() {
    result_.after = name_of(model_);
    result_.before = options_.against ? name_of(*options_.against) : "its original";
    if (!options_.against && model_.history().empty())
      result_.notes.push_back("the model has no steps: it was compared with itself");
    Inputs inputs = sized_inputs(model_, options_.measure);
    inputs_ = on_device(inputs, device_);
    result_.inputs = describe_inputs(inputs);
    result_.calls = inputs.next.size();
    result_.tokens = count_tokens(model_, inputs);
    if (inputs.next.empty() && keeps_state(model_)) result_.notes.push_back(kOneCallWasMade);
    result_.device = device_.str();
    result_.machine = describe_machine(device_);
    result_.threads = at::get_num_threads();
    total_ = 1 + (options_.per_step ? model_.history().size() : 0);
  }

  MakeRunner fresh(const Model& model) const {
    return runs_of(on_device(model, device_), inputs_,
                   options_.cuda_graph ? std::optional(device_) : std::nullopt);
  }

  Contest measure(const std::string& what, const MakeRunner& before, const MakeRunner& after,
                  double seconds) {
    const auto progress = [&](double part) {
      if (const OnProgress& tell = options_.measure.progress)
        tell({100 * done_ + static_cast<std::size_t>(100 * part), 100 * total_, what});
    };
    progress(0);
    const Contest result = contest(before, after, *clock_,
                                   {.rounds = options_.rounds,
                                    .seconds = seconds,
                                    .seed = options_.measure.seed,
                                    .progress = progress});
    ++done_;
    return result;
  }

  void measure_steps(const MakeRunner& as_it_is) {
    for (const Step& step : model_.history()) {
      Model without = model_;
      reverse(without, step.id, {.discard_changes = true});
      const std::string what = fmt::format("step {}", step.id.value);
      result_.steps.push_back(
          {step.id, step.transformation, step.site,
           measure(what, fresh(without), as_it_is, kStepPart * options_.measure.seconds)});
    }
  }

  // Adds hints if the result is uncertain.
  void advise() {
    const Contest& c = result_.contest;
    const double spread = std::max(c.before.spread(), c.after.spread());
    if (c.speed != Speed::unstable && spread < kWideSpread) return;
    result_.notes.push_back(
        fmt::format("run times vary by {:.0f}% (interquartile range)", 100 * spread));
    if (result_.threads > 1) result_.advice.push_back(Hint::one_thread);
    result_.advice.push_back(Hint::more_seconds);
    if (device_.is_cpu()) result_.advice.push_back(Hint::fixed_frequency);
  }

  const Model& model_;
  const BenchOptions& options_;
  const c10::Device device_;
  const std::unique_ptr<Clock> clock_;
  const Environment environment_;
  Inputs inputs_;
  std::size_t done_ = 0, total_ = 1;
  Benchmark result_;
};

}  // namespace

Benchmark bench(const Model& model, const BenchOptions& options) {
  require_valid(options.measure);
  if (options.rounds < 1)
    throw Error(fmt::format("the number of rounds must be 1 or more, not {}", options.rounds));
  return Bench(model, options).run();
}

std::string to_string(Speed speed) {
  switch (speed) {
    case Speed::faster:
      return "faster";
    case Speed::slower:
      return "slower";
    case Speed::no_difference:
      return "no difference";
    case Speed::unstable:
      return "unstable";
  }
  return "";
}

}  // namespace refx
