#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "refx/bisect.h"
#include "refx/error.h"
#include "refx/pt2.h"
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

// The status that waitpid() gives, or -1. Unlike system(), Ctrl-C reaches this process too.
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

Verdict verdict_of(int status, const std::string& command) {
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("the check `{}` {}; 0 is good, 125 skip, 1 to 124 bad", command, why));
  };
  if (status == -1) fail("could not be started");
  // A shell says by 128 and more which signal ended what it ran.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  if (signal > 0 && signal <= SIGRTMAX) {
    fail(fmt::format("was ended by signal {}", signal));
  }
  const int code = WEXITSTATUS(status);
  if (code == 127) fail("was not found (exit code 127)");
  if (code > 125) fail(fmt::format("ended with exit code {}", code));
  return code == 0 ? Verdict::good : code == 125 ? Verdict::skip : Verdict::bad;
}

}  // namespace

Check by_command(std::string command) {
  if (command.find("{}") == command.npos)
    throw Error(
        fmt::format("the check `{}` must say with {{}} where the model's path goes", command));
  return [command = std::move(command),
          folder = std::make_shared<TemporaryFolder>()](const Model& form) {
    const std::string path = (folder->path() / "model.pt2").string();
    save(form, path);
    // Its output is a message, not the result.
    const std::string line = fmt::format("( {}\n) 1>&2", with_path(command, path));
    return verdict_of(run_in_shell(line), command);
  };
}

}  // namespace refx
