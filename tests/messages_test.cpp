// SPDX-License-Identifier: Apache-2.0

// The library does not speak of the program's flags and commands: Python and C++ have none. What
// would help is a Hint, which each face says in its own words.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

// The texts in a line of code, without what stands in a comment.
std::string literals(const std::string& line) {
  static const std::regex token(R"re("((?:[^"\\]|\\.)*)"|//.*)re");
  std::string all;
  for (std::sregex_iterator it(line.begin(), line.end(), token), end; it != end; ++it)
    all += it->str(1) + '\n';
  return all;
}

TEST(Messages, OfTheLibraryNameNoFlagsAndNoCommands) {
  ASSERT_TRUE(fs::exists("src")) << "run the tests from the root of the checkout";
  static const std::regex flag("(^|[^-])--[a-z]{2,}|`refx ");
  for (const auto& entry : fs::recursive_directory_iterator("src")) {
    const fs::path& file = entry.path();
    if (file.extension() != ".cpp" && file.extension() != ".h") continue;
    std::ifstream text(file);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      EXPECT_FALSE(std::regex_search(literals(line), flag))
          << file.string() << ":" << number << ": " << line;
    }
  }
}

}  // namespace
}  // namespace refx::testing
