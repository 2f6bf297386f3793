// SPDX-License-Identifier: Apache-2.0

// refx report: writes an HTML page about a model, its steps and their effects.

#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/report.h"
#include "util/shell_word.h"

namespace refx::cli {

int report(const ReportOptions& options) {
  if (options.output.empty()) throw Error("'report' needs an output file: -o OUT.html");
  if (same_file(options.model, options.output))
    throw Error(fmt::format("-o {} is the model; give the page another file name",
                            shell_word(options.output)));
  const Model& model = load_to_run(options.model, options);
  Progress progress(100);
  MeasuredReportOptions how = options.how;
  // Wrong inputs from the user are an error here; generated ones that fail only leave out parts of
  // the page.
  take_inputs(how.measure, model, options.inputs);
  how.measure.progress = progress.callback();
  const MeasuredReport page = measured_report(model, how);
  progress.clear();
  require_unchanged_files();
  write_report(options.output, page.html);
  for (const std::string& text : page.notes) note(text);
  note(fmt::format("wrote {} ({})", options.output, human_bytes(page.html.size())));
  return kDone;
}

}  // namespace refx::cli
