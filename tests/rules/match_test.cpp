// SPDX-License-Identifier: Apache-2.0

// What a rule finds, what it leaves alone, and what it says then. The rules are made up.

#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "refx/builder.h"
#include "rules/short_text.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

Rule rule(const std::string& variables, const std::string& before, const std::string& after,
          const std::string& more = "") {
  return parse_rule("rule r\nbefore(" + variables + "):\n    " + before + "\n" +
                    (more.starts_with("or:") || more.starts_with("once:") ? more : "") +
                    "after:\n    " + after + "\n" + (more.starts_with("where:") ? more : ""));
}

void expect_found(const Rule& rule, const std::string& text) {
  expect_applies(rule, parse_filled(long_text(text)));
}
void expect_not_found(const Rule& rule, const std::string& text) {
  expect_no_match(rule, long_text(text));
}
void expect_refusal(const Rule& rule, const std::string& text, const std::string& reason) {
  expect_refused(rule, parse_filled(long_text(text)), reason);
}
void refused_text(const Rule& rule, const std::string& text, const std::string& reason) {
  expect_refused(rule, parse_filled(text), reason);
}
std::size_t sites(const Rule& rule, const std::string& text) {
  return rule.find(parse_filled(long_text(text))).sites.size();
}

// relu(softmax(x, -1)), whose last operator is no other's.
Rule soft(const std::string& call = "aten.softmax(x, -1)", const std::string& variables = "x") {
  return rule(variables, "return aten.relu(" + call + ")", "return " + call);
}
std::string around(const std::string& call) {
  return "input x : f32[2, 3, 4]\nt : f32[2, 3, 4] = " + call +
         "\ny : f32[2, 3, 4] = aten.relu.default(%t)\nreturn y";
}

// ---- one meaning, many spellings ---------------------------------------------------------------

TEST(MatchRules, ArgumentsByNameByPositionAndByDefault) {
  for (const char* call :
       {"aten.softmax.int(%x, -1)", "aten.softmax.int(%x) {dim: -1}", "aten.softmax.int(%x, 2)",
        "aten.softmax.int(%x, -1, None)", "aten.softmax.int(%x, 2) {dtype: None}",
        "aten._softmax.default(%x, -1, False)", "aten.softmax.int(%x, -1, torch.float32)",
        "torch.nn.functional.softmax(%x, -1)", "torch.nn.functional.softmax(%x) {dim: 2}",
        "torch.softmax(%x, -1)", "method softmax(%x, -1)", "method softmax(%x) {dim: -1}",
        "torch.Tensor.softmax(%x, 2)"})
    EXPECT_EQ(sites(soft(), around(call)), 1u) << call;
  for (const char* call : {"aten.softmax.int(%x, 1)", "aten.softmax.int(%x, -2)",
                           "aten.softmax.int(%x, 0)", "aten.log_softmax.int(%x, -1)",
                           "aten._softmax.default(%x, 1, False)", "method softmax(%x, 1)"})
    expect_not_found(soft(), around(call));
  EXPECT_EQ(sites(soft("aten.softmax(x, dim=2)"), around("aten.softmax.int(%x, -1)")), 1u);
  EXPECT_EQ(sites(soft("torch.nn.functional.softmax(x, -1)"), around("aten.softmax.int(%x, -1)")),
            1u);
  EXPECT_EQ(sites(soft("torch.Tensor.softmax(x, -1)"), around("aten.softmax.int(%x, -1)")), 1u);
}

TEST(MatchRules, ADefaultThatIsWrittenOutOnOneSide) {
  const Rule r = rule("x", "return aten.relu(aten.leaky_relu(x, 0.01))", "return aten.relu(x)");
  EXPECT_EQ(sites(r, around("aten.leaky_relu.default(%x)")), 1u);
  EXPECT_EQ(sites(r, around("torch.nn.functional.leaky_relu(%x)")), 1u);
  EXPECT_EQ(sites(r, around("aten.leaky_relu.default(%x) {negative_slope: 0.01}")), 1u);
  expect_not_found(r, around("aten.leaky_relu.default(%x, 0.02)"));
  const Rule bare = rule("x", "return aten.relu(aten.leaky_relu(x))", "return aten.relu(x)");
  EXPECT_EQ(sites(bare, around("aten.leaky_relu.default(%x, 0.01)")), 1u);
  expect_not_found(bare, around("aten.leaky_relu.default(%x, 0.02)"));
}

TEST(MatchRules, ModulesFunctionsMethodsAndOperators) {
  const Rule r =
      rule("x", "return aten.gelu(aten.relu(x))", "return aten.relu(aten.gelu(aten.relu(x)))");
  for (const char* call : {"aten.relu.default(%x)", "torch.relu(%x)",
                           "torch.nn.functional.relu(%x)", "method relu(%x)", "module act(%x)"}) {
    const std::string text =
        "input x : f32[2, 4]\nmodule act : torch.nn.ReLU(inplace=False)\n"
        "t = " +
        std::string(call) + "\ny = torch.nn.functional.gelu(%t)\nreturn y";
    EXPECT_EQ(sites(r, text), 1u) << call;
  }
}

TEST(MatchRules, AModuleIsReplacedAndComesBack) {
  const Rule twice = parse_rule(R"(rule r
before(x, W: weight, b: weight = None):
    return aten.neg(aten.linear(x, W, b))
once:
    M = aten.neg(W)
    c = aten.neg(value_or(b, aten.sum(W, [1]) * 0))
after:
    return aten.linear(x, M, c)
)");
  for (const char* bias : {"True", "False"}) {
    std::string text = R"(
input x : f32[3, 4]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=)" +
                       std::string(bias) + R"()
l = module net.fc(%x)
y = torch.neg(%l)
return y)";
    text = long_text(text);
    text = "parameter net.fc.weight : f32[6, 4]\n" +
           std::string(bias == std::string("True") ? "parameter net.fc.bias : f32[6]\n" : "") +
           text;
    expect_applies(twice, parse_filled(text));
  }
}

TEST(MatchRules, SumsAndProductsInAnyOrder) {
  const Rule r = rule("x, y, c: float", "return aten.relu(x) * c + aten.neg(y)",
                      "return aten.neg(y) + aten.relu(x) * c");
  const std::string head =
      "input x : f32[2, 4]\ninput y : f32[2, 4]\na : f32[2, 4] = aten.relu.default(%x)\n"
      "b : f32[2, 4] = aten.neg.default(%y)\n";
  for (const char* product : {"aten.mul.Tensor(%a, 3)", "aten.mul.Scalar(%a, 3.0)",
                              "operator.mul(3, %a)", "torch.mul(%a, 3)"})
    for (const char* sum : {"aten.add.Tensor(%m, %b)", "aten.add.Tensor(%b, %m)"})
      EXPECT_EQ(
          sites(r, head + "m : f32[2, 4] = " + product + "\ns : f32[2, 4] = " + sum + "\nreturn s"),
          1u)
          << product << sum;
  expect_not_found(r, head +
                          "m : f32[2, 4] = aten.mul.Tensor(%a, 3)\n"
                          "s : f32[2, 4] = aten.sub.Tensor(%m, %b)\nreturn s");
}

// x + 2 * y is no y + 2 * x.
TEST(MatchRules, ASumWithAlphaHasAnOrder) {
  const Rule r =
      rule("x, y", "return aten.add(aten.relu(x), y, alpha=2)", "return aten.relu(x) + y * 2");
  const std::string head =
      "input x : f32[2, 4]\ninput y : f32[2, 4]\n"
      "a : f32[2, 4] = aten.relu.default(%x)\ns : f32[2, 4] = ";
  expect_found(r, head + "aten.add.Tensor(%a, %y) {alpha: 2}\nreturn s");
  expect_not_found(r, head + "aten.add.Tensor(%y, %a) {alpha: 2}\nreturn s");
  expect_not_found(r, head + "aten.add.Tensor(%a, %y)\nreturn s");
  const Rule plain = rule("x, y", "return aten.relu(x) + y", "return y + aten.relu(x)");
  expect_not_found(plain, head + "aten.add.Tensor(%a, %y) {alpha: 2}\nreturn s");
}

TEST(MatchRules, AFactorIsAlsoADivisor) {
  const std::string head =
      "input x : f32[2, 4]\na : f32[2, 4] = aten.relu.default(%x)\ny : f32[2, 4] = ";
  const Rule factor =
      rule("x, c: factor", "return aten.relu(x) * c", "return aten.mul(aten.relu(x), c)");
  const Rule number =
      rule("x, c: float", "return aten.relu(x) * c", "return aten.mul(aten.relu(x), c)");
  const Rule divided =
      rule("x, c: float", "return aten.relu(x) / c", "return aten.relu(x) * (1 / c)");
  EXPECT_EQ(sites(factor, head + "aten.div.Tensor(%a, 8)\nreturn y"), 1u);
  EXPECT_EQ(sites(factor, head + "operator.truediv(%a, 8)\nreturn y"), 1u);
  EXPECT_EQ(sites(factor, head + "aten.mul.Tensor(%a, 8)\nreturn y"), 1u);
  expect_not_found(factor, head + "aten.div.Tensor(%a, 0)\nreturn y");
  expect_not_found(factor, head + "aten.div.Tensor_mode(%a, 8) {rounding_mode: 'floor'}\nreturn y");
  expect_not_found(number, head + "aten.div.Tensor(%a, 8)\nreturn y");
  expect_not_found(divided, head + "aten.mul.Tensor(%a, 8)\nreturn y");
  expect_not_found(factor, head + "operator.truediv(8, %a)\nreturn y");
  expect_rewritten(divided, long_text(head + "aten.div.Tensor(%a, 8)\nreturn y"),
                   rewritten_text("r", R"(
input x : f32[2, 4]
relu : f32[2, 4] = aten.relu.default(%x)
y : f32[2, 4] = aten.mul.Tensor(%relu, 0.125)
return y)"));
  expect_refusal(divided, head + "aten.div.Tensor(%a, 0)\nreturn y", "it divides by zero");
}

TEST(MatchRules, ALiteralOneUlpApartIsAnother) {
  const double half = 0.7071067811865476, next = std::nextafter(half, 1.0);
  const Rule r = rule("x", fmt::format("return aten.relu(x * {})", half), "return aten.relu(x)",
                      "where: rank(x) == 0");
  const Rule variable = rule("x, c: float", "return aten.relu(x * c)", "return aten.relu(x)",
                             fmt::format("where: c == {}", half));
  const Rule close = rule("x, c: float", "return aten.relu(x * c)", "return aten.relu(x)",
                          fmt::format("where: near(c, {}); rank(x) == 0", half));
  auto text = [&](double by) { return around(fmt::format("aten.mul.Tensor(%x, {:.17g})", by)); };
  expect_refusal(r, text(half), "rank(x) == 0 does not hold");
  expect_not_found(r, text(next));
  expect_refusal(variable, text(next), "c == 0.7071067811865476 does not hold");
  expect_refusal(close, text(next), "rank(x) == 0 does not hold");
  expect_refusal(close, text(half + 1e-3), "near(c, 0.7071067811865476) does not hold");
}

TEST(MatchRules, TransposesInEverySpelling) {
  const Rule r = rule("x", "return aten.relu(aten.transpose(x, -2, -1))",
                      "return aten.transpose(aten.relu(x), -2, -1)");
  auto text = [](const std::string& call) {
    return "input x : f32[2, 3, 4]\nt : f32[2, 4, 3] = " + call +
           "\ny : f32[2, 4, 3] = aten.relu.default(%t)\nreturn y";
  };
  for (const char* call :
       {"aten.transpose.int(%x, 1, 2)", "aten.transpose.int(%x, -1, 1)", "aten.mT.default(%x)",
        "aten.permute.default(%x, [0, 2, 1])", "aten.permute.default(%x, [-3, -1, -2])",
        "torch.transpose(%x, 2, 1)", "method transpose(%x, -2, -1)",
        "method permute(%x, [0, 2, 1])", "aten.swapaxes.default(%x, 1, 2)",
        "aten.swapdims.default(%x, 2, 1)", "aten.adjoint.default(%x)"})
    EXPECT_EQ(sites(r, text(call)), 1u) << call;
  // All of these have the sizes of what is looked for.
  auto square = [](const std::string& type, const std::string& call) {
    return "input x : " + type + "\nt : " + type + " = " + call + "\ny : " + type +
           " = aten.relu.default(%t)\nreturn y";
  };
  expect_not_found(r, square("f32[3, 3, 3]", "aten.numpy_T.default(%x)"));
  expect_not_found(r, square("f32[3, 3, 3]", "aten.permute.default(%x, [2, 0, 1])"));
  expect_not_found(r, square("f32[3, 3, 3]", "aten.transpose.int(%x, 0, 1)"));
  expect_not_found(r, square("f32[4]", "aten.t.default(%x)"));
  const Rule back = rule("x", "return aten.neg(aten.transpose(x, -2, -1))",
                         "return aten.transpose(aten.neg(x), -2, -1)");
  expect_not_found(back,
                   "input x : c64[3, 3]\nt : c64[3, 3] = aten.adjoint.default(%x)\n"
                   "y : c64[3, 3] = aten.neg.default(%t)\nreturn y");
}

TEST(MatchRules, ProductsInEverySpelling) {
  const Rule r = rule("x, y", "return aten.relu(aten.matmul(x, y))",
                      "return aten.relu(aten.matmul(x, y) * 1)", "where: rank(x) == 7");
  auto found = [&](const std::string& call, const std::string& batch) {
    const std::string text = "input x : f32[" + batch + "3, 4]\ninput y : f32[" + batch +
                             "4, 3]\nt : f32[" + batch + "3, 3] = " + call + "\nz : f32[" + batch +
                             "3, 3] = aten.relu.default(%t)\nreturn z";
    return r.find(parse_filled(long_text(text))).refusals.size();
  };
  for (const char* call : {"aten.mm.default(%x, %y)", "aten.matmul.default(%x, %y)",
                           "operator.matmul(%x, %y)", "torch.matmul(%x, %y)"})
    EXPECT_EQ(found(call, ""), 1u) << call;
  EXPECT_EQ(found("aten.bmm.default(%x, %y)", "2, "), 1u);
  EXPECT_EQ(found("method bmm(%x, %y)", "2, "), 1u);
}

// ---- no-ops ------------------------------------------------------------------------------------

TEST(MatchRules, NoOpsDoNotHide) {
  const Rule r = soft("aten.sigmoid(x)");
  for (const char* call :
       {"aten.dropout.default(%n, 0.5, False)", "aten.dropout.default(%n, 0.0, True)",
        "aten.contiguous.default(%n)", "aten.clone.default(%n)", "aten.alias.default(%n)",
        "aten.to.dtype(%n, torch.float32)", "aten._to_copy.default(%n) {dtype: torch.float32}",
        "aten.expand.default(%n, [2, 3, 4])", "aten.expand.default(%n, [-1, -1, -1])",
        "aten.slice.Tensor(%n, 1, 0, 9223372036854775807)", "aten.mul.Tensor(%n, 1)",
        "aten.view.default(%n, [2, 3, 4])", "aten.div.Tensor(%n, 1.0)"}) {
    const std::string text =
        "input x : f32[2, 3, 4]\nn : f32[2, 3, 4] = aten.sigmoid.default(%x)\n"
        "t : f32[2, 3, 4] = " +
        std::string(call) + "\ny : f32[2, 3, 4] = aten.relu.default(%t)\nreturn y";
    expect_rewritten(r, long_text(text), rewritten_text("r", R"(
input x : f32[2, 3, 4]
y : f32[2, 3, 4] = aten.sigmoid.default(%x)
return y)"));
  }
  for (const char* call :
       {"aten.dropout.default(%n, 0.5, True)", "aten.slice.Tensor(%n, 1, 1, 9223372036854775807)",
        "aten.mul.Tensor(%n, 2)", "aten.flip.default(%n, [0])", "aten.transpose.int(%n, 0, 1)"}) {
    const std::string text =
        "input x : f32[3, 3, 3]\nn = aten.sigmoid.default(%x)\nt = " + std::string(call) +
        "\ny = aten.relu.default(%t)\nreturn y";
    expect_not_found(r, text);
  }
}

TEST(MatchRules, NoOpsDoNotHideAValueThatIsUsedTwice) {
  const Rule r =
      rule("x", "h = aten.neg(x)\n    return h * aten.sigmoid(h)", "return aten.silu(aten.neg(x))");
  const std::string head = "input x : f32[2, 4]\nn : f32[2, 4] = aten.neg.default(%x)\n";
  expect_found(r, head + R"(
s : f32[2, 4] = aten.sigmoid.default(%n)
y : f32[2, 4] = aten.mul.Tensor(%n, %s)
return y)");
  expect_found(r, head + R"(
c : f32[2, 4] = aten.contiguous.default(%n)
s : f32[2, 4] = aten.sigmoid.default(%c)
y : f32[2, 4] = aten.mul.Tensor(%n, %s)
return y)");
  expect_found(r, head + R"(
s : f32[2, 4] = aten.sigmoid.default(%n)
c : f32[2, 4] = aten.clone.default(%n)
y : f32[2, 4] = aten.mul.Tensor(%s, %c)
return y)");
}

TEST(MatchRules, ACastThatRoundsIsNotANoOp) {
  const Rule r = soft("aten.sigmoid(x)");
  expect_not_found(r, R"(
input x : f32[2, 4]
n : f32[2, 4] = aten.sigmoid.default(%x)
h : f16[2, 4] = aten.to.dtype(%n, torch.float16)
t : f32[2, 4] = aten.to.dtype(%h, torch.float32)
y : f32[2, 4] = aten.relu.default(%t)
return y)");
}

// ---- variables ---------------------------------------------------------------------------------

TEST(MatchRules, ARepeatedVariableIsOneValue) {
  const Rule r = rule("x", "return x * aten.sigmoid(x)", "return aten.silu(x)");
  const std::string head = "input x : f32[2, 4]\ninput z : f32[2, 4]\n";
  expect_found(r, head +
                      "s : f32[2, 4] = aten.sigmoid.default(%x)\n"
                      "y : f32[2, 4] = aten.mul.Tensor(%x, %s)\nreturn y");
  expect_found(r, head +
                      "c : f32[2, 4] = aten.clone.default(%x)\n"
                      "s : f32[2, 4] = aten.sigmoid.default(%x)\n"
                      "y : f32[2, 4] = aten.mul.Tensor(%s, %c)\nreturn y");
  expect_not_found(r, head +
                          "s : f32[2, 4] = aten.sigmoid.default(%x)\n"
                          "y : f32[2, 4] = aten.mul.Tensor(%z, %s)\nreturn y");
}

// The clone keeps what was there; the sigmoid sees what was written.
TEST(MatchRules, ARepeatedVariableWithAWriteBetween) {
  const Rule r = rule("x", "return x * aten.sigmoid(x)", "return aten.silu(x)");
  for (const char* product : {"aten.mul.Tensor(%c, %s)", "aten.mul.Tensor(%s, %c)"}) {
    const std::string text = long_text(R"(
input x : f32[2, 4]
z : f32[2, 4] = aten.neg.default(%x)
c : f32[2, 4] = aten.clone.default(%z)
w : f32[2, 4] = aten.add_.Tensor(%z, 1)
s : f32[2, 4] = aten.sigmoid.default(%z)
y : f32[2, 4] = )" + std::string(product) +
                                       "\nreturn y");
    expect_refused(r, parse_filled(text), "may be written in place");
  }
}

TEST(MatchRules, OptionalOperands) {
  const Rule s =
      rule("x, b = None, c: factor = 1.0", "return aten.relu(aten.relu(aten.neg(x) * c + b))",
           "return aten.relu(aten.neg(x) * c + b)");
  const std::string head =
      "input x : f32[2, 4]\ninput b : f32[4]\nn : f32[2, 4] = aten.neg.default(%x)\n";
  const std::string tail =
      "\nr : f32[2, 4] = aten.relu.default(%t)\ny : f32[2, 4] = aten.relu.default(%r)\nreturn y";
  expect_found(s, head + "t : f32[2, 4] = aten.alias.default(%n)" + tail);
  expect_found(s, head + "t : f32[2, 4] = aten.mul.Tensor(%n, 3)" + tail);
  expect_found(s, head + "t : f32[2, 4] = aten.add.Tensor(%b, %n)" + tail);
  expect_found(
      s, head + "m : f32[2, 4] = aten.div.Tensor(%n, 4)\nt : f32[2, 4] = aten.add.Tensor(%m, %b)" +
             tail);
  expect_not_found(
      s, head + "m : f32[2, 4] = aten.add.Tensor(%n, %b)\nt : f32[2, 4] = aten.mul.Tensor(%m, 3)" +
             tail);
}

// After whom nothing is left to do: the result is what the rest gives.
TEST(MatchRules, AnOptionalOperandOfTheResult) {
  const Rule r =
      rule("x, b = None", "return aten.relu(aten.relu(x)) + b", "return aten.relu(x) + b");
  const std::string head =
      "input x : f32[2, 4]\ninput b : f32[4]\nn : f32[2, 4] = aten.relu.default(%x)\n"
      "m : f32[2, 4] = aten.relu.default(%n)\n";
  expect_found(r, head + "y : f32[2, 4] = aten.add.Tensor(%m, %b)\nreturn y");
  expect_rewritten(r, long_text(head + "return m"), rewritten_text("r", R"(
input x : f32[2, 4]
input b : f32[4]
m : f32[2, 4] = aten.relu.default(%x)
return m)"));
}

TEST(MatchRules, AResultThatIsNothing) {
  const Rule r = rule("x, a = None", "return aten.relu(x) + a", "return a");
  expect_refusal(r, "input x : f32[2, 4]\nm : f32[2, 4] = aten.relu.default(%x)\nreturn m",
                 "the replacement has no value to return");
}

// What may be left out of a sum or a product is no operand of anything else.
TEST(MatchRules, OnlySumsAndProductsMayLackAnOperand) {
  const Rule product =
      rule("x, w = None", "return aten.matmul(aten.relu(x), w)", "return aten.relu(x)");
  const Rule chosen =
      rule("m, x, o = None", "return aten.where(aten.logical_not(m), aten.relu(x), o)",
           "return aten.relu(x)");
  const std::string text = "input x : f32[2, 4]\nm : f32[2, 4] = aten.relu.default(%x)\nreturn m";
  expect_not_found(product, text);
  expect_not_found(chosen,
                   "input m : b8[2, 4]\ny : b8[2, 4] = aten.logical_not.default(%m)\nreturn y");
  // Nor does a sum without a summand add one.
  const Rule one =
      rule("x, c: float = 1.0", "return aten.relu(x) + c", "return aten.sigmoid(x) + c");
  expect_not_found(one, text);
}

TEST(MatchRules, LiteralsOfEveryKind) {
  const Rule r =
      rule("x, d: int, k: bool, t: dtype", "return aten.relu(aten.sum(x, [d], k, dtype=t))",
           "return aten.relu(aten.sum(x, [d], k, dtype=t) * 1)",
           "where: d == -1; k; t == torch.float64");
  auto text = [](const std::string& call) {
    return "input x : f32[2, 3, 4]\nt = " + call + "\ny = aten.relu.default(%t)\nreturn y";
  };
  auto reason = [&](const std::string& call) {
    const Findings f = r.find(parse_filled(long_text(text(call))));
    return !f.refusals.empty() ? to_string(f.refusals[0].reason)
                               : std::string(f.sites.empty() ? "no match" : "site");
  };
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [-1], True) {dtype: torch.float64}"), "site");
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [1], True) {dtype: torch.float64}"),
            "d == -1 does not hold");
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [-1], False) {dtype: torch.float64}"),
            "k does not hold");
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [-1], True) {dtype: torch.float32}"),
            "t == torch.float64 does not hold");
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [-1], True)"), "no match");
  EXPECT_EQ(reason("aten.sum.dim_IntList(%x, [-1, 1], True) {dtype: torch.float64}"), "no match");
}

// ---- several results, several forms ------------------------------------------------------------

const char* const kTwo = R"(
input x : f32[2, 4]
n : f32[2, 4] = aten.neg.default(%x)
a : f32[2, 4] = aten.relu.default(%n)
b : f32[2, 4] = aten.sigmoid.default(%n)
y : f32[2, 4] = aten.mul.Tensor(%a, %b)
return y)";

TEST(MatchRules, SeveralResults) {
  const Rule r = rule("x", "n = aten.neg(x)\n    return aten.relu(n), aten.sigmoid(n)",
                      "return aten.relu(x * -1), aten.sigmoid(x * -1)");
  expect_found(r, kTwo);
  expect_not_found(r,
                   "input x : f32[2, 4]\nn : f32[2, 4] = aten.neg.default(%x)\n"
                   "a : f32[2, 4] = aten.relu.default(%n)\nreturn a");
  const Rule inner = rule("x", "n = aten.neg(x)\n    return aten.relu(n), n",
                          "m = x * -1\n    return aten.relu(m), m");
  expect_found(inner,
               "input x : f32[2, 4]\nn : f32[2, 4] = aten.neg.default(%x)\n"
               "a : f32[2, 4] = aten.relu.default(%n)\nreturn (n, a)");
  expect_refusal(r, R"(
input x : f32[2, 4]
n : f32[2, 4] = aten.neg.default(%x)
a : f32[2, 4] = aten.relu.default(%n)
b : f32[2, 4] = aten.sigmoid.default(%n)
return (a, b, n))",
                 "'n' is returned by the model");
}

TEST(MatchRules, SeveralResultsThatNeedEachOther) {
  const char* before = "n = aten.neg(x)\n    return aten.relu(n), aten.sigmoid(n)";
  expect_found(rule("x", before,
                    "t = aten.sigmoid(aten.neg(x))\n    return aten.relu(aten.neg(x) + t * 0), t"),
               kTwo);
  expect_found(rule("x", before,
                    "t = aten.relu(aten.neg(x))\n    return t, aten.sigmoid(aten.neg(x) + t * 0)"),
               kTwo);
  expect_found(rule("x", "a = aten.relu(aten.neg(x))\n    return a, aten.relu(a)",
                    "t = aten.relu(x * -1)\n    return t, t"),
               with(kTwo, {{"aten.sigmoid.default(%n)", "aten.relu.default(%a)"}}));
}

TEST(MatchRules, FormsAreTriedInOrder) {
  const Rule s = parse_rule(
      "rule r\nbefore(x, c: float = -1.0):\n    return aten.relu(aten.neg(x))\n"
      "or:\n    return aten.relu(x * c)\nafter:\n    return aten.relu(aten.mul(x, c))\n"
      "where: c == -1\n");
  expect_found(s, around("aten.neg.default(%x)"));
  expect_refusal(s, around("aten.mul.Tensor(%x, 2)"), "c == -1 does not hold");
}

TEST(MatchRules, AChainThatOverlapsItself) {
  const Rule r = rule("x", "return aten.relu(aten.relu(x))", "return aten.relu(x)");
  for (int n = 1; n <= 6; ++n) {
    std::string text = "input x : f32[2, 4]\nr0 : f32[2, 4] = aten.relu.default(%x)\n", last = "r0";
    for (int i = 1; i < n; ++i) {
      const std::string next = fmt::format("r{}", i);
      text += fmt::format("{} : f32[2, 4] = aten.relu.default(%{})\n", next, last);
      last = next;
    }
    Model model = parse_filled(long_text(text + "return " + last));
    const std::string before = snapshot(model);
    r(model);
    EXPECT_EQ(r.find(model).sites.size(), 0u);
    std::size_t calls = 0;
    for (NodeId id : model.graph()) calls += model.graph()[id].target == "aten.relu.default";
    EXPECT_EQ(calls, 1u) << n;
    r(model, Reverse::yes);
    EXPECT_EQ(snapshot(model), before) << n;
  }
}

// A rule that finds its own result again does not run for ever.
TEST(MatchRules, ARuleThatFeedsItself) {
  const Rule r = rule("x", "return aten.relu(x)", "return aten.relu(aten.relu(x))");
  Model model = parse_filled(
      long_text("input x : f32[2, 4]\nm : f32[2, 4] = aten.relu.default(%x)\nreturn m"));
  const std::string before = snapshot(model);
  r(model);
  validate(model);
  r(model, Reverse::yes);
  EXPECT_EQ(snapshot(model), before);
}

// ---- what others see ---------------------------------------------------------------------------

TEST(MatchRules, AnInnerValueThatIsUsedElsewhere) {
  const Rule r = soft("aten.sigmoid(x)");
  const std::string head =
      "input x : f32[2, 4]\nn : f32[2, 4] = aten.sigmoid.default(%x)\n"
      "y : f32[2, 4] = aten.relu.default(%n)\n";
  expect_refusal(r, head + "o : f32[2, 4] = aten.exp.default(%n)\nreturn (y, o)",
                 "'n' is also used by 'o'");
  expect_refusal(r, head + "return (y, n)", "'n' is returned by the model");
  expect_refusal(r, head + "c : f32[2, 4] = aten.clone.default(%n)\nreturn (y, c)",
                 "'n' is also used by 'c'");
  expect_found(r, head + "return (y, y)");
}

TEST(MatchRules, AWriteBetween) {
  const Rule r = soft("aten.sigmoid(x)");
  const std::string head =
      "input z : f32[2, 4]\nx : f32[2, 4] = aten.exp.default(%z)\n"
      "n : f32[2, 4] = aten.sigmoid.default(%x)\n";
  expect_refusal(r,
                 head +
                     "w : f32[2, 4] = aten.add_.Tensor(%x, 1)\n"
                     "y : f32[2, 4] = aten.relu.default(%n)\nreturn (y, w)",
                 "'x' may be written in place");
  expect_refusal(r,
                 head +
                     "w : f32[2, 4] = aten.add_.Tensor(%n, 1)\n"
                     "y : f32[2, 4] = aten.relu.default(%n)\nreturn (y, w)",
                 "'n' is also used by 'w'");
  // What is written is a tensor that was made for the result, before and after.
  expect_found(r, head +
                      "y : f32[2, 4] = aten.relu.default(%n)\n"
                      "w : f32[2, 4] = aten.add_.Tensor(%y, 1)\nreturn (y, w)");
  expect_found(r,
               "input z : f32[2, 4]\nx : f32[2, 4] = aten.exp.default(%z)\n"
               "w : f32[2, 4] = aten.add_.Tensor(%x, 1)\nn : f32[2, 4] = aten.sigmoid.default(%w)\n"
               "y : f32[2, 4] = aten.relu.default(%n)\nreturn y");
}

TEST(MatchRules, OperatorsInPlace) {
  const Rule r = soft("aten.sigmoid(x)");
  expect_refusal(r,
                 "input x : f32[2, 4]\nn : f32[2, 4] = aten.sigmoid_.default(%x)\n"
                 "y : f32[2, 4] = aten.relu.default(%n)\nreturn y",
                 "'n' is an in-place operation");
  // What it writes was made here, and nobody else sees it.
  expect_found(r,
               "input x : f32[2, 4]\nn : f32[2, 4] = aten.sigmoid.default(%x)\n"
               "y : f32[2, 4] = aten.relu_.default(%n)\nreturn y");
}

TEST(MatchRules, BordersOfModulesThatAreCalledAsSuch) {
  const Rule r = soft("aten.sigmoid(x)");
  Model model = parse_filled(R"(
graph():
    %x : f32[2, 4] = placeholder[target=x]
    %n : f32[2, 4] = call_function[target=aten.sigmoid.default](args = (%x,))  # meta {nn_module_stack: "a,net.a,A"}
    %y : f32[2, 4] = call_function[target=aten.relu.default](args = (%n,))  # meta {nn_module_stack: "b,net.b,B"}
    return y
)");
  EXPECT_EQ(r.find(model).sites.size(), 1u);
  Editor editor(model);
  editor.commit_as_origin(nullptr, {}, {{"net.a"}});
  expect_refused(r, model,
                 "the match spans 'net.a', a module whose call boundary must be preserved");
}

TEST(MatchRules, AResultThatIsHandedOn) {
  const Rule r = rule("x", "return aten.neg(aten.neg(x))", "return x");
  const std::string head =
      "input x : f32[2, 4]\na : f32[2, 4] = aten.neg.default(%x)\n"
      "b : f32[2, 4] = aten.neg.default(%a)\n";
  expect_found(r, head + "y : f32[2, 4] = aten.relu.default(%b)\nreturn y");
  expect_refusal(r, head + "return b", "'b' is returned by the model");
}

// ---- types -------------------------------------------------------------------------------------

TEST(MatchRules, TheResultKeepsItsType) {
  const std::string text =
      "input x : f16[2, 4]\nn : f16[2, 4] = aten.neg.default(%x)\n"
      "y : f16[2, 4] = aten.relu.default(%n)\nreturn y";
  expect_refusal(rule("x", "return aten.relu(aten.neg(x))", "return aten.to(x, torch.float32)"),
                 text, "its result would be Float instead of Half");
  expect_refusal(rule("x", "return aten.relu(aten.neg(x))", "return aten.sum(x, [0])"), text,
                 "its result would have different sizes");
  expect_refusal(rule("x", "return aten.relu(aten.neg(x))", "return aten.matmul(x, x)"), text,
                 "cannot infer the type of its result");
  expect_refusal(
      rule("x", "return aten.relu(aten.neg(x))", "return aten.unsqueeze(aten.relu(x), 0)"), text,
      "its result would have different sizes");
}

TEST(MatchRules, ConditionsThatAreFalseOrNotKnown) {
  auto when = [](const std::string& where) {
    return rule("x, b = None", "return aten.relu(aten.neg(x) + b)",
                "return aten.relu(aten.mul(x, -1) + b)", "where: " + where);
  };
  const std::string typed = around("aten.neg.default(%x)");
  const std::string untyped = "input x\nt = torch.neg(%x)\ny = torch.relu(%t)\nreturn y";
  EXPECT_EQ(sites(when("rank(x) == 3 and size(x, -1) == 4"), typed), 1u);
  EXPECT_EQ(sites(when("not given(b)"), untyped), 1u);
  expect_refusal(when("rank(x) == 2"), typed, "rank(x) == 2 does not hold");
  expect_refusal(when("rank(x) == 3"), untyped,
                 "rank(x) == 3 cannot be decided: its rank is not known (run shape propagation)");
  expect_refusal(when("size(x, 3) == 3"), typed,
                 "size(x, 3) == 3 cannot be decided: it has no such dimension");
  expect_refusal(when("size(x, 0) == 3"), untyped, "its size is not known");
  expect_refusal(when("floating(x)"), untyped,
                 "floating(x) cannot be decided: its dtype is not known");
  expect_refusal(when("rank(b) == 1"), typed,
                 "rank(b) == 1 cannot be decided: its rank is not known");
  // What decides alone needs no other.
  EXPECT_EQ(sites(when("not given(b) or rank(b) == 1"), typed), 1u);
  expect_refusal(when("given(b) and rank(b) == 1"), typed, "does not hold");
}

TEST(MatchRules, AValueThatHasTwoNames) {
  const Rule r = rule("x", "h = x\n    return aten.relu(aten.neg(h))", "return aten.relu(x * -1)",
                      "where: rank(h) == 3");
  EXPECT_EQ(sites(r, around("aten.neg.default(%x)")), 1u);
}

TEST(MatchRules, AReasonOfTheCaller) {
  Rule r = soft("aten.sigmoid(x)");
  r.set_check([](const RuleMatch& match) {
    EXPECT_EQ(match.variables.at(0).name, "x");
    return custom_reason("not today");
  });
  expect_refusal(r, around("aten.sigmoid.default(%x)"), "not today");
}

// ---- weights -----------------------------------------------------------------------------------

const Rule& scaled() {
  static const Rule r = parse_rule(R"(rule r
before(x, W: weight):
    return aten.neg(aten.linear(x, W))
once:
    M = aten.neg(W)
after:
    return aten.linear(x, M)
)");
  return r;
}

const char* const kLinear = R"(
parameter fc.weight : f32[6, 4]
input x : f32[3, 4]
l : f32[3, 6] = aten.linear.default(%x, %p_fc_weight)
y : f32[3, 6] = aten.neg.default(%l)
return y)";

TEST(MatchRules, WeightsAreComputedOnce) {
  expect_rewritten(scaled(), long_text(kLinear), rewritten_text("r", R"(
parameter fc.M : f32[6, 4]
input x : f32[3, 4]
y : f32[3, 6] = aten.linear.default(%x, %p_fc_M)
return y)"));
}

TEST(MatchRules, WeightsThatOthersNeed) {
  const std::string text = long_text(kLinear);
  refused_text(scaled(),
               with(text, {{"return y",
                            "%z : f32[6, 4] = call_function[target=aten.exp.default](args = "
                            "(%p_fc_weight,))\n    return (y, z)"}}),
               "fc.weight");
  refused_text(scaled(),
               with(text, {{"graph():", "parameter tied : f32[6, 4] shares=fc.weight\ngraph():"}}),
               "fc.weight");
  refused_text(scaled(),
               with(text, {{"graph():", "mutates fc.weight = output 0\ngraph():"},
                           {"return y",
                            "%z : f32[6, 4] = call_function[target=aten.exp.default](args = "
                            "(%x,))\n    return (z, y)"}}),
               "fc.weight");
  // One that is computed is no weight.
  expect_no_match(scaled(),
                  with(text, {{"%l :",
                               "%w : f32[6, 4] = call_function[target=aten.exp.default](args = "
                               "(%p_fc_weight,))\n    %l :"},
                              {"(%x, %p_fc_weight,)", "(%x, %w)"}}));
  // A write to it.
  refused_text(scaled(),
               with(text, {{"return y",
                            "%z : f32[6, 4] = call_function[target=aten.add_.Tensor](args = "
                            "(%p_fc_weight, 1))\n    return (y, z)"}}),
               "fc.weight");
}

TEST(MatchRules, WeightsThatCannotBeComputedWith) {
  Builder builder;
  const NodeId x = builder.input("x");
  const NodeId w =
      builder.constant("w", at::quantize_per_tensor(at::rand({6, 4}), 0.1, 0, at::kQInt8));
  const NodeId l = builder.call("aten.linear.default", {x, w});
  const Model model = builder.build(builder.call("aten.neg.default", {l}));
  const Findings findings = scaled().find(model);
  EXPECT_TRUE(findings.sites.empty());
  ASSERT_EQ(findings.refusals.size(), 1u);
  const std::string text = to_string(findings.refusals[0].reason);
  EXPECT_NE(text.find("quant"), std::string::npos) << text;
}

TEST(MatchRules, WeightsOfDifferentDtypes) {
  const Rule r = parse_rule(R"(rule r
before(x, W: weight, V: weight):
    return x * W * V
once:
    M = W * V
after:
    return x * M
)");
  const std::string text = R"(
input x : f32[3, 4]
parameter w : f32[4]
parameter v : f32[4]
a : f32[3, 4] = aten.mul.Tensor(%x, %p_w)
y : f32[3, 4] = aten.mul.Tensor(%a, %p_v)
return y)";
  expect_found(r, text);
  expect_refusal(r, with(text, {{"v : f32", "v : f16"}}), "its weights have different dtypes");
  Model model = parse_filled(long_text(text));
  tensor(model, "w").fill_(std::numeric_limits<float>::infinity());
  expect_refused(r, model, "'w' is not finite");
  tensor(model, "w").fill_(3e38);
  tensor(model, "v").fill_(3e38);
  expect_refused(r, model, "a value of the `once` part of the rule is not finite");
}

// A copy of a weight is not the weight once that is written.
TEST(MatchRules, ACopyOfAWeightThatIsWritten) {
  const Rule r = rule("x, W: weight", "return aten.relu(aten.linear(x, W))",
                      "return aten.linear(x, W) * 1 + 0", "where: rank(W) == 2");
  const std::string text = R"(
parameter w : f32[6, 4]
input x : f32[3, 4]
c : f32[6, 4] = aten.clone.default(%p_w)
a : f32[6, 4] = aten.add_.Tensor(%p_w, 1)
l : f32[3, 6] = aten.linear.default(%x, %c)
y : f32[3, 6] = aten.relu.default(%l)
return (y, a))";
  expect_refusal(r, text, "'p_w' may be written in place");
}

// What a symbol is not in the example it may be elsewhere.
TEST(MatchRules, SymbolicSizesAreNotKnown) {
  const std::string text =
      "input x : f32[s0{2}, 4]\nn : f32[s0{2}, 4] = aten.sigmoid.default(%x)\n"
      "y : f32[s0{2}, 4] = aten.relu.default(%n)\nreturn y";
  auto when = [](const std::string& where) {
    return rule("x", "return aten.relu(aten.sigmoid(x))", "return aten.sigmoid(x)",
                "where: " + where);
  };
  expect_refusal(when("size(x, 0) != 3"), text,
                 "size(x, 0) != 3 cannot be decided: a size is not known");
  expect_refusal(when("not (size(x, 0) == 3)"), text, "a size is not known");
  expect_refusal(when("size(x, 0) == 2"), text, "a size is not known");
  EXPECT_EQ(sites(when("size(x, 0) == size(x, -2); size(x, 1) == 4"), text), 1u);
}

TEST(MatchRules, OnceReadsNoFiles) {
  const Rule r = parse_rule(R"(rule r
before(x, W: weight):
    return aten.neg(aten.linear(x, W))
once:
    M = W * aten.sum(aten.from_file('/etc/passwd', False, 1))
after:
    return aten.linear(x, M)
)");
  expect_refusal(r, kLinear, "from_file");
}

// Trying every order of a long sum would take for ever.
TEST(MatchRules, ManyOrdersAreTriedInBoundedTime) {
  std::string variables, sum = "aten.tanh(x0)", text = "input x : f32[2]\n", last = "x";
  for (int i = 0; i < 40; ++i) {
    variables += fmt::format("{}x{}", i ? ", " : "", i);
    if (i) sum += fmt::format(" + x{}", i);
    text += fmt::format("s{} : f32[2] = aten.add.Tensor(%{}, %x)\n", i, last);
    last = fmt::format("s{}", i);
  }
  const Rule r = rule(variables, "return " + sum, "return x0");
  expect_not_found(r, text + "return " + last);
}

}  // namespace
}  // namespace refx::testing
