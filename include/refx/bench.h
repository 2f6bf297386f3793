// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/hint.h"
#include "refx/measure.h"
#include "refx/model.h"

namespace refx {

// How fast a model is, beside another one or its own original.

struct BenchOptions {
  const Model* against = nullptr;  // null: the model's own original
  Measure measure = {};
  bool cuda_graph = false;  // capture a run and time its replays
  bool per_step = false;    // toggle every live step by itself, too
  // At least, as the seconds; then until the ratio is known to 1%, for up to three times as long.
  int rounds = 10;
};

// Seconds per run of one model: quartiles over all its runs.
struct Timing {
  double low = 0, median = 0, high = 0;
  std::size_t runs = 0;
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

enum class Speed { faster, slower, no_difference, unstable };
REFX_API std::string to_string(Speed speed);  // "faster", "slower", "no difference", "unstable"

// How much faster the second of two models is: its time is the first one's divided by the ratio.
// The interval holds the true ratio with 99% confidence (bootstrap over rounds).
struct Contest {
  Timing before, after;
  double ratio = 1, low = 1, high = 1;
  std::vector<double> rounds;  // the ratio in each
  Speed speed = Speed::no_difference;
};

struct StepSpeed {
  StepId id;
  std::string transformation, site;
  Contest contest;  // without the step, against the model as it is
};

struct REFX_API Benchmark {
  std::string before, after;  // what the two are, in words
  std::string inputs;         // where they come from, and their types
  std::string device;
  std::string machine;  // processor, operating system, versions
  int threads = 1;
  // Of a sequence: the calls in each timed run, which are those after the first, and the elements
  // of their token inputs. 0: runs are single calls; there is no token input.
  std::size_t calls = 0;
  std::int64_t tokens = 0;
  Contest contest;
  std::vector<StepSpeed> steps;
  std::vector<std::string> notes;
  std::vector<Hint> advice;  // what may help where the answer is uncertain

  // The notes and the advice, in the words of a face.
  std::vector<std::string> told(Phrase words) const;
};

// Runs the two models in turn, in inference mode, on copies of the inputs and of the state that
// they write: round by round, each in short blocks A B B A with executors made for the round, so
// that neither a drift of the machine nor a lucky place in memory favours one of them.
//
// A run of a sequence is all its calls after the first, each time from fresh state: the first call,
// the prefill, is made but not timed.
REFX_API Benchmark bench(const Model& model, const BenchOptions& options = {});

REFX_API std::string to_text(const Benchmark& benchmark, Phrase words = to_string);
REFX_API std::string to_json(const Benchmark& benchmark, Phrase words = to_string);

}  // namespace refx
