// SPDX-License-Identifier: Apache-2.0

// refx bisect: finds the steps that make a check fail.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/bisect.h"
#include "refx/error.h"
#include "refx/verify.h"
#include "util/fingerprint.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

namespace fs = std::filesystem;

// Identifies a search: the verdicts of an earlier one are valid for the same file contents and the
// same check only.
std::string key_of(const BisectOptions& options) {
  struct stat file = {};
  stat(options.model.c_str(), &file);
  return fmt::format("{} {} {}.{} {} {} {} {} {} {}", fs::absolute(options.model).string(),
                     file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, options.run,
                     options.tolerance.value_or(-1), fmt::join(options.inputs, " "),
                     options.measure.threads.value_or(1), options.measure.seed,
                     options.measure.steps);
}

// The file that keeps the verdicts of an interrupted search; empty if there is no cache folder.
std::string journal_of(const std::string& key) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder = cache && *cache ? fs::path(cache)
                    : home && *home ? fs::path(home) / ".cache"
                                    : "";
  if (folder.empty()) return "";
  folder /= "refx/bisect";
  std::error_code failed;
  fs::create_directories(folder, failed);
  return failed ? "" : (folder / (fingerprint(key) + ".jsonl")).string();
}

BisectCheck check_of(const BisectOptions& options, const Model& model) {
  if (!options.run.empty()) return check_command(options.run);
  refx::VerifyOptions how{.measure = options.measure, .tolerance = *options.tolerance};
  take_inputs(how.measure, model, options.inputs);
  return check_tolerance(model, how);
}

// The command that reverses the culprits.
std::string repair(const Bisection& found, const std::string& path) {
  std::vector<std::uint32_t> steps;
  for (StepId id : found.repair) steps.push_back(id.value);
  fs::path out(path);
  out.replace_filename(out.stem().string() + "-repaired.pt2");
  return fmt::format("refx reverse {} {} --cascade{} -o {}", shell_word(path),
                     fmt::join(steps, " "), found.discards ? " --discard-changes" : "",
                     shell_word(out.string()));
}

}  // namespace

int bisect(const BisectOptions& options) {
  if (options.run.empty() == !options.tolerance)
    throw Error(
        "bisect needs a check: --tolerance X or --run 'COMMAND {}'; see `refx bisect --help`");
  const Model& model = load_to_run(options.model, options);
  if (model.history().empty())
    throw Error(fmt::format("{}: the model has no steps", options.model));
  Progress progress(0);
  refx::BisectOptions how;
  how.key = key_of(options);
  how.journal = journal_of(how.key);
  how.progress = progress.callback();
  if (fs::exists(how.journal)) {
    if (options.fresh)
      fs::remove(how.journal);
    else
      note("resuming an interrupted search; --fresh starts over");
  }
  const Bisection result = refx::bisect(model, check_of(options, model), how);
  progress.clear();
  const std::string command = repair(result, options.model);
  options.json ? say_exactly(to_json(result, model, command))
               : say_lines(to_text(result, model, command));
  return result.culprits.empty() ? kNo : kDone;
}

}  // namespace refx::cli
