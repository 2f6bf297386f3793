// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "refx/bisect.h"
#include "refx/error.h"
#include "refx/pt2.h"
#include "refx/tune.h"
#include "util/printable.h"
#include "util/shell_word.h"

namespace refx {

namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / "refx-XXXXXX") {
    std::string name = path_.string();
    if (!mkdtemp(name.data()))
      throw Error(fmt::format("cannot make a folder in {}", path_.parent_path().string()));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string with_path(std::string_view command, const std::string& path) {
  std::string out;
  while (true) {
    const std::size_t at = command.find("{}");
    out += command.substr(0, at);
    if (at == command.npos) return out;
    out += shell_word(path);
    command.remove_prefix(at + 2);
  }
}

// Returns the status of waitpid(), or -1. Not system(): that ignores SIGINT in this process while
// the command runs, so that Ctrl-C would end the command but not the search.
int run_in_shell(const std::string& line) {
  std::string shell = "sh", option = "-c", text = line;
  char* arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed = posix_spawn(&child, "/bin/sh", nullptr, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  if (failed) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

// Parses the last line that is not empty as a number.
double last_number(const fs::path& path, const std::string& command) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  char* end = last.data();
  const double number = std::strtod(last.c_str(), &end);
  if (end == last.data() || std::string_view(end).find_first_not_of(" \t\r") != last.npos)
    throw Error(fmt::format("the last line that `{}` prints must be a number, not '{}'", command,
                            printable(last)));
  return number;
}

BisectVerdict verdict_of(int status, const std::string& command) {
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("the check `{}` {}; 0 is good, 125 skip, 1 to 124 bad", command, why));
  };
  if (status == -1) fail("could not be started");
  // If a signal ended the command, the exit code of the shell is 128 + the signal. That is a crash
  // of the check, not a verdict on the model.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  if (signal > 0 && signal <= SIGRTMAX) {
    fail(fmt::format("was ended by signal {}", signal));
  }
  const int code = WEXITSTATUS(status);
  if (code == 127) fail("was not found (exit code 127)");
  if (code > 125) fail(fmt::format("ended with exit code {}", code));
  return code == 0 ? BisectVerdict::good : code == 125 ? BisectVerdict::skip : BisectVerdict::bad;
}

}  // namespace

namespace {

// A shell command that takes the path of a model.
class Command {
 public:
  explicit Command(std::string text) : text_(std::move(text)) {
    if (text_.find("{}") == text_.npos)
      throw Error(fmt::format(
          "the command `{}` must contain {{}}, which becomes the path of the model", text_));
  }

  // The output is for people and goes to stderr: stdout has the result of refx.
  BisectVerdict operator()(const Model& form) const { return run(form, "1>&2"); }
  // The last line of the output is the score.
  Acceptance score(const Model& form, double at_least) const {
    const fs::path output = folder_->path() / "output";
    if (run(form, "1>" + shell_word(output.string())) != BisectVerdict::good) return {false, {}};
    const double number = last_number(output, text_);
    return {number >= at_least, number};
  }

 private:
  BisectVerdict run(const Model& form, const std::string& redirection) const {
    const std::string path = (folder_->path() / "model.pt2").string();
    save(form, path);
    return verdict_of(run_in_shell(fmt::format("( {}\n) {}", with_path(text_, path), redirection)),
                      text_);
  }

  std::string text_;
  std::shared_ptr<TemporaryFolder> folder_ = std::make_shared<TemporaryFolder>();
};

}  // namespace

BisectCheck check_command(std::string command) { return Command(std::move(command)); }

AcceptanceTest accept_by_command(std::string command, std::optional<double> at_least) {
  return [at_least, command = Command(std::move(command))](const Model& candidate) -> Acceptance {
    if (at_least) return command.score(candidate, *at_least);
    return {command(candidate) == BisectVerdict::good, {}};
  };
}

}  // namespace refx
