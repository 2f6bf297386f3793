// refx bisect: which steps make a check fail.

#include "refx/bisect.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/pt2.h"
#include "refx/verify.h"
#include "util/fingerprint.h"

namespace refx::cli {

namespace {

namespace fs = std::filesystem;

// What the verdicts are of: this file as it is now, and this check.
std::string key_of(const BisectOptions& options) {
  struct stat file = {};
  stat(options.model.c_str(), &file);
  return fmt::format("{} {} {}.{} {} {} {} {} {}", fs::absolute(options.model).string(), file.st_size,
                     file.st_mtim.tv_sec, file.st_mtim.tv_nsec, options.run, options.tolerance,
                     options.inputs, options.threads, options.seed);
}

// Where a search that is cut short is kept; empty if there is no place for it.
std::string journal_of(const std::string& key) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder = cache && *cache ? fs::path(cache) : home && *home ? fs::path(home) / ".cache" : "";
  if (folder.empty()) return "";
  folder /= "refx/bisect";
  std::error_code failed;
  fs::create_directories(folder, failed);
  return failed ? "" : (folder / (fingerprint(key) + ".jsonl")).string();
}

Check check_of(const BisectOptions& options, const Model& model) {
  if (!options.run.empty()) return by_command(options.run);
  refx::VerifyOptions how;
  if (!options.inputs.empty()) how.inputs = {inputs_for(model, options.inputs, options.seed)};
  how.tolerance = options.tolerance;
  how.threads = options.threads;
  how.seed = options.seed;
  return within(model, how);
}

}  // namespace

int bisect(const BisectOptions& options) {
  if (options.run.empty() == (options.tolerance < 0))
    throw Error("bisect needs a check: --tolerance X, or --run 'COMMAND {}'; see `refx bisect --help`");
  const Model model = load(options.model);
  if (model.history().empty())
    throw Error(fmt::format("{}: the model has no steps to search", options.model));
  Progress progress(0);
  refx::BisectOptions how;
  how.key = key_of(options);
  how.journal = journal_of(how.key);
  how.progress = progress.callback();
  if (fs::exists(how.journal)) {
    if (options.fresh)
      fs::remove(how.journal);
    else
      note("going on with a search that was cut short; --fresh begins anew");
  }
  const Bisection result = refx::bisect(model, check_of(options, model), how);
  progress.clear();
  fmt::print("{}", options.json ? to_json(result, model) : to_text(result, model));
  return result.culprits.empty() ? kNo : kDone;
}

}  // namespace refx::cli
