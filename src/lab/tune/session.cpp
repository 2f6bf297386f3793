// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/run/on_device.h"
#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"

namespace refx {

TuneSession::TuneSession(const Model& input, const TuneOptions& options)
    : input_(input),
      options_(options),
      device_(to_device(options.measure.device, input)),
      clock_(make_clock(device_)),
      environment_(options.measure.threads.value_or(0)) {
  const bool named = !options.transformations.empty();
  for (const TransformationPtr& t : named ? options.transformations : registry())
    if (named || t->preserves_computation()) all_.push_back(t);
  describe();
}

void TuneSession::describe() {
  given_ = sized_inputs(input_, options_.measure);
  inputs_ = on_device(given_.call(given_.calls() - 1), device_);
  tuning.inputs = describe_inputs(given_);
  tuning.device = device_.str();
  tuning.machine = describe_machine(device_);
  tuning.threads = at::get_num_threads();
  note_if_busy(tuning.notes);
  trials_.emplace(fmt::format("{}; {}, {} threads{}", tuning.machine, tuning.device, tuning.threads,
                              options_.prefer == Prefer::size ? "; not timed" : ""),
                  options_.trials);
  if (const std::string& path = options_.resume_from; !path.empty() && trials_->read(path) == 0)
    tuning.notes.push_back(
        fmt::format("{} has no trials that were made here and with these settings", path));
}

Contest TuneSession::race_sites(const MakeRunner& before, const MakeRunner& after) {
  // A site is far smaller than the model, and there may be many: a fifth of the time is enough.
  constexpr double kShare = 0.2;
  return contest(before, after, *clock_,
                 {.rounds = 10,
                  .seconds = kShare * options_.measure.seconds,
                  .seed = options_.measure.seed,
                  .progress = [this](double) { progress(std::string(what_), part_); }});
}

Contest TuneSession::race(const std::string& what, const MakeRunner& before,
                          const MakeRunner& after) {
  return contest(before, after, *clock_,
                 {.rounds = 10,
                  .seconds = options_.measure.seconds,
                  .seed = options_.measure.seed,
                  .progress = [&](double part) { progress(what, part); }});
}

MakeRunner TuneSession::whole(const Model& model) const {
  return runs_of(on_device(model, device_), on_device(given_, device_));
}

void TuneSession::progress(const std::string& what, double part) {
  what_ = what;
  part_ = part;
  constexpr std::size_t kUnit = 100;  // of progress, for each class and for the decision
  if (const OnProgress& tell = options_.measure.progress)
    tell({kUnit * done_ + static_cast<std::size_t>(kUnit * part), kUnit * (classes.size() + 1),
          what});
}

std::string describe_moves(const std::vector<std::string>& moves) {
  return fmt::format("{}", fmt::join(moves, ", then "));
}

}  // namespace refx
