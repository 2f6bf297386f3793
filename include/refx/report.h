// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/bench.h"
#include "refx/export.h"
#include "refx/model.h"
#include "refx/sensitivity.h"
#include "refx/verify.h"

namespace refx {

// Writes a page about a model, its steps and their effects.

struct Tuning;

struct ReportOptions {
  std::string title = {};                      // empty: the name of the model's file
  const Verification* verification = nullptr;  // null: the page says that there is none
  const Benchmark* benchmark = nullptr;
  const Sensitivity* sensitivity = nullptr;  // null: not shown
  const Tuning* tuning = nullptr;            // shown if it had a budget
  // Shown on the page if there is no verification or benchmark: the reason.
  std::string not_verified = {}, not_benchmarked = {};
};

// Returns one self-contained HTML page: summary, history, results, and the graph before and after.
// Throws Error if refx was built without the page (CMake says so when Node.js is missing).
REFX_API std::string report(const Model& model, const ReportOptions& options = {});

struct MeasuredReportOptions {
  std::string title = {};
  bool verify = true, bench = true;
  bool per_step = false;
  Measure measure = {};  // for both; default: one thread, so that both use the same number
  // The result of tune() and its transformations: the page also shows the lossy steps that were
  // tried and are not in the model.
  const Tuning* tuning = nullptr;
  std::vector<TransformationPtr> transformations = {};
};

// First verifies and benchmarks the model, and measures each of its lossy steps. If a part cannot
// be done, the page and the notes give the reason.
struct MeasuredReport {
  std::string html;
  std::vector<std::string> notes;
};
REFX_API MeasuredReport measured_report(const Model& model,
                                        const MeasuredReportOptions& options = {});

// Writes a page to a file, completely or not at all.
REFX_API void write_report(const std::string& path, const std::string& html);

}  // namespace refx
