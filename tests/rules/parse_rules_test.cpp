// SPDX-License-Identifier: Apache-2.0

// The language of rules: what is read, and what is said where it cannot be.

#include "kit.h"
#include "util/limits.h"

namespace refx::testing {
namespace {

std::string refusal(const std::string& text) {
  return error_of([&] { parse_rules(text); });
}

// A rule around the parts that a test is about.
std::string rule(const std::string& before, const std::string& after = "return aten.relu(x)",
                 const std::string& more = "") {
  return "rule r \"\"\nbefore(x):\n    " + before + "\nafter:\n    " + after + "\n" + more;
}
std::string condition(const std::string& text) {
  return rule("return aten.relu(aten.relu(x))", "return aten.relu(x)", "where: " + text);
}

#define EXPECT_SAYS(text, said) EXPECT_EQ(refusal(text), said)

// ---- what is read ------------------------------------------------------------------------------

TEST(ParseRules, NameSummaryAndWhetherResultsStay) {
  const auto rules = parse_rules(R"(
# a comment
rule one-2-three  "says what it does" approximate
before(x):
    return aten.relu(x)

after:
    return aten.relu6(x)
  # another
rule two
before(x): return aten.relu(x)
after: return aten.relu6(x)
)");
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].name(), "one-2-three");
  EXPECT_EQ(rules[0].summary(), "says what it does");
  EXPECT_FALSE(rules[0].preserves_computation());
  EXPECT_EQ(rules[1].name(), "two");
  EXPECT_EQ(rules[1].summary(), "");
  EXPECT_TRUE(rules[1].preserves_computation());
}

TEST(ParseRules, EveryKindEveryPart) {
  EXPECT_EQ(refusal(R"(
rule r "s"
before(x: tensor, W: weight, b: weight = None, c: factor = 1.0, f: float, n: int, t: bool = False, d: dtype = None, s: any):
    y = aten.linear(x, W, b); z = aten.softmax(aten.to(y, d), n)
    return aten.reshape(z * c + f, s)
or:
    return aten.add(aten.reshape(aten.linear(x, W, b) * c, s), aten.cumsum(x, n), alpha=f)
once:
    M = aten.cat([W, W], 0) * (c + 2 ** 3 // 2 % 7 - -1)
    e = either(b, 0.0) + W
after:
    return torch.nn.functional.linear(
        x,
        M * e,
        b)
where: rank(x) > 2 and not (size(x, -1) == 4 or dtype(x) != torch.float16); floating(x)
    near(c, sqrt(2) / 2); given(b); f <= lowest(x) ; fits(x, y)
    n >= 0; n < 3
)"),
            "no error");
}

TEST(ParseRules, EverySpellingOfAnOperator) {
  for (const char* call : {"aten.relu(x)", "aten.relu.default(x)", "torch.relu(x)",
                           "torch.nn.functional.relu(x)", "torch.Tensor.relu(x)", "operator.neg(x)",
                           "aten.softmax(x, dim=-1)", "aten.sum(x, [0, 1], True)"})
    EXPECT_EQ(refusal(rule(std::string("return ") + call)), "no error") << call;
}

TEST(ParseRules, LinesEndAsOnWindows) {
  EXPECT_EQ(refusal("rule r \"s\"\r\nbefore(x):\r\n    return aten.relu(aten.relu(x))\r\nafter:\r\n"
                    "    return aten.relu(x)\r\nwhere: rank(x) == 2\r\n"),
            "no error");
}

TEST(ParseRules, ShippedRulesAreRead) {
  for (const char* name : {"fuse-attention", "fuse-layer-norm", "merge-lora"})
    EXPECT_EQ(find_transformation(name).name(), name);
}

// ---- what is wrong with the whole --------------------------------------------------------------

TEST(ParseRules, NoRule) {
  EXPECT_SAYS("", "line 1, column 1: expected 'rule NAME', found no rule");
  EXPECT_SAYS("\n# only a comment\n\n", "line 1, column 1: expected 'rule NAME', found no rule");
  EXPECT_SAYS("graph():", "line 1, column 1: expected 'rule', found 'graph'");
  EXPECT_SAYS("rule", "line 1, column 5: expected the name of the rule, found the end of the text");
  EXPECT_SAYS("rule a-", "line 1, column 8: expected a letter, found the end of the text");
  EXPECT_SAYS("rule a\n", "line 2, column 1: expected 'before(…):', found the end of the text");
  EXPECT_SAYS("rule a b\n", "line 1, column 8: expected the end of the line, found 'b'");
  EXPECT_EQ(error_of([] {
              parse_rule(rule("return aten.relu(x)") + "rule s\n" +
                         rule("return aten.relu(x)").substr(10));
            }),
            "expected one rule, found 2");
}

TEST(ParseRules, MissingParts) {
  EXPECT_SAYS("rule r\nafter:\n    return x\n",
              "line 2, column 1: expected 'before(…):', found 'after'");
  EXPECT_SAYS("rule r\nbefore(x):\n    return aten.relu(x)\n",
              "line 1, column 1: rule 'r' has no 'after'");
  EXPECT_SAYS("rule r\nbefore(x):\nafter:\n    return x\n",
              "line 2, column 1: 'before' returns nothing");
  EXPECT_SAYS("rule r\nbefore(x):\n    return aten.relu(x)\nafter:\n    y = aten.relu(x)\n",
              "line 4, column 1: 'after' returns nothing");
  EXPECT_SAYS(rule("return aten.relu(x)", "return x", "where:\n"),
              "line 6, column 1: 'where' says nothing");
  EXPECT_SAYS("rule r\nbefore(W: weight):\n    return aten.relu(W)\nonce:\nafter:\n    return W\n",
              "line 4, column 1: 'once' computes nothing");
}

TEST(ParseRules, PartsInAnotherOrder) {
  EXPECT_SAYS(rule("return aten.relu(x)", "return x", "after:\n    return x\n"),
              "line 6, column 1: 'after' is there twice");
  EXPECT_SAYS(rule("return aten.relu(x)", "return x", "where: rank(x) == 1\nwhere: rank(x) == 1\n"),
              "line 7, column 1: 'where' is there twice");
  EXPECT_SAYS(
      "rule r\nbefore(W: weight):\n    return aten.relu(W)\nafter:\n    return W\n"
      "once:\n    M = aten.t(W)\n",
      "line 6, column 1: 'once' comes before 'after'");
  EXPECT_SAYS(rule("return aten.relu(x)", "return x", "before(x):\n    return aten.relu(x)\n"),
              "line 6, column 1: expected 'or:', 'once:', 'after:', 'where:' or the next 'rule', "
              "found 'before'");
  EXPECT_SAYS(rule("return aten.relu(x)") + rule("return aten.relu(x)"),
              "line 6, column 1: rule 'r' is there twice");
}

// ---- values ------------------------------------------------------------------------------------

TEST(ParseRules, UnknownNames) {
  EXPECT_SAYS(rule("return aten.relu(y)"),
              "line 3, column 22: there is no value 'y'; did you mean 'x'?");
  EXPECT_SAYS(rule("return aten.matmull(x, x)"),
              "line 3, column 12: there is no operator 'aten.matmull'; did you mean "
              "'aten.matmul'?");
  EXPECT_SAYS(rule("return relu(x)"),
              "line 3, column 12: there is no 'relu'; operators are written like aten.matmul");
  EXPECT_SAYS(condition("ramk(x) == 2"),
              "line 6, column 8: there is no 'ramk'; did you mean 'rank'?; operators are written "
              "like aten.matmul");
  EXPECT_SAYS("rule r\nbefore(x: wieght):\n",
              "line 2, column 11: there is no kind 'wieght'; did you mean 'weight'?");
  EXPECT_SAYS(rule("return aten.relu_(x)"),
              "line 3, column 12: 'aten.relu_' works in place; rules do not");
}

TEST(ParseRules, TheSameNameTwice) {
  EXPECT_SAYS("rule r\nbefore(x, x):\n", "line 2, column 11: 'x' is there twice");
  EXPECT_SAYS(rule("x = aten.relu(x)\n    return x"), "line 3, column 5: 'x' has a value already");
  EXPECT_SAYS(rule("y = aten.relu(x)\n    y = aten.relu(y)\n    return y"),
              "line 4, column 5: 'y' has a value already");
  EXPECT_SAYS(rule("return aten.softmax(x, dim=1, dim=2)"),
              "line 3, column 35: 'dim' is given twice");
  // What is computed once is a name of its own, whatever 'once' itself can see.
  EXPECT_SAYS(
      "rule r\nbefore(x, W: weight):\n    return aten.linear(x, W)\nonce:\n"
      "    x = aten.neg(W)\nafter:\n    return aten.linear(x, W)\n",
      "line 5, column 5: 'x' has a value already");
}

TEST(ParseRules, ResultsThatAreNone) {
  const std::string alone =
      "'before' has to return what an operator gives: a variable alone is found everywhere";
  EXPECT_SAYS(rule("return x"), "line 3, column 12: " + alone);
  EXPECT_SAYS(rule("return 3"), "line 3, column 12: " + alone);
  EXPECT_SAYS(rule("y = x; return y"), "line 3, column 19: " + alone);
  EXPECT_SAYS(rule("return aten.relu(x)", "return 1.0"),
              "line 4, column 1: 'after' returns something that is not a tensor");
  EXPECT_SAYS(rule("return aten.relu(x)", "return rank(x)"),
              "line 4, column 1: 'after' returns something that is not a tensor");
  EXPECT_SAYS(rule("return aten.relu(x)", "return [x]"),
              "line 4, column 1: 'after' returns something that is not a tensor");
  EXPECT_SAYS(rule("return [aten.relu(x)]"), "line 3, column 12: " + alone);
}

TEST(ParseRules, CountsOfResults) {
  EXPECT_SAYS(rule("return aten.relu(x), aten.neg(x)"),
              "line 4, column 1: 'after' returns 1 values and 'before' 2");
  EXPECT_SAYS(
      "rule r\nbefore(x):\n    return aten.relu(x)\nor:\n    return aten.neg(x), "
      "aten.relu(x)\nafter:\n    return x\n",
      "line 4, column 1: the forms of 'before' return different numbers of values");
  EXPECT_SAYS(rule("y = aten.relu(x)\n    return y, y", "return x, x"),
              "line 4, column 12: 'before' returns the same value twice");
}

TEST(ParseRules, VariablesThatNobodyUses) {
  EXPECT_SAYS("rule r\nbefore(x, y):\n    return aten.relu(x)\nafter:\n    return x\n",
              "line 2, column 1: this 'before' does not use 'y', which has no default");
  EXPECT_EQ(refusal("rule r\nbefore(x, y = None):\n    return aten.relu(aten.relu(x))\nafter:\n"
                    "    return aten.relu(x)\n"),
            "no error");
  // Named, and yet in nothing that is returned: no match could say what it is.
  EXPECT_SAYS(
      "rule r\nbefore(x, y):\n    z = aten.neg(y)\n    return aten.relu(x)\nafter:\n"
      "    return aten.relu(y)\n",
      "line 2, column 1: this 'before' does not use 'y', which has no default");
}

// ---- expressions -------------------------------------------------------------------------------

TEST(ParseRules, Conditions) {
  EXPECT_SAYS(condition("x"), "line 6, column 8: a tensor is no condition");
  EXPECT_SAYS(condition("aten.relu(x) == 1"),
              "line 6, column 8: a condition cannot call operators");
  EXPECT_SAYS(condition("rank(x) = 2"), "line 6, column 16: expected '==', found '='");
  EXPECT_SAYS(condition("rank(x) =="),
              "line 6, column 18: expected a value, found the end of the text");
  EXPECT_SAYS(condition("rank(x) == 2 2"),
              "line 6, column 21: expected the end of the line, found '2'");
  EXPECT_SAYS(condition("rank() == 2"), "line 6, column 8: rank(…) takes 1 argument");
  EXPECT_SAYS(condition("rank(x, 1) == 2"), "line 6, column 8: rank(…) takes 1 argument");
  EXPECT_SAYS(condition("size(x) == 2"), "line 6, column 8: size(…) takes 2 arguments");
  EXPECT_SAYS(condition("rank(x=x) == 2"), "line 6, column 8: rank(…) takes no names");
}

TEST(ParseRules, ComputingWithLiterals) {
  EXPECT_NE(refusal(condition("1 / 0 == 1")).find("line 6, column "), std::string::npos);
  EXPECT_NE(refusal(condition("1 / 0 == 1")).find("it divides by zero"), std::string::npos);
  EXPECT_NE(refusal(condition("9223372036854775807 + 1 == 1")).find("a number is too large"),
            std::string::npos);
  EXPECT_EQ(refusal(condition("9223372036854775807 // -1 < 1; 5 % -1 == 0; 2 ** 1000 > 1")),
            "no error");
  EXPECT_NE(refusal(condition("sqrt(-1) == 1")).find("it takes the root of no number"),
            std::string::npos);
  EXPECT_SAYS(rule("return aten.mul(x, 99999999999999999999)"),
              "line 3, column 24: '99999999999999999999' does not fit into 64 bits");
  EXPECT_SAYS("rule r\nbefore(x, c: float):\n    return x * (c + 1)\nafter:\n    return x\n",
              "line 3, column 22: 'before' cannot compute with numbers that it matches: give the "
              "result a name of its own");
}

TEST(ParseRules, BrokenLines) {
  EXPECT_SAYS(rule("return aten.relu(x"), "line 4, column 1: expected ',' or ')', found 'after'");
  EXPECT_SAYS(rule("return aten.relu(x))"),
              "line 3, column 24: expected the end of the line, found ')'");
  EXPECT_SAYS(rule("return"), "line 3, column 11: expected a value, found the end of the line");
  EXPECT_SAYS(rule("return aten.gelu(x, approximate='tanh)"),
              "line 3, column 37: a string without its closing quote");
  EXPECT_SAYS("rule r \"no end\nbefore(x):",
              "line 1, column 8: a string without its closing quote");
  EXPECT_SAYS(rule("return aten.relu(x)\n    y = x"), "line 4, column 5: a line after 'return'");
  EXPECT_SAYS(rule("y aten.relu(x)"), "line 3, column 7: expected '=', found 'aten.relu'");
  EXPECT_SAYS(rule("return aten.softmax(dim=1, x)"),
              "line 3, column 32: an argument by position after one by name");
  EXPECT_SAYS(rule("return aten.softmax(x, dimm=1)"),
              "line 3, column 12: 'aten.softmax' does not take these arguments");
  EXPECT_SAYS(rule("return aten.relu(x, x, x)"),
              "line 3, column 12: 'aten.relu' does not take these arguments");
}

// ---- what is too much --------------------------------------------------------------------------

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ParseRules, TooDeep) {
  for (const char* open : {"(", "[", "-", "not ", "aten.relu("}) {
    const std::string said = refusal(rule("return " + repeated(open, 100'000)));
    EXPECT_EQ(said.substr(0, 15), "line 3, column ") << open;
    EXPECT_NE(said.find("200"), std::string::npos) << said;
  }
  const std::string powers = refusal(rule("return x" + repeated(" ** 2", 100'000)));
  EXPECT_NE(powers.find("more than 200 levels deep"), std::string::npos) << powers;
}

TEST(ParseRules, TooMuch) {
  const std::string long_sum = refusal(rule("return x" + repeated(" + x", 100'000)));
  EXPECT_NE(long_sum.find("more than 200 operators in one graph of a rule"), std::string::npos);
  std::string lines;
  for (int i = 0; i < 10'000; ++i) lines += "    y" + std::to_string(i) + " = aten.relu(x)\n";
  EXPECT_NE(refusal(rule(lines)).find("more than 200 operators"), std::string::npos);
  std::string variables;
  for (int i = 0; i < 10'000; ++i) variables += "x" + std::to_string(i) + ", ";
  EXPECT_NE(refusal("rule r\nbefore(" + variables + "):\n").find("more than 64 variables"),
            std::string::npos);
  EXPECT_NE(refusal("rule r\nbefore(x):\n    return aten.relu(x)\n" +
                    repeated("or:\n    return aten.neg(x)\n", 10'000))
                .find("more than 64 forms"),
            std::string::npos);
  EXPECT_EQ(refusal(std::string(limits::kRuleText + 1, ' ')),
            "a text of rules of more than 1048576 bytes");
}

// Thousands of rules and names are read in no time: a test that hangs fails.
TEST(ParseRules, ManyRules) {
  std::string all;
  for (int i = 0; i < 5'000; ++i)
    all += "rule r" + std::to_string(i) +
           "\nbefore(x): return aten.relu(x)\nafter: return aten.relu6(x)\n";
  EXPECT_EQ(parse_rules(all).size(), 5'000u);
}

TEST(ParseRules, Junk) {
  std::string junk;
  for (int i = 0; i < 4096; ++i) junk += static_cast<char>(i * 131 % 256);
  for (const std::string& text :
       {junk, "rule r" + junk, rule(junk), rule("return " + junk), condition(junk),
        std::string("rule \0x", 7), std::string("\xff\xfe")}) {
    const std::string said = refusal(text);
    EXPECT_EQ(said.substr(0, 5), "line ") << said;
    EXPECT_NE(said.find(", column "), std::string::npos) << said;
  }
}

TEST(ParseRules, FilesAreNamed) {
  EXPECT_NE(error_of([] { load_rules("/no/such/file.refx"); }).find("/no/such/file.refx"),
            std::string::npos);
  EXPECT_NE(error_of([] { load_rules("/"); }).find("/"), std::string::npos);
}

}  // namespace
}  // namespace refx::testing
