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

// Measures how fast a model is, compared with another model or with its own original.

struct BenchOptions {
  const Model* against = nullptr;  // null: the model's own original
  Measure measure = {};
  bool cuda_graph = false;  // capture one run as a CUDA graph and time its replays
  bool per_step = false;    // also measure the model without each live step
  // Minimum, like Measure::seconds; at least 1. bench() then continues until the ratio is known to
  // 1%, for up to three times as long.
  int rounds = 10;
};

// Seconds per run of one model: the quartiles over all runs.
struct Timing {
  double low = 0, median = 0, high = 0;
  std::size_t runs = 0;
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

enum class Speed { faster, slower, no_difference, unstable };
REFX_API std::string to_string(Speed speed);  // "faster", "slower", "no difference", "unstable"

// How much faster the second of two models is: time of the first / time of the second. The interval
// contains the true ratio with 99% confidence (bootstrap over rounds).
struct Contest {
  Timing before, after;
  double ratio = 1, low = 1, high = 1;
  std::vector<double> rounds;  // the ratio of each round
  Speed speed = Speed::no_difference;
};

struct StepSpeed {
  StepId id;
  std::string transformation, site;
  Contest contest;  // the model without the step, and the model
};

struct REFX_API Benchmark {
  std::string before, after;  // descriptions of the two models
  std::string inputs;         // where they come from, and their types
  std::string device;
  std::string machine;  // processor, operating system, versions
  int threads = 1;
  // Of a sequence: the number of calls in each timed run, without the first one, and the number of
  // elements of their token inputs. 0: runs are single calls, or there is no token input.
  std::size_t calls = 0;
  std::int64_t tokens = 0;
  Contest contest;
  std::vector<StepSpeed> steps;
  std::vector<std::string> notes;
  std::vector<Hint> advice;  // what may help if the result is uncertain

  // The notes and the advice, worded for one of the faces of refx.
  std::vector<std::string> messages(HintFormatter formatter) const;
};

// Runs the two models alternately, in inference mode, on copies of the inputs and of the state that
// they write. Each round creates new executors and runs short blocks in the order A B B A. So
// neither a drift of the machine nor a favourable memory address gives one of them an advantage.
//
// A run of a sequence starts from fresh state and makes all calls. The first call, the prefill, is
// not timed.
REFX_API Benchmark bench(const Model& model, const BenchOptions& options = {});

REFX_API std::string to_text(const Benchmark& benchmark, HintFormatter formatter = to_string);
REFX_API std::string to_json(const Benchmark& benchmark, HintFormatter formatter = to_string);

}  // namespace refx
