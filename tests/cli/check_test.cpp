// SPDX-License-Identifier: Apache-2.0

#include <regex>

#include "cli/program.h"

namespace refx::testing {
namespace {

// A rule that is right, and one that is not.
constexpr const char* kRules = R"(cat > r.refx <<'END'
rule right  "x + x -> 2x"
before(x):
    return aten.add(x, x)
after:
    return aten.mul(x, 2)
rule wrong  "x + x -> 3x"
before(x):
    return aten.add(x, x)
after:
    return aten.mul(x, 3)
END
)";

TEST_F(Program, ChecksRules) {
  shell(kRules);
  const Result right = shell("$refx check r.refx --rule right --instances 20");
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_EQ(right.err, "");
  EXPECT_NE(right.out.find("pass"), std::string::npos);

  const Result both = shell("$refx check r.refx --instances 20");
  EXPECT_EQ(both.code, 1);
  EXPECT_NE(both.out.find("the smallest failing model:\n"), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("aten.add.Tensor"), std::string::npos);
  // The instance that fails is counted as such, not as one that was tried and not found.
  const std::regex failed("\n *wrong +1 +0 +0 +0 +1 +fail\n");
  EXPECT_TRUE(std::regex_search(both.out, failed)) << both.out;
  EXPECT_EQ(shell("$refx check r.refx --instances 20").out, both.out);

  const Result json = shell("$refx check r.refx --instances 20 --json");
  EXPECT_EQ(json.code, 1);
  check_json(json.out);
  EXPECT_NE(json.out.find(R"("rule": "wrong", "verdict": "fail")"), std::string::npos);
}

TEST_F(Program, ChecksTheRulesOfRefxItself) {
  const Result result = run("check --rule fuse-silu --instances 5");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(Program, RefusesToCheckMissingRules) {
  shell(kRules);
  expect_error("check r.refx --rule rihgt", "there is no rule 'rihgt'; did you mean 'right'?");
  shell("echo rule > bad.refx");
  EXPECT_EQ(run("check bad.refx").code, 2);
  EXPECT_EQ(run("check missing.refx").code, 2);
}

}  // namespace
}  // namespace refx::testing
