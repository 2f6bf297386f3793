// Drives the built program (its path is in REFX_PROGRAM) as a user does.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace {

struct Result {
  int code = -1;
  std::string out, err;
};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("REFX_PROGRAM");
    if (!path || !std::filesystem::exists(path)) GTEST_SKIP() << "REFX_PROGRAM is not a file";
    program_ = path;
    folder_ = std::filesystem::temp_directory_path() / fmt::format("refx_program_{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  Result run(const std::string& arguments) const {
    const std::string command = fmt::format("'{}' {} >'{}' 2>'{}'", program_, arguments,
                                            (folder_ / "out").string(), (folder_ / "err").string());
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder_ / "out"),
            contents(folder_ / "err")};
  }

  // The output on a terminal.
  std::string run_on_terminal(const char* argument, const char* no_color) const {
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      setenv("TERM", "xterm", 1);
      no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
      execl(program_.c_str(), program_.c_str(), argument, nullptr);
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

  std::string program_;
  std::filesystem::path folder_;
};

// An array of flat objects of strings and booleans, read strictly.
class Json {
 public:
  using Object = std::map<std::string, std::string>;
  explicit Json(std::string text) : text_(std::move(text)) {}

  std::vector<Object> array() {
    std::vector<Object> objects;
    expect('[');
    if (peek() != ']') {
      do objects.push_back(object());
      while (accept(','));
    }
    expect(']');
    if (peek() != '\0') throw std::runtime_error("text after the array");
    return objects;
  }

 private:
  Object object() {
    Object object;
    expect('{');
    do {
      const std::string key = string();
      expect(':');
      object[key] = peek() == '"' ? string() : word();
    } while (accept(','));
    expect('}');
    return object;
  }
  std::string string() {
    expect('"');
    std::string value;
    for (; text_.at(at_) != '"'; ++at_) {
      if (text_[at_] == '\\' || static_cast<unsigned char>(text_[at_]) < 0x20)
        throw std::runtime_error("an escape that this test does not expect");
      value += text_[at_];
    }
    ++at_;
    return value;
  }
  std::string word() {
    for (const char* word : {"true", "false"})
      if (text_.compare(at_, std::string(word).size(), word) == 0) {
        at_ += std::string(word).size();
        return word;
      }
    throw std::runtime_error("neither true nor false");
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) throw std::runtime_error(fmt::format("no '{}' at {}", c, at_));
  }

  std::string text_;
  std::size_t at_ = 0;
};

TEST_F(Program, ListsTheTransformations) {
  const Result result = run("list");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, R"(transformation                     reversible  same results  what it does
merge-linears                      yes         yes           two or more linears with the same input -> one linear and slices of its output
fuse-bias-in-linear                yes         yes           linear(x, W, b) -> linear(pad(x, a column of ones), [W b])
change-true-div-to-mul-by-inverse  yes         yes           x / c, c a constant -> x * (1/c)
fuse-batch-norm-2d-in-conv-2d      yes         yes           batch norm after a convolution -> scaled weight, shifted bias
fuse-batch-norm-1d-in-linear       yes         yes           linear -> batch norm, and batch norm -> linear: one linear
)");
}

TEST_F(Program, ListsThemAsJson) {
  const Result result = run("list --json");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const auto objects = Json(result.out).array();
  ASSERT_EQ(objects.size(), 5u);
  EXPECT_EQ(objects[2], (Json::Object{{"name", "change-true-div-to-mul-by-inverse"},
                                      {"summary", "x / c, c a constant -> x * (1/c)"},
                                      {"reversible", "true"},
                                      {"preserves_computation", "true"}}));
}

TEST_F(Program, TheReadmeHasTheSameTransformations) {
  const std::string readme = contents("README.md");
  ASSERT_FALSE(readme.empty()) << "run the tests from the root of the checkout";
  std::string table = "| name | what it does |\n|---|---|\n";
  for (const auto& t : Json(run("list --json").out).array())
    table += fmt::format("| `{}` | {} |\n", t.at("name"), t.at("summary"));
  EXPECT_NE(readme.find(table), std::string::npos) << "the README should have\n" << table;
}

TEST_F(Program, DemoShowsRewritingAndExactReversal) {
  const Result result = run("demo");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const std::regex error_size(R"(\d\.\de[-+]\d\d)");
  const std::string shown = std::regex_replace(result.out, error_size, "E");
  EXPECT_EQ(shown, R"(A small vision transformer: 33 operators, 29 tensors.

1. Rewrite it
    1  merge-linears                      attention.{query,key,value}
    2  change-true-div-to-mul-by-inverse  attention.div
    3  fuse-batch-norm-2d-in-conv-2d      stem.{conv,norm}
    4  fuse-batch-norm-1d-in-linear       head.{hidden,norm}
    5  fuse-bias-in-linear                attention.query-key-value-merged
   aten.batch_norm.default       2 -> 0
   aten.constant_pad_nd.default  0 -> 1
   aten.div.Tensor               1 -> 0
   aten.linear.default           8 -> 6
   aten.mul.Tensor               0 -> 1
   aten.slice.Tensor             0 -> 3
   all operators                33 -> 33

2. The results are the same
   error against fp64: E before, E after; outputs are up to 0.6

3. Take back step 1, the first of all; the others stay
   step 5 was built on it: done again as 6, 7, 8
    2  change-true-div-to-mul-by-inverse  attention.div
    3  fuse-batch-norm-2d-in-conv-2d      stem.{conv,norm}
    4  fuse-batch-norm-1d-in-linear       head.{hidden,norm}
    6  fuse-bias-in-linear                attention.query
    7  fuse-bias-in-linear                attention.key
    8  fuse-bias-in-linear                attention.value
   error against fp64: E

4. Take back the rest
   6 steps reversed, 0 left
   graph, names, order:  identical
   tensors:              29 of 29 the same, bit for bit
   output:               identical, bit for bit
)");
  // The errors are those of fp32.
  const std::string& out = result.out;
  for (std::sregex_iterator it(out.begin(), out.end(), error_size), end; it != end; ++it) {
    EXPECT_LT(std::stod(it->str()), 2e-6);
    EXPECT_GT(std::stod(it->str()), 0);
  }
}

TEST_F(Program, HelpAndVersion) {
  for (const char* flag : {"--help", "-h"}) {
    const Result help = run(flag);
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.err, "");
    for (const char* part :
         {"Usage: refx", "list", "demo", "--version", "Examples:", "Exit codes:"})
      EXPECT_NE(help.out.find(part), std::string::npos) << part;
  }
  EXPECT_NE(run("list --help").out.find("--json"), std::string::npos);
  const Result version = run("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(std::regex_match(version.out,
                               std::regex(R"(refx \d+\.\d+\.\d+ \(LibTorch \d+\.\d+\..*\)\n)")))
      << version.out;
}

TEST_F(Program, WrongUsageGetsTheNearestNameAndExitCode2) {
  const std::map<std::string, std::string> cases = {
      {"lst", "refx: unknown command 'lst'; did you mean 'list'?\n"},
      {"frobnicate", "refx: unknown command 'frobnicate'; see `refx --help`\n"},
      {"--versoin", "refx: unknown option '--versoin'; did you mean '--version'?\n"},
      {"list --jsn", "refx: unknown option '--jsn'; did you mean '--json'?\n"},
      {"list --frobnicate", "refx: unknown option '--frobnicate'; see `refx list --help`\n"},
      {"demo model.pt2", "refx: 'demo' takes no 'model.pt2'; see `refx demo --help`\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(result.err, message);
  }
}

TEST_F(Program, NoCommandShowsTheHelpAsAMessage) {
  const Result result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, run("--help").out);
}

TEST_F(Program, SaysWhenItCannotWrite) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const int status = std::system(fmt::format("'{}' list >/dev/full 2>/dev/null", program_).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

TEST_F(Program, ColoursOnlyATerminalThatWantsThem) {
  EXPECT_NE(run_on_terminal("list", nullptr).find("\033["), std::string::npos);
  EXPECT_EQ(run_on_terminal("list", "1").find("\033["), std::string::npos);
  EXPECT_EQ(run("list").out.find('\033'), std::string::npos);
}

}  // namespace
