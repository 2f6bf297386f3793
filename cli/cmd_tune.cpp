// SPDX-License-Identifier: Apache-2.0

// refx tune: finds the rewrites that make a model faster on this machine and these inputs.

#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "patterns.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/report.h"
#include "refx/tune.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

refx::TuneOptions settings(const TuneOptions& options, const Model& model) {
  refx::TuneOptions how = options.how;
  how.transformations = find_transformations(options.transformations);
  how.more_inputs = take_inputs(how.measure, model, options.inputs);
  if (how.trials.empty()) how.trials = options.output + ".trials.jsonl";
  if (options.resume && std::filesystem::exists(how.trials)) how.resume_from = how.trials;
  if (!options.accept.empty()) how.accept = accept_by_command(options.accept, options.accept_min);
  return how;
}

// The page about the result and everything that was tried.
void write_page(const TuneOptions& options, const refx::TuneOptions& how, const Model& model,
                const Tuning& result) {
  MeasuredReportOptions page{.title = std::filesystem::path(options.output).filename().string(),
                             .measure = how.measure,
                             .tuning = &result,
                             .transformations = how.transformations};
  page.measure.threads = result.threads;
  Progress progress(100);
  page.measure.progress = progress.callback();
  const std::string html = measured_report(model, page).html;
  progress.clear();
  write_report(options.report, html);
  note(fmt::format("wrote {} ({})", options.report, human_bytes(html.size())));
}

}  // namespace

int tune(const TuneOptions& options) {
  if (options.accept_min && options.accept.empty())
    throw Error("--accept-min requires --accept; see `refx tune --help`");
  require_output("tune", options.model, options.output);
  if (!options.report.empty() &&
      (options.report == options.output || same_file(options.model, options.report)))
    throw Error(fmt::format("--report {} is a model; give the page another file name",
                            shell_word(options.report)));
  Model& model = load_to_run(options.model, options);
  refx::TuneOptions how = settings(options, model);
  Progress progress(100);
  how.measure.progress = progress.callback();
  const Tuning result =
      with_patterns(options.model, options.transformations, [&] { return refx::tune(model, how); });
  progress.clear();
  if (result.decided) write(model, options.output);
  if (result.decided && !options.report.empty()) write_page(options, how, model, result);
  // Where several processes tune together, only the one that decides prints the result.
  if (result.decided) options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  return kDone;
}

}  // namespace refx::cli
