#pragma once

#include <string>

#include "refx/bench.h"
#include "refx/model.h"
#include "refx/verify.h"

namespace refx {

struct ReportOptions {
  std::string title = {};                       // empty: the name of the model's file
  const Verification* verification = nullptr;  // null: the page says that it was not run
  const Benchmark* benchmark = nullptr;
};

// One page of HTML that needs nothing else: summary, history, results, and the graph before and
// after.
std::string report(const Model& model, const ReportOptions& options = {});

}  // namespace refx
