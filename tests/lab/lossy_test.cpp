// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "kit.h"
#include "refx/old_names.h"
#include "refx/verify.h"
#include "rules/short_text.h"

namespace refx {
namespace {

using namespace testing;

constexpr const char* kThree = R"(
input x : f32[5, 16]
parameter a.weight : f32[24, 16]
parameter a.bias : f32[24]
parameter b.weight : f32[24, 24]
parameter c.weight : f32[8, 24]
parameter c.bias : f32[8]
a : f32[5, 24] = aten.linear.default(%x, %p_a_weight, %p_a_bias)
r : f32[5, 24] = aten.relu.default(%a)
b : f32[5, 24] = aten.linear.default(%r, %p_b_weight)
d : f32[5, 24] = aten.div.Tensor(%b, 3.0)
c : f32[5, 8] = aten.linear.default(%d, %p_c_weight, %p_c_bias)
return c)";

constexpr const char* kOfLinears[] = {"compute-linear-bf16", "store-linear-bf16",
                                      "store-linear-int8", "quantize-linear-int8"};

Model with(const char* text, std::initializer_list<const char*> names) {
  Model model = parse_filled(long_text(text));
  for (const char* name : names) find_transformation(name)(model);
  return model;
}

// A step that claims to change nothing and adds to a weight.
void spoil(Model& model, const std::string& state, double by) {
  Editor editor(model);
  const StateId id = model.state().find(state);
  editor.set_state(id, at::Tensor(model.state().tensor(id)) + by);
  editor.commit({"spoil", "spoil", state, {}});
}

TEST(Lossy, IsMeasuredAgainstItsBudget) {
  for (const char* name : kOfLinears) {
    const Model model = with(kThree, {name});
    ASSERT_EQ(model.history().size(), 3u) << name;
    const Verification any = verify(model);
    EXPECT_EQ(any.verdict(), "not judged") << name << to_text(any);
    EXPECT_FALSE(any.passed());
    EXPECT_EQ(any.reason(), "no budget given");
    ASSERT_TRUE(any.lossy) << name;
    EXPECT_GT(any.lossy->error, 1e-4) << name;
    EXPECT_LT(any.lossy->error, 3e-2) << name;
    EXPECT_EQ(any.lossy->steps.size(), 3u) << name;
    EXPECT_EQ(to_text(any).find("pass"), std::string::npos) << to_text(any);
    EXPECT_NE(to_text(any).find("\nnot judged: error "), std::string::npos) << to_text(any);
    EXPECT_NE(to_json(any).find("\"verdict\": \"not judged\",\n  \"passed\": false"),
              std::string::npos)
        << to_json(any);
    const double error = any.lossy->error;
    EXPECT_TRUE(verify(model, {.budget = 1.01 * error}).passed()) << name;
    const Verification beyond = verify(model, {.budget = 0.99 * error});
    EXPECT_EQ(beyond.answer(), VerifyVerdict::fail) << name;
    EXPECT_NE(beyond.reason().find("the budget"), std::string::npos) << beyond.reason();
    // The columns after fp64 and native have no tolerance to show.
    const std::regex no_tolerances(R"(\] +0 +- +\S+ +\S+ +- +\S+ +\S+ +FAIL: )");
    EXPECT_TRUE(std::regex_search(to_text(beyond), no_tolerances)) << to_text(beyond);
  }
}

TEST(Lossy, AnExactModelHasNoLoss) {
  const Model model = with(kThree, {"change-true-div-to-mul-by-inverse"});
  const Verification result = verify(model, {.budget = 0.5});
  EXPECT_FALSE(result.lossy);
  EXPECT_EQ(result.verdict(), "pass");
  Model wrong = model;
  spoil(wrong, "b.weight", 1e-3);
  EXPECT_EQ(verify(wrong, {.budget = 0.5}).answer(), VerifyVerdict::fail)
      << "a budget is for lossy steps";
}

TEST(Lossy, ExactStepsAreHeldToRounding) {
  Model model = with(kThree, {"change-true-div-to-mul-by-inverse", "store-linear-int8"});
  EXPECT_EQ(verify(model, {.budget = 0.1}).verdict(), "lossy");
  Model wrong = parse_filled(long_text(kThree));
  spoil(wrong, "c.bias", 1e-3);
  find_transformation("store-linear-int8")(wrong);
  Model wrong_later = model;  // on a lossy step, whose bias it is
  spoil(wrong_later, "c.bias", 1e-3);
  for (const Model* bad : {&wrong, &wrong_later}) {
    const Verification result = verify(*bad, {.budget = 0.1});
    EXPECT_LT(result.lossy->error, 0.1);
    EXPECT_EQ(result.answer(), VerifyVerdict::fail) << to_text(result);
  }
}

TEST(Lossy, WhatIsRightOnLossyStepsPasses) {
  const Model model = with(kThree, {"store-linear-int8", "change-true-div-to-mul-by-inverse",
                                    "compute-linear-bf16", "fuse-bias-in-linear"});
  EXPECT_EQ(verify(model, {.budget = 0.1}).verdict(), "lossy") << to_text(verify(model));
}

TEST(Lossy, TheStepThatCostsMostComesFirst) {
  Model original = parse_filled(long_text(kThree));
  {  // one number that is far out in each row: a scale for the row is too coarse for the others
    Editor editor(original);
    const StateId id = original.state().find("b.weight");
    at::Tensor weight = at::Tensor(original.state().tensor(id)).clone();
    weight.select(1, 0).fill_(30);
    editor.set_state(id, weight);
    editor.commit_as_origin();
  }
  find_transformation("store-linear-int8")(original);
  const Verification result = verify(original, {.per_step = true, .sort = StepOrder::error});
  ASSERT_EQ(result.steps.size(), 3u);
  EXPECT_EQ(result.steps[0].site.substr(0, 1), "b") << to_text(result);
  for (const StepCheck& step : result.steps) {
    EXPECT_TRUE(step.lossy);
    EXPECT_LE(step.worst.l2, result.steps[0].worst.l2);
  }
  EXPECT_GT(result.steps[0].marginal_error, result.steps[1].marginal_error);
  EXPECT_NE(to_text(result).find("SQNR"), std::string::npos);
}

TEST(Lossy, RowsOfZerosStayZeros) {
  Model model = parse_filled(long_text(kThree));
  {
    Editor editor(model);
    editor.set_state(model.state().find("b.weight"), at::zeros({24, 24}));
    editor.commit_as_origin();
  }
  for (const char* name : {"store-linear-int8", "quantize-linear-int8"}) {
    Model copy = model;
    find_transformation(name)(copy);
    EXPECT_EQ(copy.history().size(), 3u);
    EXPECT_EQ(verify(copy, {.budget = 1e-2}).verdict(), "lossy");
    EXPECT_TRUE(at::equal(copy.forward({at::zeros({5, 16})}).toTensor(),
                          model.forward({at::zeros({5, 16})}).toTensor()));
  }
}

// Sums of int8 products are far beyond what fp16 holds.
TEST(Lossy, InputsOfAnyRankAndDtype) {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"})
    for (const char* sizes : {"", "7, ", "2, 7, ", "2, 3, 7, ", "s0{4}, ", "s0{4}, s1{7}, ",
                              "s0{4}, 3, s1{7}, ", "2*s0{8}, s0 + 1{5}, "}) {
      const std::string text = fmt::format(R"(
input x : {0}[{1}400]
parameter a.weight : {0}[6, 400]
parameter a.bias : {0}[6]
y : {0}[{1}6] = aten.linear.default(%x, %p_a_weight, %p_a_bias)
return y)",
                                           dtype, sizes);
      Model model = parse_filled(long_text(text));
      const std::string before = snapshot(model);
      find_transformation("quantize-linear-int8")(model);
      EXPECT_EQ(model.history().size(), 1u) << text;
      const Verification result = verify(model, {.budget = 3e-2});
      EXPECT_EQ(result.verdict(), "lossy") << text << to_text(result);
      reverse_all(model);
      EXPECT_EQ(snapshot(model), before) << text;
    }
}

TEST(Lossy, SizesOfWhatIsBetweenAreProductsOfSymbols) {
  const Model model = with(R"(
input x : f32[s0{4}, 3, s1{7}, 16]
parameter a.weight : f32[6, 16]
y : f32[s0{4}, 3, s1{7}, 6] = aten.linear.default(%x, %p_a_weight)
return y)",
                           {"quantize-linear-int8"});
  for (const char* type : {"i8[3*s0*s1{84}, 16]", "i32[3*s0*s1{84}, 6]", "i32[s0{4}, 3, s1{7}, 6]"})
    EXPECT_NE(print(model).find(type), std::string::npos) << type << print(model);
}

void refuse(const Model& model, std::string_view reason) {
  for (const char* name : kOfLinears) expect_refused(name, model, reason);
}
void refuse(std::string_view text, std::string_view reason) {
  refuse(parse_filled(long_text(text)), reason);
}

Model with_weight(const at::Tensor& weight) {
  Builder builder;
  const NodeId x = builder.input("x", type_of(at::rand({2, 4})));
  return builder.build(
      builder.call("aten.linear.default", {x, builder.parameter("fc.weight", weight)}));
}

TEST(Lossy, WeightsThatOthersSeeAreRefused) {
  refuse(R"(
input x : f32[3, 4]
parameter fc.weight : f32[4, 4]
y : f32[3, 4] = aten.linear.default(%x, %p_fc_weight)
z : f32[3, 4] = aten.linear.default(%y, %p_fc_weight)
return z)",
         "'fc.weight' is used in more than one place");
  refuse(R"(
input x : f32[3, 4]
parameter fc.weight : f32[4, 4]
parameter other : f32[4, 4] shares=fc.weight
y : f32[3, 4] = aten.linear.default(%x, %p_fc_weight)
z : f32[3, 4] = aten.add.Tensor(%y, %p_other)
return z)",
         "'fc.weight' shares its memory with another tensor");
  refuse(parse_filled(R"(
buffer w : f32[4, 4]
mutates w = output 0
graph():
    %b_w : f32[4, 4] = placeholder[target=b_w](state=w)
    %x : f32[4, 4] = placeholder[target=x]
    %y : f32[4, 4] = call_function[target=aten.linear.default](args = (%x, %b_w))
    %v : f32[4, 4] = call_function[target=aten.neg.default](args = (%x,))
    return (v, y)
)"),
         "'w' is changed by the model itself");
}

TEST(Lossy, WeightsThatAreNoOrdinaryNumbersAreRefused) {
  for (const double number : {NAN, INFINITY}) {
    at::Tensor weight = at::rand({6, 4});
    weight[2][1] = number;
    refuse(with_weight(weight), "'fc.weight' is not finite");
  }
  for (const at::ScalarType dtype : {at::kInt, at::kComplexFloat, at::kFloat8_e4m3fn})
    refuse(with_weight(at::zeros({6, 4}, dtype)), "");
  expect_refused("quantize-linear-int8", with_weight(at::zeros({6, 4}, at::kFloat8_e4m3fn)),
                 "not a floating-point type that refx supports");
  refuse(with_weight(at::quantize_per_tensor(at::rand({6, 4}), 0.1, 0, at::kQInt8)), "");
}

TEST(Lossy, WhatIsQuantizedIsNotQuantizedAgain) {
  for (const char* first : {"store-linear-int8", "quantize-linear-int8"}) {
    Model model = with(kThree, {first});
    for (const char* name : kOfLinears)
      EXPECT_TRUE(find_transformation(name)(model).steps.empty()) << first << name;
  }
}

// An int32 holds 133144 products of 127 * 127, and no more.
TEST(Lossy, SumsThatAnInt32DoesNotHoldAreRefused) {
  auto linear = [](std::int64_t inner) {
    return parse_filled(long_text(fmt::format(R"(
input x : f32[1, {0}]
parameter w : f32[2, {0}]
y : f32[1, 2] = aten.linear.default(%x, %p_w)
return y)",
                                              inner)));
  };
  expect_refused("quantize-linear-int8", linear(133145), "size(W, 1) <= 133144 does not hold");
  Model widest = linear(133144);
  {
    Editor editor(widest);
    editor.set_state(widest.state().find("w"), at::ones({2, 133144}));
    editor.commit_as_origin();
  }
  find_transformation("quantize-linear-int8")(widest);
  ASSERT_EQ(widest.history().size(), 1u);
  const at::Tensor y = widest.forward({at::ones({1, 133144})}).toTensor();
  EXPECT_TRUE(at::allclose(y, at::full({1, 2}, 133144.0), 1e-6, 0)) << y;
}

// As a graph says that it is on a GPU; there need not be one.
TEST(Lossy, OnCudaOnlyWhatItsInt8ProductTakes) {
  auto refused_for = [](const char* rows, int inner, int outer) -> std::string {
    const Model model = parse_filled(fmt::format(R"(
parameter w : f32[{2}, {1}]
graph():
    %p_w : f32[{2}, {1}] device=cuda:0 = placeholder[target=p_w](state=w)
    %x : f32[{0}, {1}] device=cuda:0 = placeholder[target=x]
    %y : f32[{0}, {2}] device=cuda:0 = call_function[target=aten.linear.default](args = (%x, %p_w))
    return y
)",
                                                 rows, inner, outer));
    const Findings findings = find_transformation("quantize-linear-int8").find(model);
    return findings.refusals.empty() ? "" : to_string(findings.refusals[0].reason);
  };
  EXPECT_EQ(refused_for("17", 16, 24), "");
  EXPECT_EQ(refused_for("s0{20}, 17", 16, 24),
            "not on(value_or(W, V), 'cuda') or numel(x) > 16 * size(x, -1) cannot be decided: a "
            "size is not known");
  EXPECT_EQ(refused_for("2, 8", 16, 24),
            "not on(value_or(W, V), 'cuda') or numel(x) > 16 * size(x, -1) does not hold");
  EXPECT_EQ(refused_for("17", 12, 24),
            "not on(value_or(W, V), 'cuda') or size(value_or(W, V), 1) % 8 == 0 does not hold");
  EXPECT_EQ(refused_for("17", 16, 9),
            "not on(value_or(W, V), 'cuda') or size(value_or(W, V), 0) % 8 == 0 does not hold");
}

TEST(Lossy, NonFiniteValuesStayNonFinite) {
  const bool onednn = at::globalContext().userEnabledMkldnn();
  for (const char* name : kOfLinears) {
    Model model = with(kThree, {name});
    at::Tensor x = at::randn({5, 16});
    x[1][3] = NAN;
    x[2][0] = INFINITY;
    const at::Tensor y = model.forward({x}).toTensor();
    EXPECT_TRUE(y[1].isnan().all().item<bool>()) << name;
    EXPECT_FALSE(y[2].isfinite().any().item<bool>()) << name;
    EXPECT_TRUE(y[0].isfinite().all().item<bool>()) << name;
  }
  at::globalContext().setUserEnabledMkldnn(onednn);  // torch may have switched it off
}

// Where a processor has no bfloat16, torch switches oneDNN off for the whole process.
TEST(Lossy, VerifyLeavesOneDnnAsItWas) {
  const bool before = at::globalContext().userEnabledMkldnn();
  verify(with(kThree, {"compute-linear-bf16"}));
  EXPECT_EQ(at::globalContext().userEnabledMkldnn(), before);
}

// A step that says it changes all weights by 1 %.
struct OwnLossy : ReversibleTransformation {
  std::string name() const override { return "own-lossy"; }
  Numerics numerics() const override { return Numerics::approximate; }
  Findings find(const Model& model) const override {
    Findings found;
    for (NodeId id : model.graph())
      if (model.graph()[id].name == "a" && !transformed(model, id))
        found.sites.push_back({"a", {id}});
    return found;
  }
  std::optional<Reason> apply(Editor& editor, const Site&) const override {
    const StateId id = editor.state().find("a.weight");
    editor.set_state(id, at::Tensor(editor.state().tensor(id)) * 1.01);
    return std::nullopt;
  }
};

TEST(Lossy, OwnClassesThatDoNotPreserveTheComputationAreLossy) {
  Model model = parse_filled(long_text(kThree));
  OwnLossy()(model);
  ASSERT_EQ(model.history().size(), 1u);
  EXPECT_TRUE(is_lossy(model.history().back()));
  EXPECT_EQ(model.history().back().signature, "own-lossy");
  EXPECT_EQ(verify(model).verdict(), "not judged") << to_text(verify(model));
  EXPECT_EQ(verify(model, {.budget = 0.1}).verdict(), "lossy");
  EXPECT_EQ(verify(model, {.budget = 1e-4}).verdict(), "fail");
}

// A history is a part of a file, which anybody may have written.
TEST(Lossy, ExactTransformationsAreHeldToRoundingWhateverTheHistorySays) {
  Model model = parse_filled(long_text(kThree));
  Editor editor(model);
  const StateId id = model.state().find("b.weight");
  editor.set_state(id, at::Tensor(model.state().tensor(id)) * 1.2);
  editor.commit({"merge-linears", "merge-linears", "b", {}, Numerics::approximate});
  EXPECT_FALSE(is_lossy(model.history().back()));
  for (const double budget : {0.0, 0.5}) {
    const Verification result = verify(model, {.budget = budget});
    EXPECT_EQ(result.answer(), VerifyVerdict::fail) << to_text(result);
    EXPECT_NE(to_text(result).find("step 1 is marked as approximate, but merge-linears is "
                                   "the name of an exact transformation of refx"),
              std::string::npos)
        << to_text(result);
  }
}

// Files of earlier versions contain former names of rules.
TEST(Lossy, RenamedRulesAreHeldToRounding) {
  for (const OldName& name : old_names()) {
    Step step;
    step.transformation = name.old;
    step.numerics = Numerics::approximate;
    EXPECT_EQ(is_lossy(step), !find_transformation(name.current).preserves_computation())
        << name.old;
  }
}

TEST(Lossy, StepsRecordTheNumericsOfTheirTransformation) {
  Model model = parse_filled(long_text(kThree));
  find_transformation("merge-linears")(model);
  find_transformation("store-linear-int8")(model);
  ASSERT_FALSE(model.history().empty());
  for (const Step& step : model.history()) {
    const Transformation& made_by = find_transformation(step.transformation.view());
    EXPECT_EQ(step.numerics, made_by.numerics()) << step;
    EXPECT_TRUE(step.parameters.empty()) << step;
  }
}

// A parameter may have any name: the signature contains it, and it does not affect the numerics.
TEST(Lossy, AParameterCalledApproximateIsLikeAnyOther) {
  struct Own : ReversibleTransformation {
    explicit Own(Arg how) : how(std::move(how)) {}
    std::string name() const override { return "own"; }
    Kwargs parameters() const override { return {{"approximate", how}}; }
    Findings find(const Model&) const override { return {}; }
    std::optional<Reason> apply(Editor&, const Site&) const override { return std::nullopt; }
    Arg how;
  };
  EXPECT_EQ(find_transformation("compute-linear-bf16").signature(), "compute-linear-bf16");
  EXPECT_EQ(Own(false).signature(), "own(approximate=False)");
  EXPECT_EQ(Own(true).signature(), "own(approximate=True)");
  EXPECT_NE(Own(std::string("tanh")).signature(), Own(std::string("none")).signature());
}

TEST(Lossy, AllLeavesItOut) {
  Model model = parse_filled(long_text(kThree));
  for (const auto& transformation : find_transformations({"all"})) (*transformation)(model);
  for (const Step& step : model.history()) EXPECT_FALSE(is_lossy(step)) << step.transformation;
  EXPECT_TRUE(verify(model).passed());
}

}  // namespace
}  // namespace refx
