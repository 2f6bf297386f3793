// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/equal.h>
#include <ATen/ops/mv.h>
#include <fmt/format.h>

#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "fuse-batch-norm-1d-in-linear";

const std::string kAten = R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
parameter bn.weight : f32[6]
parameter bn.bias : f32[6]
buffer bn.running_mean : f32[6]
buffer bn.running_var : f32[6]
graph():
    %p_fc_weight : f32[6, 4] = placeholder[target=p_fc_weight](state=fc.weight)
    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)
    %p_bn_weight : f32[6] = placeholder[target=p_bn_weight](state=bn.weight)
    %p_bn_bias : f32[6] = placeholder[target=p_bn_bias](state=bn.bias)
    %b_bn_running_mean : f32[6] = placeholder[target=b_bn_running_mean](state=bn.running_mean)
    %b_bn_running_var : f32[6] = placeholder[target=b_bn_running_var](state=bn.running_var)
    %x : f32[3, 4] = placeholder[target=x]
    %linear : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias))
    %batch_norm : f32[3, 6] = call_function[target=aten.batch_norm.default](args = (%linear, %p_bn_weight, %p_bn_bias, %b_bn_running_mean, %b_bn_running_var, False, 0.1, 0.001, True))
    return batch_norm
)";

const std::string kModule = R"(
parameter net.fc.weight : f32[6, 4]
parameter net.fc.bias : f32[6]
parameter net.bn.weight : f32[6]
parameter net.bn.bias : f32[6]
buffer net.bn.running_mean : f32[6]
buffer net.bn.running_var : f32[6]
buffer net.bn.num_batches_tracked : i64[]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=True)
module net.bn : torch.nn.BatchNorm1d(num_features=6, eps=0.001)
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %net_fc = call_module[target=net.fc](args = (%x,))
    %net_bn = call_module[target=net.bn](args = (%net_fc,))
    return net_bn
)";

// The batch norm comes first.
const std::string kFunctional = R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
parameter bn.weight : f32[4]
parameter bn.bias : f32[4]
buffer bn.running_mean : f32[4]
buffer bn.running_var : f32[4]
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %mean = get_attr[target=bn.running_mean]
    %var = get_attr[target=bn.running_var]
    %weight = get_attr[target=bn.weight]
    %bias = get_attr[target=bn.bias]
    %batch_norm = call_function[target=torch.nn.functional.batch_norm](args = (%x, %mean, %var, %weight, %bias, False, 0.1, 0.001))
    %fc_weight = get_attr[target=fc.weight]
    %fc_bias = get_attr[target=fc.bias]
    %linear = call_function[target=torch.nn.functional.linear](args = (%batch_norm, %fc_weight, %fc_bias))
    return linear
)";

const std::string kModuleFirst = R"(
parameter net.fc.weight : f32[6, 4]
parameter net.fc.bias : f32[6]
parameter net.bn.weight : f32[4]
parameter net.bn.bias : f32[4]
buffer net.bn.running_mean : f32[4]
buffer net.bn.running_var : f32[4]
buffer net.bn.num_batches_tracked : i64[]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=True)
module net.bn : torch.nn.BatchNorm1d(num_features=4, eps=0.001)
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %net_bn = call_module[target=net.bn](args = (%x,))
    %net_fc = call_module[target=net.fc](args = (%net_bn,))
    return net_fc
)";

std::string without_bias(const std::string& text) {
  if (&text == &kFunctional)
    return with(text, {{"parameter fc.bias : f32[6]\n", ""},
                       {"    %fc_bias = get_attr[target=fc.bias]\n", ""},
                       {", %fc_bias", ""}});
  if (&text == &kAten)
    return with(text,
                {{"parameter fc.bias : f32[6]\n", ""},
                 {"    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)\n", ""},
                 {", %p_fc_bias", ""}});
  return with(text, {{"parameter net.fc.bias : f32[6]\n", ""}, {"bias=True", "bias=False"}});
}

Model apply_to(const Model& original) {
  Model model = original;
  find_transformation(kName)(model);
  return model;
}

// ---- the rewrite -------------------------------------------------------------------------------

TEST(FuseBatchNorm1d, FoldsInTheAtenDialect) {
  expect_rewritten(kName, kAten, R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %p_fc_weight : f32[6, 4] = placeholder[target=p_fc_weight](state=fc.weight)
    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)
    %x : f32[3, 4] = placeholder[target=x]
    %batch_norm : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias))  # marks ["fuse-batch-norm-1d-in-linear"]
    return batch_norm
)");
}

TEST(FuseBatchNorm1d, FoldsModules) {
  expect_rewritten(kName, kModule, R"(
parameter net.fc.weight : f32[6, 4]
parameter net.fc.bias : f32[6]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=True)
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %net_bn = call_module[target=net.fc](args = (%x,))  # marks ["fuse-batch-norm-1d-in-linear"]
    return net_bn
)");
}

TEST(FuseBatchNorm1d, FoldsANormIntoTheLinearBehindIt) {
  expect_rewritten(kName, kFunctional, R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %fc_weight = get_attr[target=fc.weight]
    %fc_bias = get_attr[target=fc.bias]
    %linear = call_function[target=torch.nn.functional.linear](args = (%x, %fc_weight, %fc_bias))  # marks ["fuse-batch-norm-1d-in-linear"]
    return linear
)");
}

TEST(FuseBatchNorm1d, FoldsANormModuleIntoTheLinearBehindIt) {
  expect_rewritten(kName, kModuleFirst, R"(
parameter net.fc.weight : f32[6, 4]
parameter net.fc.bias : f32[6]
module net.fc : torch.nn.Linear(in_features=4, out_features=6, bias=True)
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %net_fc = call_module[target=net.fc](args = (%x,))  # marks ["fuse-batch-norm-1d-in-linear"]
    return net_fc
)");
}

TEST(FuseBatchNorm1d, AddsABias) {
  expect_rewritten(kName, without_bias(kAten), R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %p_fc_weight : f32[6, 4] = placeholder[target=p_fc_weight](state=fc.weight)
    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)
    %x : f32[3, 4] = placeholder[target=x]
    %batch_norm : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias))  # marks ["fuse-batch-norm-1d-in-linear"]
    return batch_norm
)");
  for (const std::string* text : {&kModule, &kFunctional, &kModuleFirst})
    expect_applies(kName, without_bias(*text));
}

TEST(FuseBatchNorm1d, NamesItsSiteInTheirOrder) {
  EXPECT_EQ(site_names(kName, parse_filled(kModule)), Names{"net.{fc,bn}"});
  EXPECT_EQ(site_names(kName, parse_filled(kModuleFirst)), Names{"net.{bn,fc}"});
}

TEST(FuseBatchNorm1d, FoldsInDoubleAndRoundsOnce) {
  const Model before = parse_filled(kFunctional), after = apply_to(before);
  auto exact = [&](const char* name) { return tensor(before, name).to(at::kDouble); };
  const at::Tensor scale = exact("bn.weight") / (exact("bn.running_var") + 0.001).sqrt();
  const at::Tensor shift = exact("bn.bias") - exact("bn.running_mean") * scale;
  EXPECT_TRUE(at::equal(tensor(after, "fc.weight"), (exact("fc.weight") * scale).to(at::kFloat)));
  EXPECT_TRUE(at::equal(tensor(after, "fc.bias"),
                        (at::mv(exact("fc.weight"), shift) + exact("fc.bias")).to(at::kFloat)));
}

// ---- what may be folded ------------------------------------------------------------------------

TEST(FuseBatchNorm1d, WorksWithoutAffine) {
  for (const std::string* text : {&kModule, &kModuleFirst}) {
    const char* n = text == &kModule ? "6" : "4";
    expect_applies(
        kName,
        with(*text,
             {{fmt::format("parameter net.bn.weight : f32[{0}]\nparameter net.bn.bias : f32[{0}]\n",
                           n),
               ""},
              {"eps=0.001", "affine=False"}}));
  }
  expect_applies(kName,
                 with(kAten, {{"%linear, %p_bn_weight, %p_bn_bias", "%linear, None, None"}}));
  expect_applies(kName, with(kFunctional, {{"%var, %weight, %bias", "%var, None, None"}}));
}

TEST(FuseBatchNorm1d, WorksInEveryFloatingType) {
  for (const char* dtype : {"f64", "f16", "bf16"})
    for (const std::string* text : {&kAten, &kModule, &kFunctional})
      expect_applies(kName, with(*text, {{"f32", dtype}}));
}

TEST(FuseBatchNorm1d, TakesKeywordArguments) {
  expect_applies(
      kName,
      with(kFunctional, {{"args = (%x, %mean, %var, %weight, %bias, False, 0.1, 0.001)",
                          "args = (%x,), kwargs = {running_var: %var, running_mean: %mean, weight: "
                          "%weight, bias: %bias}"},
                         {"args = (%batch_norm, %fc_weight, %fc_bias)",
                          "kwargs = {input: %batch_norm, weight: %fc_weight, bias: %fc_bias}"}}));
  expect_applies(kName, with(kModule, {{"args = (%net_fc,)", "kwargs = {input: %net_fc}"},
                                       {"args = (%x,)", "kwargs = {input: %x}"}}));
}

TEST(FuseBatchNorm1d, KeepsDynamicShapes) {
  const std::string text = with(kAten, {{"f32[3, ", "f32[s0{3}, "}});
  expect_applies(kName, text);
  EXPECT_EQ(print(*node(apply_to(parse_filled(text)), "batch_norm").type), "f32[s0{3}, 6]");
}

TEST(FuseBatchNorm1d, SeesThroughFlattenThatThereAreTwoDimensions) {
  for (const char* flatten : {"call_function[target=torch.flatten](args = (%x, 1))",
                              "call_method[target=flatten](args = (%x,), kwargs = {start_dim: 1})",
                              "call_module[target=flat](args = (%x,))"})
    expect_applies(
        kName,
        with(kModule,
             {{"graph():", "module flat : torch.nn.Flatten()\ngraph():"},
              {"%x : f32[3, 4]", "%x"},
              {"    %net_fc =",
               fmt::format("    %flat = {}\n    %relu = call_function[target=torch.relu](args = "
                           "(%flat,))\n    %net_fc =",
                           flatten)},
              {"[target=net.fc](args = (%x,))", "[target=net.fc](args = (%relu,))"}}));
}

TEST(FuseBatchNorm1d, FoldsLinearsOfTheRoot) {
  for (const std::string& text : {kFunctional, without_bias(kFunctional)})
    expect_applies(kName, with(text, {{"fc.weight", "w"}, {"bn.", "n_"}}));
}

TEST(FuseBatchNorm1d, KeepsRequiresGradAndStrides) {
  const std::string text =
      with(without_bias(kModule), {{"f32[6, 4]", "f32[6, 4] strides=(1, 6) requires_grad=True"}});
  expect_applies(kName, text);
  const Model after = apply_to(parse_filled(text));
  EXPECT_TRUE(tensor(after, "net.fc.weight").requires_grad());
  EXPECT_TRUE(tensor(after, "net.fc.bias").requires_grad());
  EXPECT_EQ(tensor(after, "net.fc.weight").stride(1), 6);
}

const std::string kSecondNorm = R"(parameter bn2.weight : f32[6]
parameter bn2.bias : f32[6]
buffer bn2.running_mean : f32[6]
buffer bn2.running_var : f32[6]
module bn2 : torch.nn.BatchNorm1d(num_features=6)
)";

TEST(FuseBatchNorm1d, FoldsNormsOnBothSides) {
  const std::string text = with(
      kModuleFirst, {{"graph():", kSecondNorm + "graph():"},
                     {"    return net_fc",
                      "    %bn2 = call_module[target=bn2](args = (%net_fc,))\n    return bn2"}});
  expect_applies(kName, text);
  const Model after = apply_to(parse_filled(text));
  EXPECT_EQ(after.history().size(), 2u);
  EXPECT_EQ(after.graph().size(), 3u);
}

TEST(FuseBatchNorm1d, FoldsTwoNormsOneAfterTheOther) {
  const std::string text =
      with(kModule, {{"graph():", kSecondNorm + "graph():"},
                     {"    return net_bn",
                      "    %bn2 = call_module[target=bn2](args = (%net_bn,))\n    return bn2"}});
  expect_applies(kName, text);
  EXPECT_EQ(apply_to(parse_filled(text)).graph().size(), 3u);
}

TEST(FuseBatchNorm1d, ReversesEitherOfTwoNorms) {
  const Model before = parse_filled(with(
      kModuleFirst, {{"graph():", kSecondNorm + "graph():"},
                     {"    return net_fc",
                      "    %bn2 = call_module[target=bn2](args = (%net_fc,))\n    return bn2"}}));
  for (int i : {0, 1}) {
    Model model = before;
    const Outcome outcome = find_transformation(kName)(model);
    reverse(model, outcome.steps[i]);
    validate(model);
    expect_same_results(before, model, random_inputs(before));
    reverse_all(model);
    EXPECT_EQ(snapshot(model), snapshot(before));
  }
}

TEST(FuseBatchNorm1d, ANormBetweenTwoLinearsGoesIntoTheFirst) {
  const std::string text = with(
      kModule,
      {{"graph():",
        "parameter o.weight : f32[2, 6]\nmodule o : torch.nn.Linear(in_features=6, out_features=2, "
        "bias=False)\ngraph():"},
       {"    return net_bn", "    %o = call_module[target=o](args = (%net_bn,))\n    return o"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse_filled(text)), Names{"net.{fc,bn}"});
}

TEST(FuseBatchNorm1d, ANormGoesIntoTheSecondLinearWhereTheFirstIsRefused) {
  const std::string text = with(
      kModule, {{"graph():",
                 "parameter o.weight : f32[2, 6]\nmodule o : torch.nn.Linear(in_features=6, "
                 "out_features=2, bias=False)\ngraph():"},
                {"    return net_bn",
                 "    %o = call_module[target=o](args = (%net_bn,))\n    return (o, net_fc)"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse_filled(text)), Names{"{net.bn,o}"});
}

TEST(FuseBatchNorm1d, FoldsBehindAFusedBias) {
  // The bias that the fold adds stands where the fused one stood.
  for (const std::string* text : {&kAten, &kModule}) {
    const Model before = parse_filled(*text);
    for (const char* first : {"fuse-bias-in-linear", kName.c_str()}) {
      Model model = before;
      find_transformation("fuse-bias-in-linear")(model);
      find_transformation(kName)(model);
      EXPECT_EQ(model.history().size(), 2u);
      expect_same_results(before, model, random_inputs(before));
      reverse(model, first);
      validate(model);
      expect_same_results(before, model, random_inputs(before));
      reverse_all(model);
      EXPECT_EQ(snapshot(model), snapshot(before)) << "first reversed: " << first;
    }
  }
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(FuseBatchNorm1d, IgnoresABatchNormOverImages) {
  expect_no_match(kName, with(kModule, {{"torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d"},
                                        {"torch.nn.Linear", "torch.nn.Conv2d"}}));
}

TEST(FuseBatchNorm1d, RefusesTrainingModeBeforeALinear) {
  const std::string reason = "the batch norm is in training mode";
  expect_refused(kName, with(kModuleFirst, {{"eps=0.001)", "eps=0.001) training=True"}}), reason);
  expect_refused(kName, with(kFunctional, {{"False, 0.1", "True, 0.1"}}), reason);
}

TEST(FuseBatchNorm1d, RefusesThreeDimensions) {
  expect_refused(kName, with(kAten, {{"f32[3, 6]", "f32[2, 6, 6]"}, {"f32[3, 4]", "f32[2, 6, 4]"}}),
                 "the activation has 3 dimensions: its channels are not the last dimension");
  expect_refused(kName, with(kModule, {{"f32[3, 4]", "f32[3, 6, 4]"}}),
                 "the activation has 3 dimensions: its channels are not the last dimension");
  expect_refused(kName, with(kModuleFirst, {{"f32[3, 4]", "f32[3, 4, 4]"}}),
                 "the activation has 3 dimensions: its channels are not the last dimension");
}

TEST(FuseBatchNorm1d, RefusesAnUnknownNumberOfDimensions) {
  const std::string reason =
      "the activation is not known to have two dimensions (run shape propagation, or flatten)";
  expect_refused(kName, with(kModule, {{"%x : f32[3, 4]", "%x"}}), reason);
  expect_refused(
      kName,
      with(kModule,
           {{"%x : f32[3, 4]", "%x"},
            {"    %net_fc =",
             "    %flat = call_function[target=torch.flatten](args = (%x, 2))\n    %net_fc ="},
            {"[target=net.fc](args = (%x,))", "[target=net.fc](args = (%flat,))"}}),
      reason);
}

TEST(FuseBatchNorm1d, RefusesAResultThatOthersUse) {
  expect_refused(kName, with(kFunctional, {{"return linear", "return (linear, batch_norm)"}}),
                 "the batch norm's result is used by nodes other than the linear");
}

TEST(FuseBatchNorm1d, RefusesANormBeforeSeveralLinears) {
  const std::string text =
      with(kModuleFirst,
           {{"graph():",
             "parameter o.weight : f32[2, 4]\nmodule o : torch.nn.Linear(in_features=4, "
             "out_features=2, bias=False)\ngraph():"},
            {"    return net_fc",
             "    %o = call_module[target=o](args = (%net_bn,))\n    return (net_fc, o)"}});
  expect_refused(kName, text, "the batch norm's result is used by nodes other than the linear");
  EXPECT_EQ(refused_names(kName, parse_filled(text)), (Names{"net.{bn,fc}", "{net.bn,o}"}));
}

TEST(FuseBatchNorm1d, RefusesANormThatIsTheWeightOfALinear) {
  // linear(x, batch_norm(y)): no linear reads the norm as its input.
  expect_refused(kName,
                 with(kFunctional,
                      {{"args = (%batch_norm, %fc_weight, %fc_bias)", "args = (%x, %batch_norm)"}}),
                 "there is no linear directly before or after it");
}

TEST(FuseBatchNorm1d, RefusesAnActivationBetween) {
  expect_refused(
      kName,
      with(kModule,
           {{"    %net_bn =",
             "    %relu = call_function[target=torch.relu](args = (%net_fc,))\n    %net_bn ="},
            {"(%net_fc,))\n    return", "(%relu,))\n    return"}}),
      "there is no linear directly before or after it");
}

TEST(FuseBatchNorm1d, RefusesModulesWithHooks) {
  expect_refused(kName,
                 with(kModuleFirst, {{"bias=True)", "bias=True) custom=\"has a forward hook\""}}),
                 "module 'net.fc' has a forward hook");
  expect_refused(kName,
                 with(kModuleFirst, {{"eps=0.001)", "eps=0.001) custom=\"has a forward hook\""}}),
                 "module 'net.bn' has a forward hook");
}

TEST(FuseBatchNorm1d, RefusesSharedTensors) {
  expect_refused(kName, with(kFunctional, {{"return linear", "return (linear, var)"}}),
                 "'bn.running_var' is used in more than one place");
}

TEST(FuseBatchNorm1d, RefusesComputedTensors) {
  expect_refused(
      kName,
      with(kFunctional,
           {{"    %batch_norm =",
             "    %exp = call_function[target=torch.exp](args = (%mean,))\n    %batch_norm ="},
            {"%mean, %var", "%exp, %var"}}),
      "a tensor of the batch norm is computed, not stored");
}

TEST(FuseBatchNorm1d, RefusesABiasThatDoesNotFit) {
  expect_refused(kName, with(kFunctional, {{"fc.bias : f32[6]", "fc.bias : f32[1]"}}),
                 "its bias does not fit its weight");
}

TEST(FuseBatchNorm1d, RefusesAnotherNumberOfFeatures) {
  expect_refused(kName, with(kModuleFirst, {{"f32[6, 4]", "f32[6, 5]"}}),
                 "the batch norm and the linear have different numbers of features");
  expect_refused(
      kName, with(kModule, {{"f32[6, 4]", "f32[5, 4]"}, {"fc.bias : f32[6]", "fc.bias : f32[5]"}}),
      "the batch norm and the linear have different numbers of features");
}

TEST(FuseBatchNorm1d, RefusesFoldedWeightsThatAreNotFinite) {
  Model large = parse_filled(with(kModuleFirst, {{"f32", "f16"}}));
  tensor(large, "net.bn.bias").fill_(60000);
  expect_refused(kName, large, "the folded weights are not finite in the layer's dtype");
}

TEST(FuseBatchNorm1d, RefusesAnInputWrittenBetween) {
  expect_refused(
      kName,
      with(
          kAten,
          {{"    %batch_norm :",
            "    %w = call_function[target=aten.zero_.default](args = (%x,))\n    %batch_norm :"}}),
      "the input may be written in place between the linear and the batch norm");
  expect_refused(
      kName,
      with(kModuleFirst,
           {{"    %net_fc =", "    %w = call_method[target=zero_](args = (%x,))\n    %net_fc ="}}),
      "the input may be written in place between the linear and the batch norm");
}

// ---- changed since -----------------------------------------------------------------------------

TEST(FuseBatchNorm1d, RefusesToReverseWhatWasTrainedSince) {
  const Model before = parse_filled(kModuleFirst);
  Model model = apply_to(before);
  train(model, "net.fc.weight");
  const std::string was = snapshot(model);
  const std::string error = error_of([&] { reverse_all(model); });
  EXPECT_NE(error.find("'net.fc.weight' was changed since"), std::string::npos) << error;
  EXPECT_EQ(snapshot(model), was);
  reverse_all(model, {.discard_changes = true});
  EXPECT_EQ(snapshot(model), snapshot(before));
}

}  // namespace
}  // namespace refx::testing
