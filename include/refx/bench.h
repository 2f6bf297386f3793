#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refx/inputs.h"
#include "refx/model.h"
#include "refx/progress.h"

namespace refx {

struct BenchOptions {
  const Model* against = nullptr;  // null: the model's own original
  Inputs inputs = {};              // none: the file's sample inputs, or generated ones
  std::int64_t batch = 0;          // the size of the inputs' symbolic dimensions; 0: as they come
  int threads = 0;                 // 0: as many as there are now
  std::string device = {};         // where both run; empty: where the model is
  bool cuda_graph = false;         // capture a run and time its replays
  bool per_step = false;           // toggle every live step by itself, too
  // At least; then until the ratio is known to 1%, for up to three times as long.
  int rounds = 10;
  double seconds = 3;
  std::uint64_t seed = 0;
  OnProgress progress = {};
};

// Seconds per run of one model: quartiles over all its runs.
struct Timing {
  double low = 0, median = 0, high = 0;
  std::size_t runs = 0;
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

enum class Speed { faster, slower, no_difference, unstable };
std::string to_string(Speed speed);  // "faster", "slower", "no difference", "unstable"

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

struct Benchmark {
  std::string before, after;  // what the two are, in words
  std::string inputs;         // where they come from, and their types
  std::string device;
  std::string machine;        // processor, operating system, versions
  int threads = 1;
  Contest contest;
  std::vector<StepSpeed> steps;
  std::vector<std::string> notes;  // what would help where the answer is uncertain
};

// Runs the two models in turn, in inference mode, on copies of the inputs and of the state that
// they write: round by round, each in short blocks A B B A with executors made for the round, so
// that neither a drift of the machine nor a lucky place in memory favours one of them.
Benchmark bench(const Model& model, const BenchOptions& options = {});

std::string to_text(const Benchmark& benchmark);
std::string to_json(const Benchmark& benchmark);

}  // namespace refx
