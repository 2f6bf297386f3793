// SPDX-License-Identifier: Apache-2.0

#include "report/page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kit.h"
#include "refx/report.h"
#include "report/models.h"

namespace refx {
namespace {

class ReportPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (page_template().empty()) GTEST_SKIP() << "built without Node.js";
  }
};

TEST_F(ReportPage, IsOneFileThatNeedsNothingElse) {
  const std::string page = report(testing::rewritten_encoder(1), {.title = "a <b> & c"});
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0u);
  EXPECT_NE(page.find("<title>a &lt;b> &amp; c</title>"), std::string::npos);
  for (const char* outside :
       {"src=\"", "%REFX_", "%STYLE%", "%SCRIPT%", "@import", "sourceMappingURL"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  // The only addresses in it are names, those of XML's namespaces.
  for (std::size_t at = page.find("://"); at != page.npos; at = page.find("://", at + 1))
    EXPECT_EQ(page.compare(at, 14, "://www.w3.org/"), 0) << page.substr(at - 8, 60);
}

TEST_F(ReportPage, TextsThatLookLikeItsMarksStayTexts) {
  const std::string page =
      report(testing::chain(1), {.title = "%REFX_DATA%", .not_verified = "%REFX_TITLE%"});
  EXPECT_NE(page.find("<title>%REFX_DATA%</title>"), std::string::npos);
  EXPECT_NE(page.find("\"missing\":\"%REFX_TITLE%\""), std::string::npos);
}

// For the test that opens pages in a browser, which says where they go.
TEST(ReportPages, AreWritten) {
  const char* folder = std::getenv("REFX_PAGES");
  if (!folder || page_template().empty()) GTEST_SKIP() << "no folder in REFX_PAGES";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const Model& model, const ReportOptions& options) {
    const auto path = std::filesystem::path(folder) / name;
    const std::string page = report(model, options);
    std::ofstream(path) << page;
    EXPECT_EQ(std::filesystem::file_size(path), page.size()) << name;
    EXPECT_NE(page.find("</html>"), std::string::npos) << name;
  };
  const Verification verification = testing::some_verification();
  const Benchmark benchmark = testing::some_benchmark();
  write("results.html", testing::rewritten_encoder(3),
        {.title = "An encoder", .verification = &verification, .benchmark = &benchmark});
  Verification unsure;
  unsure.sets = {{"the sample inputs",
                  {{.path = "output",
                    .type = "f32[2]",
                    .answer = VerifyVerdict::cannot_tell,
                    .problem = "too close"}}}};
  write("unsure.html", testing::rewritten_encoder(3), {.title = "Unsure", .verification = &unsure});
  const Model lossy = testing::lossy_encoder();
  const Sensitivity sensitive = sensitivity(lossy, {.reversed = true});
  const Tuning tuning = testing::some_tuning();
  write("lossy.html", lossy, {.title = "Lossy", .sensitivity = &sensitive, .tuning = &tuning});
  write("large.html", testing::rewritten_encoder(850), {});
  write("flat.html", testing::chain(20000), {});
  write("odd.html", testing::parse_filled(R"(
parameter "a</script><script>alert(1)</script>.<b>weight" : f32[4]
graph():
    %x : f32[4] [num_users=1] = placeholder[target=x]
    %w : f32[4] [num_users=1] = placeholder[target=w](state="a</script><script>alert(1)</script>.<b>weight")
    %"<img src=x onerror=alert(1)>" : f32[4] [num_users=1] = call_function[target=aten.add.Tensor](args = (%x, %w), kwargs = {})
    return (%"<img src=x onerror=alert(1)>",)
)"),
        {.title = "<script>alert(1)</script>"});
}

}  // namespace
}  // namespace refx
