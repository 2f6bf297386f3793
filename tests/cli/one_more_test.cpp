// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <filesystem>

#include "cli/program.h"
#include "refx/registry.h"

namespace refx::testing {
namespace {

// The transformation of tests/one_more.cpp, which only that file names. The CTest
// one_more_transformation runs these, and with them the other tests of the program.
class OneMore : public ProgramOnFiles {
 protected:
  void SetUp() override {
    if (!std::getenv("REFX_ONE_MORE")) GTEST_SKIP() << "REFX_ONE_MORE is not set";
    ProgramOnFiles::SetUp();
  }
  std::string contents_of(const char* name) const { return contents(folder_ / "work" / name); }
};

TEST_F(OneMore, IsFoundByNameAndWithAll) {
  EXPECT_EQ(find_transformation("spell-out-softmax").name(), "spell-out-softmax");
  EXPECT_EQ(find_transformations({"all"}).back()->name(), "spell-out-softmax");
}

TEST_F(OneMore, IsListedOfferedAndSuggested) {
  EXPECT_NE(run("list").out.find("\nspell-out-softmax "), std::string::npos);
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_NE(run(std::string("completion ") + shell).out.find("spell-out-softmax"),
              std::string::npos)
        << shell;
  expect_error("apply small.pt2 spell-out-softmx -o x.pt2",
               "there is no transformation 'spell-out-softmx'; did you mean 'spell-out-softmax'?");
}

TEST_F(OneMore, IsAppliedVerifiedAndReversed) {
  EXPECT_NE(run("inspect small.pt2").out.find("\n  spell-out-softmax "), std::string::npos);
  run("apply small.pt2 merge-linears change-true-div-to-mul-by-inverse spell-out-softmax -o "
      "fast.pt2");
  const std::string log = run("log fast.pt2").out;
  EXPECT_TRUE(log.ends_with("spell-out-softmax                  softmax\n")) << log;
  EXPECT_EQ(run("verify fast.pt2").code, 0);
  EXPECT_EQ(run("reverse fast.pt2 --all -o back.pt2").code, 0);
  EXPECT_TRUE(contents_of("back.pt2") == contents_of("small.pt2"));
}

TEST_F(OneMore, IsOnTheGeneratedPages) {
  const std::filesystem::path work = folder_ / "work";
  for (const char* file : {"scripts/goldens.py", "docs/rules.md", "README.md"}) {
    std::filesystem::create_directories((work / file).parent_path());
    std::filesystem::copy_file(file, work / file);
  }
  const Result written = shell("python3 scripts/goldens.py \"$refx\"");
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_NE(contents_of("docs/transformations.md").find("\n## spell-out-softmax\n"),
            std::string::npos);
  EXPECT_NE(contents_of("tests/goldens/list.txt").find("\nspell-out-softmax "), std::string::npos);
}

}  // namespace
}  // namespace refx::testing
