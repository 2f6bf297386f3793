#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refx::cli {

// What the program returns to the shell.
enum Exit : int {
  kDone = 0,
  kNo = 1,     // the answer is no
  kUsage = 2,  // wrong usage or bad input; nothing was written
  kBug = 3,    // a fault of refx itself
  kInterrupted = 130,
};

// One file per command: cmd_<name>.cpp. command_line.cpp fills the options in, main.cpp maps errors
// to exit codes.
struct ListOptions {
  bool json = false;
};
int list(const ListOptions& options);

struct InspectOptions {
  std::string model;
  bool graph = false, json = false;
};
int inspect(const InspectOptions& options);

struct ApplyOptions {
  std::string model, output;
  std::vector<std::string> transformations, only, except;
  bool dry_run = false, json = false;
};
int apply(const ApplyOptions& options);

struct LogOptions {
  std::string model;
  bool json = false;
};
int log(const LogOptions& options);

struct ReverseOptions {
  std::string model, output;
  std::vector<std::string> what;
  bool all = false, refuse = false, cascade = false, discard_changes = false, json = false;
};
int reverse(const ReverseOptions& options);

struct DiffOptions {
  std::string model, other;
  bool json = false;
};
int diff(const DiffOptions& options);

struct ForgetOptions {
  std::string model, output;
  bool json = false;
};
int forget(const ForgetOptions& options);

struct RunOptions {
  std::string model, inputs, output;
  bool json = false;
  int threads = 0;
  unsigned seed = 0;
};
int run(const RunOptions& options);

struct VerifyOptions {
  std::string model, against, inputs;
  bool per_step = false, power = false, json = false;
  double tolerance = 0;  // 0: automatic
  int threads = 1;
  unsigned seed = 0;
};
int verify(const VerifyOptions& options);

struct BenchOptions {
  std::string model, against, inputs, device;
  std::int64_t batch = 0;
  bool cuda_graph = false, per_step = false, json = false;
  int threads = 0;
  double seconds = 3;
  unsigned seed = 0;
};
int bench(const BenchOptions& options);

struct TuneOptions {
  std::string model, output, inputs, device, trials, shard;
  std::vector<std::string> transformations, merge;
  std::int64_t batch = 0;
  bool resume = false, json = false;
  int threads = 0;
  double seconds = 3;
  unsigned seed = 0;
};
int tune(const TuneOptions& options);

struct BisectOptions {
  std::string model, run, inputs;
  double tolerance = -1;  // negative: not given
  bool fresh = false, json = false;
  int threads = 1;
  unsigned seed = 0;
};
int bisect(const BisectOptions& options);

struct ReportOptions {
  std::string model, output, inputs, title;
  bool no_verify = false, no_bench = false, per_step = false;
  int threads = 1;
  unsigned seed = 0;
};
int report(const ReportOptions& options);

int demo();

}  // namespace refx::cli
