// SPDX-License-Identifier: Apache-2.0

#include "lab/bench/contest.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lab/bench/statistics.h"

namespace refx {

namespace {

constexpr double kConfidence = 0.99;
// The measurement stops early when the ratio is known to 1%: upper end / lower end of the interval.
constexpr double kPrecise = 1.02;
// An interval that contains 1 means "no difference" up to this ratio of its ends, "unstable" above
// it.
constexpr double kUnstable = 1.25;
// A noisy measurement continues for at most this many times the given seconds.
constexpr double kLonger = 3;
// The executor plans its memory in the first two runs and uses the plan from the third run on.
constexpr int kWarmUps = 3;
// Reading the clock costs tens of nanoseconds. Samples of at least 20 us make that less than 1%.
constexpr double kSample = 20e-6;
// Models that take longer than this (seconds) keep their executor for all rounds: the warm-up of
// each round would cost more than its measurement.
constexpr double kSlow = 0.25;
// Limits the memory for samples of very fast models.
constexpr std::size_t kMaxKept = 100'000;

// One of the two models, in all rounds.
class Side {
 public:
  Side(const MakeRunner& fresh, Clock& clock) : fresh_(fresh), clock_(clock) {}

  // A runner in fresh memory, warmed up.
  void renew() {
    runner_ = {};  // first, so that its memory is free for the next one
    runner_ = fresh_();
    for (int i = 0; i < kWarmUps; ++i) once_ = time(1);
  }

  void plan(double block_seconds) {
    once_ = std::min({time(1), time(1), once_});  // the minimum: the least disturbed run
    runs_per_sample_ = std::max(1, static_cast<int>(std::ceil(kSample / std::max(once_, 1e-9))));
    const double sample = once_ * runs_per_sample_;
    samples_per_block_ = std::clamp(static_cast<int>(block_seconds / sample), 2, 10'000);
  }

  double once() const { return once_; }

  void begin_round() { round_.clear(); }
  void block() {
    for (int i = 0; i < samples_per_block_; ++i)
      round_.push_back(time(runs_per_sample_) / runs_per_sample_);
  }
  double end_round() {
    runs_ += round_.size() * static_cast<std::size_t>(runs_per_sample_);
    if (all_.size() < kMaxKept) all_.insert(all_.end(), round_.begin(), round_.end());
    return median(round_);
  }

  Timing timing() const {
    return {quantile(all_, 0.25), median(all_), quantile(all_, 0.75), runs_};
  }

 private:
  double time(int runs) {
    if (!runner_.prepare) return clock_.time(runner_.run, runs);
    double sum = 0;
    for (int i = 0; i < runs; ++i) {
      runner_.prepare();
      sum += clock_.time(runner_.run, 1);
    }
    return sum;
  }

  const MakeRunner& fresh_;
  Clock& clock_;
  Runner runner_;
  double once_ = 0;
  int runs_per_sample_ = 1, samples_per_block_ = 1;
  std::size_t runs_ = 0;
  std::vector<double> round_, all_;
};

class AlternatingRuns {
 public:
  AlternatingRuns(const MakeRunner& before, const MakeRunner& after, Clock& clock,
                  const ContestOptions& options)
      : options_(options), clock_(clock), before_(before, clock), after_(after, clock) {}

  Contest run() {
    // Four blocks for each round, and half of the time for warm-ups.
    const double block = options_.seconds / (4.0 * 2 * options_.rounds);
    const double start = clock_.now();
    for (Side* side : {&before_, &after_}) side->renew(), side->plan(block);
    const bool renew = std::max(before_.once(), after_.once()) < kSlow;
    while (!done(clock_.now() - start)) {
      play_round(renew && !logs_.empty());
      interval_ = bootstrap_median(logs_, kConfidence, options_.seed);
      if (options_.progress) options_.progress(part(clock_.now() - start));
    }
    return result();
  }

 private:
  // A B B A, and B A A B in the next round: a drift of the clock frequency then affects both models
  // equally.
  void play_round(bool renew) {
    std::array<Side*, 2> order = {&before_, &after_};
    if (logs_.size() % 2) std::swap(order[0], order[1]);
    for (Side* side : order) {
      if (renew) side->renew();
      side->begin_round();
    }
    for (std::size_t i : {0, 1, 1, 0}) order[i]->block();
    // Logarithms make "twice as fast" and "half as fast" equally far from 1.
    logs_.push_back(std::log(before_.end_round() / after_.end_round()));
  }

  double part(double elapsed) const {
    return std::min({1.0, elapsed / std::max(options_.seconds, 1e-9),
                     static_cast<double>(logs_.size()) / options_.rounds});
  }

  bool done(double elapsed) const {
    if (static_cast<int>(logs_.size()) < options_.rounds || elapsed < options_.seconds)
      return false;
    return interval_.high - interval_.low < std::log(kPrecise) ||
           elapsed > kLonger * options_.seconds;
  }

  Contest result() const {
    Contest c;
    c.before = before_.timing();
    c.after = after_.timing();
    c.ratio = std::exp(median(logs_));
    c.low = std::exp(interval_.low);
    c.high = std::exp(interval_.high);
    for (double log : logs_) c.rounds.push_back(std::exp(log));
    c.speed = c.low > 1                    ? Speed::faster
              : c.high < 1                 ? Speed::slower
              : c.high > c.low * kUnstable ? Speed::unstable
                                           : Speed::no_difference;
    return c;
  }

  const ContestOptions& options_;
  Clock& clock_;
  Side before_, after_;
  std::vector<double> logs_;  // logarithm of the ratio of each round
  Interval interval_;
};

}  // namespace

Contest contest(const MakeRunner& before, const MakeRunner& after, Clock& clock,
                const ContestOptions& options) {
  return AlternatingRuns(before, after, clock, options).run();
}

}  // namespace refx
