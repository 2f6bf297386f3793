// SPDX-License-Identifier: Apache-2.0

#include "cli/program.h"

#include <fmt/format.h>
#include <pty.h>
#include <simdjson.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "util/shell_word.h"

namespace refx::testing {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string golden(const std::string& path) {
  const fs::path file = fs::path("tests/goldens") / path;
  EXPECT_TRUE(fs::exists(file)) << file << " is missing: run `make goldens`";
  return contents(file);
}

void Program::SetUp() {
  const char* path = std::getenv("REFX_PROGRAM");
  if (!path || !fs::exists(path)) GTEST_SKIP() << "REFX_PROGRAM is not a file";
  program_ = fs::absolute(path).string();
  fs::create_directory(folder_ / "work");
}

Program::Result Program::shell(const std::string& command) const {
  const fs::path script = folder_ / "script", out = folder_ / "out", err = folder_ / "err";
  std::ofstream(script) << "refx=" << shell_word(program_) << "\n" << command << "\n";
  const std::string line =
      fmt::format("cd {} && NO_COLOR=1 bash {} >{} 2>{}", shell_word((folder_ / "work").string()),
                  shell_word(script.string()), shell_word(out.string()), shell_word(err.string()));
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
}

Program::Result Program::run(const std::string& arguments) const {
  return shell("\"$refx\" " + arguments);
}

std::string Program::on_terminal(const std::string& arguments, const std::string& setting) const {
  const std::string line = fmt::format("cd {}; unset NO_COLOR; export TERM=xterm; {} exec {} {}",
                                       shell_word((folder_ / "work").string()), setting,
                                       shell_word(program_), arguments);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    execlp("bash", "bash", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(terminal);
  waitpid(child, nullptr, 0);
  return text;
}

void Program::expect_error(const std::string& arguments, const std::string& message) const {
  const std::string before = files();
  const Result result = run(arguments);
  EXPECT_EQ(result.code, 2) << arguments;
  EXPECT_EQ(result.out, "") << arguments;
  EXPECT_EQ(result.err, "refx: " + message + "\n") << arguments;
  EXPECT_TRUE(files() == before) << arguments;
}

std::vector<std::string> Program::commands() const {
  const std::string help = run("--help").out;
  const std::size_t begin = help.find("\nCommands:\n"), end = help.find("\n\n", begin);
  std::istringstream lines(help.substr(begin, end - begin));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

std::string Program::files() const {
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_ / "work")) paths.insert(entry.path());
  std::string all;
  for (const fs::path& path : paths) all += path.filename().string() + '\n' + contents(path) + '\n';
  return all;
}

void ProgramOnFiles::SetUp() {
  const char* models = std::getenv("REFX_MODELS");
  if (!models) GTEST_SKIP() << "REFX_MODELS is not set";
  ASSERT_TRUE(fs::exists(fs::path(models) / "small.pt2")) << "run tests/cli/make_models.py";
  Program::SetUp();
  if (!IsSkipped()) fs::copy(models, folder_ / "work");
}

void check_json(const std::string& text) {
  simdjson::dom::parser parser;
  const auto error = parser.parse(text).error();
  if (error) throw std::runtime_error(simdjson::error_message(error) + (": " + text));
}

}  // namespace refx::testing
