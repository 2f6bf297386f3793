// SPDX-License-Identifier: Apache-2.0

#include "refx/check.h"

#include <algorithm>

#include "kit.h"

namespace refx::testing {
namespace {

RuleCheck check_text(const std::string& text, int instances = 60) {
  return check_rule(parse_rule(text), {.instances = instances});
}

void expect_fails(const std::string& text, std::string_view problem) {
  const RuleCheck check = check_text(text, 150);
  EXPECT_EQ(check.verdict, RuleVerdict::fail) << to_text({check});
  EXPECT_NE(check.problem.find(problem), std::string::npos) << to_text({check});
  EXPECT_NE(check.instance.find("graph():"), std::string::npos);
}

void expect_never_matches(const std::string& text, std::string_view problem) {
  const RuleCheck check = check_text(text, 20);
  EXPECT_EQ(check.verdict, RuleVerdict::never_matched) << to_text({check});
  EXPECT_NE(check.problem.find(problem), std::string::npos) << check.problem;
  EXPECT_EQ(check.instance, "");
}

// ---- the contract of the rules that ship with refx ---------------------------------------------

class Shipped : public ::testing::TestWithParam<Rule> {};

INSTANTIATE_TEST_SUITE_P(Rules, Shipped, ::testing::ValuesIn(shipped_rules()),
                         [](const auto& info) {
                           std::string name = info.param.name();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Shipped, DoesWhatItSays) {
  const RuleCheck check = check_rule(GetParam(), {.instances = 30});
  EXPECT_TRUE(check.passed()) << to_text({check});
}

// ---- rules that are right ----------------------------------------------------------------------

TEST(Check, PassesARuleThatIsRight) {
  const RuleCheck check = check_text(R"(
rule twice  "x + x -> 2x"
before(x):
    return aten.add(x, x)
after:
    return aten.mul(x, 2)
where: floating(x)
)");
  EXPECT_TRUE(check.passed()) << to_text({check});
  ASSERT_EQ(check.forms.size(), 1u);
  EXPECT_GE(check.forms[0].tried, 60);
  EXPECT_GT(check.forms[0].found, 20);
  EXPECT_GT(check.forms[0].compared, 20);
  EXPECT_EQ(check.forms[0].found + check.forms[0].refused, check.forms[0].tried);
}

TEST(Check, TheSameSeedTriesTheSame) {
  const Rule rule = parse_rule(R"(
rule swish  "by hand"
before(x):
    return x * aten.sigmoid(x)
after:
    return aten.silu(x)
where: floating(x)
)");
  const std::string once = to_json({check_rule(rule, {.instances = 20, .seed = 3})});
  EXPECT_EQ(to_json({check_rule(rule, {.instances = 20, .seed = 3})}), once);
}

TEST(Check, AResultThatIsHandedOnIsTriedWhereItIsUsed) {
  const RuleCheck check = check_text(R"(
rule twice-turned  "two transpositions are none"
before(x):
    return aten.neg(aten.neg(x))
after:
    return x
)");
  EXPECT_TRUE(check.passed()) << to_text({check});
}

TEST(Check, RulesThatOnlyComeNearAreNotCompared) {
  const RuleCheck check = check_text(R"(
rule rough-gelu  "gelu -> silu"  approximate
before(x):
    return aten.gelu(x)
after:
    return aten.silu(x)
)");
  EXPECT_TRUE(check.passed()) << to_text({check});
  EXPECT_EQ(check.forms[0].compared, 0);
}

// ---- rules that are wrong ----------------------------------------------------------------------

TEST(Check, CatchesAWrongScale) {
  expect_fails(R"(
rule attention  "scaled the other way round"
before(q, k, v, c: factor):
    return aten.matmul(aten.softmax(aten.matmul(q, aten.transpose(k, -2, -1)) * c, -1), v)
after:
    return aten.scaled_dot_product_attention(q, k, v, scale=1/c)
where: rank(q) == 3; rank(k) == 3; rank(v) == 3; c > 0
)",
               "output");
}

TEST(Check, CatchesATermThatIsDropped) {
  expect_fails(R"(
rule linear  "without its bias"
before(x, W: weight, b: weight):
    return aten.linear(x, W, b)
after:
    return aten.matmul(x, aten.t(W))
where: rank(W) == 2
)",
               "output");
}

TEST(Check, CatchesASmallDifference) {
  expect_fails(R"(
rule norm  "with an eps of its own"
before(x, shape: any, w, b, eps: float):
    return aten.layer_norm(x, shape, w, b, eps)
after:
    return aten.layer_norm(x, shape, w, b, 1e-5)
)",
               "output");
}

TEST(Check, CatchesAnotherDtype) {
  // Where the graph records no types, nothing else notices.
  expect_fails(R"(
rule wide  "in another dtype"
before(x):
    return aten.relu(aten.neg(x))
after:
    return aten.to(aten.relu(aten.neg(x)), torch.float32)
)",
               "instead of");
}

TEST(Check, CatchesWhatIsWrongForBroadcastOperandsOnly) {
  expect_fails(R"(
rule masked  "a mask of any shape"
before(x, m):
    return aten.mul(aten.add(x, m), 2)
after:
    return aten.add(aten.mul(x, 2), aten.expand(aten.mul(aten.sum(m, [-1], True), 2), [-1, -1]))
where: rank(x) == 2; rank(m) == 2; size(m, 1) == 1 or size(x, 1) == size(m, 1)
)",
               "");
}

TEST(Check, CatchesWhatIsWrongForNegativeNumbersOnly) {
  expect_fails(R"(
rule root  "sqrt(x^2) -> x"
before(x):
    return aten.abs(x)
after:
    return aten.sqrt(aten.mul(x, aten.relu(x)))
where: floating(x)
)",
               "output");
}

TEST(Check, CatchesWhatIsWrongForThreeDimensionsOnly) {
  expect_fails(R"(
rule last  "the last dimension is not the second"
before(x):
    return aten.softmax(x, -1)
after:
    return aten.softmax(x, 1)
where: rank(x) >= 2; rank(x) <= 3; floating(x)
)",
               "output");
}

TEST(Check, CatchesAWrongDimension) {
  expect_fails(R"(
rule mean  "of another dimension"
before(x):
    return aten.mean(x, [-1])
after:
    return aten.mean(x, [0])
where: rank(x) == 2; size(x, 0) == size(x, 1)
)",
               "output");
}

TEST(Check, NamesASmallInstance) {
  const RuleCheck check = check_text(R"(
rule third  "wrong for all that is there"
before(x, c: float):
    return aten.mul(aten.neg(x), c)
after:
    return aten.mul(x, c)
where: floating(x)
)");
  ASSERT_EQ(check.verdict, RuleVerdict::fail);
  const Model model = parse(check.instance);
  std::int64_t elements = 0;
  for (NodeId id : model.graph())
    if (model.graph()[id].op == Opcode::placeholder) {
      elements += 1;
      for (const Dim& dim : model.graph()[id].type->sizes) EXPECT_EQ(dim.value, 1);
    }
  EXPECT_EQ(elements, 1) << check.instance;
}

// ---- rules that do nothing ---------------------------------------------------------------------

TEST(Check, SaysThatABeforeNeverRuns) {
  expect_never_matches(R"(
rule never  "no such dimension"
before(x):
    return aten.softmax(aten.sum(x), 7)
after:
    return aten.sum(x)
)",
                       "no instance of 'before' runs: aten.softmax");
}

TEST(Check, SaysThatAFormIsNeverFound) {
  expect_never_matches(R"(
rule other-form  "the second form has no such dimension"
before(x):
    return aten.mul(aten.neg(x), 2)
or:
    return aten.mul(aten.sum(x, 9), 2)
after:
    return aten.mul(x, -2)
where: floating(x)
)",
                       "form 2 of 'before'");
}

TEST(Check, SaysThatAWhereIsNeverTrue) {
  expect_never_matches(R"(
rule nowhere  "no tensor has these ranks"
before(x):
    return aten.mul(aten.neg(x), 2)
after:
    return aten.mul(x, -2)
where: rank(x) == 2; size(x, 0) > 1000
)",
                       "'where' was never true");
}

TEST(Check, CountsRefusalsInWords) {
  FormCheck form;
  form.reasons = {{"one reason", 2}, {"another", 1}};
  const std::string text = to_text({{.name = "r",
                                     .forms = {form},
                                     .verdict = RuleVerdict::never_matched,
                                     .problem = "none",
                                     .instance = ""}});
  EXPECT_TRUE(text.ends_with("\nr: none\n  refused 2 times: one reason\n  refused once: another\n"))
      << text;
}

}  // namespace
}  // namespace refx::testing
