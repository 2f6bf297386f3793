// SPDX-License-Identifier: Apache-2.0

// refx tune: the rewrites that pay on this machine and these inputs.

#include <fmt/format.h>

#include <charconv>
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

void read_shard(const std::string& text, refx::TuneOptions& how) {
  const char *at = text.data(), *end = at + text.size();
  auto [slash, first] = std::from_chars(at, end, how.shard);
  auto [rest, second] = std::from_chars(std::min(slash + 1, end), end, how.shards);
  if (first != std::errc() || second != std::errc() || *slash != '/' || rest != end)
    throw Error(fmt::format("--shard {}: a part is written I/N, as in 0/4", text));
  if (how.shard < 0 || how.shard >= how.shards)
    throw Error(fmt::format("--shard {}: there is no such part, they are counted from 0", text));
}

refx::TuneOptions settings(const TuneOptions& options, const Model& model) {
  refx::TuneOptions how = options.how;
  how.transformations = find_transformations(options.transformations);
  how.more_inputs = take_inputs(how.measure, model, options.inputs);
  if (how.record.empty() && !options.output.empty()) how.record = options.output + ".trials.jsonl";
  if (options.resume) {
    if (how.record.empty()) throw Error("--resume needs --trials FILE or -o OUT");
    if (std::filesystem::exists(how.record)) how.known.push_back(how.record);
  }
  if (!options.budget_run.empty()) how.ask = ask_command(options.budget_run, options.at_least);
  if (!options.shard.empty()) read_shard(options.shard, how);
  return how;
}

// What became of the model, and what else was tried.
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
  if (options.shard.empty())
    require_output("tune", options.model, options.output);
  else if (options.how.record.empty())
    throw Error("--shard measures only: say with --trials FILE where the trials go");
  else if (!options.output.empty())
    throw Error("--shard measures only: leave -o out, and use --merge afterwards");
  if (!options.report.empty() &&
      (options.report == options.output || same_file(options.model, options.report)))
    throw Error(fmt::format("--report {} is a model: the page needs a file of its own",
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
  // Of processes that work together, the one that decides reports.
  if (result.decided || !options.shard.empty())
    options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  return kDone;
}

}  // namespace refx::cli
