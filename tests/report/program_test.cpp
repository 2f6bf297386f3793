// SPDX-License-Identifier: Apache-2.0

// refx report, driven from outside.

#include "cli/program.h"

#include "report/page.h"

namespace refx::testing {
namespace {

class ReportProgram : public ProgramOnFiles {
 protected:
  void SetUp() override {
    ProgramOnFiles::SetUp();
    if (page_template().empty()) GTEST_SKIP() << "built without Node.js";
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
  }
};

TEST_F(ReportProgram, WritesAPageAndSaysSo) {
  ASSERT_EQ(run("apply small.pt2 merge-linears -q -o fast.pt2").code, 0);
  const Result result = run("report fast.pt2 -o page.html --no-bench --title 'My model'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(has(result.err, "wrote page.html (")) << result.err;
  const std::string page = contents(folder_ / "work" / "page.html");
  EXPECT_TRUE(has(page, "<title>My model</title>"));
  EXPECT_TRUE(has(page, "\"passed\": true"));
  EXPECT_TRUE(has(page, "Not measured, as requested."));
  EXPECT_TRUE(has(page, "attention.{query,key,value}"));
}

TEST_F(ReportProgram, WritesAPageAboutAModelThatCannotBeRun) {
  ASSERT_EQ(run("apply unknown.pt2 merge-linears -q -o fast.pt2").code, 0);
  const Result result = run("report fast.pt2 -o page.html");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.err, "no verify: ")) << result.err;
  EXPECT_TRUE(has(contents(folder_ / "work" / "page.html"), "\"missing\":"));
}

TEST_F(ReportProgram, HasNothingToCompareWithoutSteps) {
  const Result result = run("report plain.pt2 -o page.html");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(contents(folder_ / "work" / "page.html"), "The model has no steps"));
}

TEST_F(ReportProgram, NeedsAFileOfItsOwn) {
  expect_error("report small.pt2", "'report' needs an output file: -o OUT.html");
  expect_error("report small.pt2 -o small.pt2",
               "-o small.pt2 is the model; give the page another file name");
}

TEST_F(ReportProgram, RefusesInputsThatAreWrong) {
  const Result result = run("report small.pt2 -o page.html --inputs missing.pt");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "work" / "page.html"));
}

}  // namespace
}  // namespace refx::testing
