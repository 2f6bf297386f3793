// refx tune: the rewrites that pay on this machine and these inputs.

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/tune.h"

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
  take_inputs(how.measure, model, options.inputs);
  if (how.record.empty() && !options.output.empty()) how.record = options.output + ".trials.jsonl";
  if (options.resume) {
    if (how.record.empty()) throw Error("--resume needs --trials FILE or -o OUT");
    if (std::filesystem::exists(how.record)) how.known.push_back(how.record);
  }
  if (!options.shard.empty()) read_shard(options.shard, how);
  return how;
}

}  // namespace

int tune(const TuneOptions& options) {
  if (options.shard.empty())
    require_output("tune", options.model, options.output);
  else if (options.how.record.empty())
    throw Error("--shard measures only: say with --trials FILE where the trials go");
  else if (!options.output.empty())
    throw Error("--shard measures only: leave -o out, and use --merge afterwards");
  Model& model = load_to_run(options.model, options);
  refx::TuneOptions how = settings(options, model);
  Progress progress(100);
  how.measure.progress = progress.callback();
  const Tuning result = refx::tune(model, how);
  progress.clear();
  if (result.decided) write(model, options.output);
  // Of processes that work together, the one that decides reports.
  if (result.decided || !options.shard.empty())
    options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  return kDone;
}

}  // namespace refx::cli
