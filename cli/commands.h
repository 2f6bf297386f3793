// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refx/bench.h"
#include "refx/check.h"
#include "refx/report.h"
#include "refx/tune.h"
#include "refx/verify.h"

namespace refx::cli {

// What the program returns to the shell.
enum Exit : int {
  kDone = 0,
  kNo = 1,     // the answer is no: different, failed, not found
  kUsage = 2,  // wrong usage or bad input; nothing was written
  kBug = 3,    // an internal error of refx
  kInterrupted = 130,
};

// Each command is in a file of its own, cmd_<name>.cpp. command_line.cpp fills in the options, and
// main.cpp maps errors to exit codes.
struct ListOptions {
  bool reasons = false, json = false;
};
int list(const ListOptions& options);

int explain(const std::string& what);

struct InspectOptions {
  std::string model;
  std::vector<std::string> transformations;  // empty: all that preserve computation
  SiteFilter filter;
  bool graph = false, json = false;
  bool lossy = false;  // also those that do not preserve computation
};
int inspect(const InspectOptions& options);

struct ApplyOptions {
  std::string model, output;
  std::vector<std::string> transformations;
  SiteFilter filter;
  bool dry_run = false, json = false;
};
int apply(const ApplyOptions& options);

struct LogOptions {
  std::string model;
  bool json = false;
};
int log(const LogOptions& options);

struct ReverseOptions {
  std::string model, output, base;
  std::vector<std::string> what;
  bool all = false, refuse = false, cascade = false, discard_changes = false, json = false;
};
int reverse(const ReverseOptions& options);

struct DiffOptions {
  std::string model, other, base;
  bool json = false;
};
int diff(const DiffOptions& options);

struct DetachOptions {
  std::string model, output;
  bool json = false;
};
int detach(const DetachOptions& options);

struct ForgetOptions {
  std::string model, output;
  bool json = false;
};
int forget(const ForgetOptions& options);

// The options of a command that runs a model.
struct Runs {
  std::string model;
  std::string base;  // a file with the originals that were detached from the model
  std::vector<std::string> inputs, allow_ops;
};

// `how` has the library's options, which command_line.cpp fills in as well.
struct RunOptions : Runs {
  std::string output, state;
  Measure measure;
  bool json = false;
};
int run(const RunOptions& options);

struct VerifyOptions : Runs {
  std::string against;
  refx::VerifyOptions how;
  bool json = false;
};
int verify(const VerifyOptions& options);

struct SensitivityOptions : Runs {
  std::vector<std::string> transformations;
  SiteFilter filter;
  Measure measure;
  bool json = false;
};
int sensitivity(const SensitivityOptions& options);

struct BenchOptions : Runs {
  std::string against;
  refx::BenchOptions how;
  bool json = false;
};
int bench(const BenchOptions& options);

struct TuneOptions : Runs {
  std::string output, accept, report;
  std::optional<double> accept_min;
  std::vector<std::string> transformations;
  refx::TuneOptions how;
  bool resume = false, json = false;
};
int tune(const TuneOptions& options);

struct BisectOptions : Runs {
  std::string run;
  std::optional<double> tolerance;  // the check is this or `run`
  Measure measure;
  bool fresh = false, json = false;
};
int bisect(const BisectOptions& options);

struct CheckOptions {
  std::vector<std::string> files, rules;
  refx::CheckOptions how;
  bool json = false;
};
int check(const CheckOptions& options);

struct ReportOptions : Runs {
  std::string output;
  MeasuredReportOptions how;
};
int report(const ReportOptions& options);

int demo();

}  // namespace refx::cli
