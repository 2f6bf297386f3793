// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/bench.h"
#include "refx/export.h"
#include "refx/model.h"
#include "refx/sensitivity.h"
#include "refx/verify.h"

namespace refx {

// A page about a model, its steps and what they do.

struct Tuning;

struct ReportOptions {
  std::string title = {};                      // empty: the name of the model's file
  const Verification* verification = nullptr;  // null: the page says that it was not run
  const Benchmark* benchmark = nullptr;
  const Sensitivity* sensitivity = nullptr;  // null: not shown
  const Tuning* tuning = nullptr;            // shown if it had a budget
  // Why there is no verification or benchmark, for the page to say.
  std::string not_verified = {}, not_benchmarked = {};
};

// One page of HTML that needs nothing else: summary, history, results, and the graph before and
// after. Throws Error if refx was built without the page (CMake says so when Node.js is missing).
REFX_API std::string report(const Model& model, const ReportOptions& options = {});

struct MeasuredReportOptions {
  std::string title = {};
  bool verify = true, bench = true;
  bool per_step = false;
  Measure measure = {};  // of both; without a number of threads on one, so that they agree
  // What was tuned, and how: shows also what is lossy in these and not in the model.
  const Tuning* tuning = nullptr;
  std::vector<TransformationPtr> transformations = {};
};

// Verifies and benchmarks the model first, and measures each of its lossy steps. What cannot be
// done, and why, is on the page and in the notes.
struct MeasuredReport {
  std::string html;
  std::vector<std::string> notes;
};
REFX_API MeasuredReport measured_report(const Model& model,
                                        const MeasuredReportOptions& options = {});

// Writes a page to a file: whole or not at all.
REFX_API void write_report(const std::string& path, const std::string& html);

}  // namespace refx
