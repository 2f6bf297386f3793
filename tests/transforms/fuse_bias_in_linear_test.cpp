// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>

#include "refx/builder.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "fuse-bias-in-linear";

const std::string kAten = R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %p_fc_weight : f32[6, 4] = placeholder[target=p_fc_weight](state=fc.weight)
    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)
    %x : f32[3, 4] = placeholder[target=x]
    %linear : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias))
    return linear
)";

const std::string kModule = R"(
parameter net.fc.weight : f32[6, 4]
parameter net.fc.bias : f32[6]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=True)
graph():
    %x = placeholder[target=x]
    %net_fc = call_module[target=net.fc](args = (%x,))
    return net_fc
)";

const std::string kFunctional = R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %x = placeholder[target=x]
    %fc_weight = get_attr[target=fc.weight]
    %fc_bias = get_attr[target=fc.bias]
    %linear = call_function[target=torch.nn.functional.linear](args = (%x, %fc_weight, %fc_bias))
    return linear
)";

Model apply_to(const Model& original) {
  Model model = original;
  find_transformation(kName)(model);
  return model;
}

// ---- the rewrite -------------------------------------------------------------------------------

TEST(FuseBiasInLinear, FusesInTheAtenDialect) {
  expect_rewritten(kName, kAten, R"(
parameter fc.weight : f32[6, 5]
graph():
    %p_fc_weight : f32[6, 5] = placeholder[target=p_fc_weight](state=fc.weight)
    %x : f32[3, 4] = placeholder[target=x]
    %constant_pad_nd : f32[3, 5] = call_function[target=aten.constant_pad_nd.default](args = (%x, [0, 1], 1.0))
    %linear : f32[3, 6] = call_function[target=aten.linear.default](args = (%constant_pad_nd, %p_fc_weight))  # marks ["fuse-bias-in-linear"]
    return linear
)");
}

TEST(FuseBiasInLinear, FusesInAModule) {
  expect_rewritten(kName, kModule, R"(
parameter net.fc.weight : f32[6, 5]
module net.fc : torch.nn.Linear(in_features=5, out_features=6, bias=False)
graph():
    %x = placeholder[target=x]
    %pad = call_function[target=torch.nn.functional.pad](args = (%x, (0, 1)), kwargs = {mode: "constant", value: 1.0})
    %net_fc = call_module[target=net.fc](args = (%pad,))  # marks ["fuse-bias-in-linear"]
    return net_fc
)");
}

TEST(FuseBiasInLinear, FusesAFunctionalLinear) {
  expect_rewritten(kName, kFunctional, R"(
parameter fc.weight : f32[6, 5]
graph():
    %x = placeholder[target=x]
    %fc_weight = get_attr[target=fc.weight]
    %pad = call_function[target=torch.nn.functional.pad](args = (%x, (0, 1)), kwargs = {mode: "constant", value: 1.0})
    %linear = call_function[target=torch.nn.functional.linear](args = (%pad, %fc_weight))  # marks ["fuse-bias-in-linear"]
    return linear
)");
}

TEST(FuseBiasInLinear, NamesItsSiteAfterTheModule) {
  EXPECT_EQ(site_names(kName, parse(kAten)), Names{"fc"});
  EXPECT_EQ(site_names(kName, parse(kModule)), Names{"net.fc"});
}

TEST(FuseBiasInLinear, PutsTheBiasInTheLastColumn) {
  const Model before = parse_filled(kAten), after = apply_to(before);
  EXPECT_TRUE(at::equal(tensor(after, "fc.weight").narrow(1, 0, 4), tensor(before, "fc.weight")));
  EXPECT_TRUE(at::equal(tensor(after, "fc.weight").select(1, 4), tensor(before, "fc.bias")));
}

// ---- what may be fused -------------------------------------------------------------------------

TEST(FuseBiasInLinear, PutsFewAndManyValuesSideBySide) {
  for (const std::int64_t width : {1, 3, 300}) {
    Builder b;
    const NodeId x = b.input("x");
    const at::Tensor weight = at::rand({width, width}), bias = at::rand({width});
    const NodeId y = b.call("aten.linear.default",
                            {x, b.parameter("fc.weight", weight), b.parameter("fc.bias", bias)});
    Model model = b.build(y);
    FuseBiasInLinear()(model);
    const at::Tensor fused(model.state().tensor(model.state().find("fc.weight")));
    EXPECT_TRUE(at::equal(fused, at::cat({weight, bias.unsqueeze(1)}, 1)));
    EXPECT_TRUE(fused.is_contiguous());
  }
}

TEST(FuseBiasInLinear, IgnoresALinearWithoutABias) {
  expect_no_match(
      kName,
      with(kAten, {{"parameter fc.bias : f32[6]\n", ""},
                   {"    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)\n", ""},
                   {", %p_fc_bias", ""}}));
  expect_no_match(kName, with(kFunctional, {{", %fc_bias)", ", None)"}}));
  expect_no_match(kName, with(kModule, {{"parameter net.fc.bias : f32[6]\n", ""},
                                        {"bias=True", "bias=False"}}));
}

TEST(FuseBiasInLinear, IgnoresOtherModules) {
  expect_no_match(kName, with(kModule, {{"torch.nn.Linear", "my.Linear"}}));
}

TEST(FuseBiasInLinear, WorksInEveryFloatingType) {
  for (const char* dtype : {"f64", "f16", "bf16"})
    expect_applies(kName, with(kAten, {{"f32", dtype}}));
}

TEST(FuseBiasInLinear, TakesKeywordArguments) {
  expect_applies(
      kName,
      with(kAten, {{"%p_fc_weight, %p_fc_bias)", "%p_fc_weight), kwargs = {bias: %p_fc_bias}"}}));
  expect_applies(kName,
                 with(kFunctional, {{"args = (%x, %fc_weight, %fc_bias)",
                                     "kwargs = {bias: %fc_bias, weight: %fc_weight, input: %x}"}}));
  expect_applies(kName, with(kModule, {{"args = (%x,)", "kwargs = {input: %x}"}}));
}

TEST(FuseBiasInLinear, KeepsDynamicShapes) {
  const std::string text = with(kAten, {{"f32[3, ", "f32[2, s1{5}, "}});
  expect_applies(kName, text);
  EXPECT_EQ(print(*node(apply_to(parse(text)), "constant_pad_nd").type), "f32[2, s1{5}, 5]");
}

TEST(FuseBiasInLinear, FusesOverOneAndOverFourDimensions) {
  expect_applies(kName, with(kAten, {{"f32[3, ", "f32["}}));
  expect_applies(kName, with(kAten, {{"f32[3, ", "f32[2, 1, 3, "}}));
}

TEST(FuseBiasInLinear, FusesLinearsOfTheRoot) {
  const std::string text = with(kFunctional, {{"fc.weight", "weight"}, {"fc.bias", "bias"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse(text)), Names{"linear"});
}

TEST(FuseBiasInLinear, KeepsRequiresGrad) {
  for (const std::string& text :
       {with(kModule, {{"4]", "4] requires_grad=True"}, {"f32[6]", "f32[6] requires_grad=True"}}),
        kModule}) {
    expect_applies(kName, text);
    EXPECT_EQ(tensor(apply_to(parse(text)), "net.fc.weight").requires_grad(), text != kModule);
  }
}

TEST(FuseBiasInLinear, RestoresStrides) {
  expect_applies(kName, with(kModule, {{"f32[6, 4]", "f32[6, 4] strides=(1, 6)"},
                                       {"f32[6]", "f32[6] strides=(3,) offset=1"}}));
}

TEST(FuseBiasInLinear, GivesThePaddingTheMetadataOfTheLinear) {
  const std::string text = with(
      kAten,
      {{"%p_fc_bias))", R"(%p_fc_bias))  # meta {nn_module_stack: "fc,fc,torch.nn.Linear"})"}});
  const Model before = parse(text);
  EXPECT_EQ(node(apply_to(before), "constant_pad_nd").meta, node(before, "linear").meta);
}

TEST(FuseBiasInLinear, FusesWhatIsWrittenInPlaceAndReturned) {
  expect_applies(
      kName,
      with(kAten,
           {{"    %linear :",
             "    %w = call_function[target=aten.mul_.Tensor](args = (%x, 2))\n    %linear :"},
            {"    return linear",
             "    %v = call_function[target=aten.zero_.default](args = (%x,))\n"
             "    %r = call_function[target=aten.relu_.default](args = (%linear,))\n    return "
             "(linear, r)"}}));
}

TEST(FuseBiasInLinear, FusesOneOfSeveralUsersOfTheInput) {
  const std::string two =
      with(kModule, {{"graph():", R"(parameter o.weight : f32[2, 4]
parameter o.bias : f32[2]
module o : torch.nn.Linear(in_features=4, out_features=2, bias=True)
graph():)"},
                     {"    return net_fc",
                      "    %o = call_module[target=o](args = (%x,))\n    return (net_fc, o, x)"}});
  expect_applies(kName, two);
  EXPECT_EQ(site_names(kName, parse(two)), (Names{"net.fc", "o"}));
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(FuseBiasInLinear, RefusesASharedWeight) {
  expect_refused(kName, with(kAten, {{"return linear", "return (linear, p_fc_weight)"}}),
                 "'fc.weight' is used in more than one place");
}

TEST(FuseBiasInLinear, RefusesASharedBias) {
  expect_refused(kName,
                 with(kFunctional, {{"    return linear",
                                     "    %add = call_function[target=torch.add](args = (%linear, "
                                     "%fc_bias))\n    return add"}}),
                 "'fc.bias' is used in more than one place");
}

TEST(FuseBiasInLinear, RefusesTiedTensors) {
  expect_refused(
      kName,
      with(kModule,
           {{"graph():", "parameter emb.weight : f32[6, 4] shares=net.fc.weight\ngraph():"}}),
      "'net.fc.weight' shares its memory with another tensor");
  expect_refused(
      kName, with(kModule, {{"graph():", "parameter other : f32[6] shares=net.fc.bias\ngraph():"}}),
      "'net.fc.bias' shares its memory with another tensor");
}

TEST(FuseBiasInLinear, RefusesABiasTheModelChanges) {
  expect_refused(kName,
                 with(kAten, {{"graph():", "mutates fc.bias = output 0\ngraph():"},
                              {"return linear", "return (linear,)"}}),
                 "'fc.bias' is changed by the model itself");
}

TEST(FuseBiasInLinear, RefusesAModuleCalledTwice) {
  expect_refused(
      kName,
      with(kModule,
           {{"    return net_fc",
             "    %again = call_module[target=net.fc](args = (%x,))\n    return (net_fc, again)"}}),
      "module 'net.fc' is used in more than one place");
}

TEST(FuseBiasInLinear, RefusesAModuleWithAHook) {
  expect_refused(kName,
                 with(kModule, {{"bias=True)", "bias=True) custom=\"has a parametrized weight\""}}),
                 "module 'net.fc' has a parametrized weight");
}

TEST(FuseBiasInLinear, RefusesAModuleCalledWithMore) {
  expect_refused(kName, with(kModule, {{"args = (%x,)", "args = (%x, 1)"}}),
                 "module 'net.fc' is not called with one tensor");
}

TEST(FuseBiasInLinear, RefusesAModuleWithoutAWeight) {
  expect_refused(kName, with(kModule, {{"parameter net.fc.weight : f32[6, 4]\n", ""}}),
                 "module 'net.fc' has no weight of its own");
}

TEST(FuseBiasInLinear, RefusesAComputedWeight) {
  expect_refused(
      kName,
      with(kFunctional,
           {{"    %linear =",
             "    %t = call_function[target=torch.exp](args = (%fc_weight,))\n    %linear ="},
            {"%x, %fc_weight", "%x, %t"}}),
      "its weight is computed, not stored");
}

TEST(FuseBiasInLinear, RefusesAComputedBias) {
  expect_refused(
      kName,
      with(kFunctional,
           {{"    %linear =",
             "    %t = call_function[target=torch.exp](args = (%fc_bias,))\n    %linear ="},
            {"%fc_weight, %fc_bias", "%fc_weight, %t"}}),
      "its bias is computed, not stored");
}

TEST(FuseBiasInLinear, RefusesAnInputThatIsNotATensor) {
  expect_refused(kName, with(kFunctional, {{"args = (%x, ", "args = (None, "}}),
                 "its input is not a tensor of the graph");
}

TEST(FuseBiasInLinear, RefusesAQuantizedWeight) {
  Builder b;
  const NodeId w =
      b.parameter("fc.weight", at::quantize_per_tensor(at::rand({6, 4}), 0.1, 0, at::kQInt8));
  const NodeId bias = b.parameter("fc.bias", at::rand({6})), x = b.input("x");
  expect_refused(kName, b.build(b.call("aten.linear.default", {x, w, bias})),
                 "'fc.weight' is quantized");
}

TEST(FuseBiasInLinear, RefusesABiasOfAnotherType) {
  expect_refused(kName, with(kModule, {{"f32[6]", "f64[6]"}}),
                 "weight and bias have different dtypes");
}

TEST(FuseBiasInLinear, RefusesAFrozenBiasOfATrainableWeight) {
  expect_refused(kName, with(kModule, {{"f32[6, 4]", "f32[6, 4] requires_grad=True"}}),
                 "one of weight and bias is frozen (requires_grad differs)");
}

TEST(FuseBiasInLinear, RefusesATrainableBiasOfAFrozenWeight) {
  expect_refused(kName, with(kModule, {{"f32[6]", "f32[6] requires_grad=True"}}),
                 "one of weight and bias is frozen (requires_grad differs)");
}

TEST(FuseBiasInLinear, RefusesABiasThatDoesNotFit) {
  expect_refused(kName, with(kFunctional, {{"f32[6]\n", "f32[1]\n"}}),
                 "its bias does not fit its weight");
}

TEST(FuseBiasInLinear, RefusesAWeightThatIsNotAMatrix) {
  expect_refused(kName, with(kFunctional, {{"f32[6, 4]", "f32[4]"}, {"f32[6]", "f32[]"}}),
                 "its weight is not a matrix");
}

// ---- trained since -----------------------------------------------------------------------------

TEST(FuseBiasInLinear, CarriesTrainedValuesBack) {
  for (const std::string& text : {kAten, with(kModule, {{"net.fc", "fc"}}), kFunctional}) {
    const Model before = parse_filled(text);
    Model model = apply_to(before);
    train(model, "fc.weight");
    reverse_all(model);
    EXPECT_EQ(print(model), print(before));
    EXPECT_TRUE(at::equal(tensor(model, "fc.weight"), tensor(before, "fc.weight") + 1));
    EXPECT_TRUE(at::equal(tensor(model, "fc.bias"), tensor(before, "fc.bias") + 1));
  }
}

TEST(FuseBiasInLinear, WhatWasNotTrainedReturnsAsTheSameTensor) {
  const Model before = parse_filled(kModule);
  Model model = apply_to(before);
  {
    const at::NoGradGuard no_grad;
    tensor(model, "net.fc.weight").select(1, 4).add_(1);
  }
  reverse_all(model);
  EXPECT_TRUE(tensor(model, "net.fc.weight").is_same(tensor(before, "net.fc.weight")));
  EXPECT_TRUE(at::equal(tensor(model, "net.fc.bias"), tensor(before, "net.fc.bias") + 1));
}

TEST(FuseBiasInLinear, CarriedValuesKeepStridesAndRequiresGrad) {
  const Model before =
      parse_filled(with(kModule, {{"f32[6, 4]", "f32[6, 4] strides=(1, 6) requires_grad=True"},
                                  {"f32[6]", "f32[6] requires_grad=True"}}));
  Model model = apply_to(before);
  train(model, "net.fc.weight");
  reverse_all(model);
  EXPECT_EQ(print(model), print(before));
}

TEST(FuseBiasInLinear, DiscardsTrainedValuesOnRequest) {
  const Model before = parse_filled(kModule);
  Model model = apply_to(before);
  train(model, "net.fc.weight");
  reverse_all(model, {.discard_changes = true});
  EXPECT_EQ(snapshot(model), snapshot(before));
}

// ---- with others -------------------------------------------------------------------------------

TEST(FuseBiasInLinear, ReversingTheMergeBelowFusesEachOfTheSeparateOnes) {
  const std::string two =
      with(kModule, {{"graph():", R"(parameter net.o.weight : f32[2, 4]
parameter net.o.bias : f32[2]
module net.o : torch.nn.Linear(in_features=4, out_features=2, bias=True)
graph():)"},
                     {"    return net_fc",
                      "    %o = call_module[target=net.o](args = (%x,))\n    return (net_fc, o)"}});
  const Model before = parse_filled(two);
  Model model = before;
  find_transformation("merge-linears")(model);
  find_transformation(kName)(model);
  ASSERT_EQ(model.history().size(), 2u);
  const Reversal reversal = reverse(model, "merge-linears");
  ASSERT_EQ(reversal.replaced.size(), 1u);
  EXPECT_EQ(reversal.replaced[0].reapplied.size(), 2u);
  EXPECT_EQ(print(model), print(apply_to(before)));
  expect_same_results(before, model, random_inputs(before));
  reverse_all(model);
  EXPECT_EQ(snapshot(model), snapshot(before));
}

}  // namespace
}  // namespace refx::testing
