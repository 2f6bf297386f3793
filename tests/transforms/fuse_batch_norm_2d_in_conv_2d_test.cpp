// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "fuse-batch-norm-2d-in-conv-2d";

const std::string kAten = R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
parameter bn.weight : f32[6]
parameter bn.bias : f32[6]
buffer bn.running_mean : f32[6]
buffer bn.running_var : f32[6]
graph():
    %p_conv_weight : f32[6, 4, 3, 3] = placeholder[target=p_conv_weight](state=conv.weight)
    %p_conv_bias : f32[6] = placeholder[target=p_conv_bias](state=conv.bias)
    %p_bn_weight : f32[6] = placeholder[target=p_bn_weight](state=bn.weight)
    %p_bn_bias : f32[6] = placeholder[target=p_bn_bias](state=bn.bias)
    %b_bn_running_mean : f32[6] = placeholder[target=b_bn_running_mean](state=bn.running_mean)
    %b_bn_running_var : f32[6] = placeholder[target=b_bn_running_var](state=bn.running_var)
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %conv2d : f32[2, 6, 5, 5] = call_function[target=aten.conv2d.default](args = (%x, %p_conv_weight, %p_conv_bias))
    %batch_norm : f32[2, 6, 5, 5] = call_function[target=aten.batch_norm.default](args = (%conv2d, %p_bn_weight, %p_bn_bias, %b_bn_running_mean, %b_bn_running_var, False, 0.1, 0.001, True))
    return batch_norm
)";

const std::string kModule = R"(
parameter net.conv.weight : f32[6, 4, 3, 3]
parameter net.conv.bias : f32[6]
parameter net.bn.weight : f32[6]
parameter net.bn.bias : f32[6]
buffer net.bn.running_mean : f32[6]
buffer net.bn.running_var : f32[6]
buffer net.bn.num_batches_tracked : i64[]
module net.conv : torch.nn.Conv2d(in_channels=4, out_channels=6, kernel_size=(3, 3), bias=True)
module net.bn : torch.nn.BatchNorm2d(num_features=6, eps=0.001)
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %net_conv = call_module[target=net.conv](args = (%x,))
    %net_bn = call_module[target=net.bn](args = (%net_conv,))
    return net_bn
)";

const std::string kFunctional = R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
parameter bn.weight : f32[6]
parameter bn.bias : f32[6]
buffer bn.running_mean : f32[6]
buffer bn.running_var : f32[6]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %conv_weight = get_attr[target=conv.weight]
    %conv_bias = get_attr[target=conv.bias]
    %conv2d = call_function[target=torch.conv2d](args = (%x, %conv_weight, %conv_bias), kwargs = {padding: 1})
    %mean = get_attr[target=bn.running_mean]
    %var = get_attr[target=bn.running_var]
    %weight = get_attr[target=bn.weight]
    %bias = get_attr[target=bn.bias]
    %batch_norm = call_function[target=torch.nn.functional.batch_norm](args = (%conv2d, %mean, %var), kwargs = {weight: %weight, bias: %bias, eps: 0.001})
    return batch_norm
)";

std::string without_conv_bias(const std::string& text) {
  if (&text == &kModule)
    return with(text, {{"parameter net.conv.bias : f32[6]\n", ""}, {"bias=True", "bias=False"}});
  if (&text == &kFunctional)
    return with(text, {{"parameter conv.bias : f32[6]\n", ""},
                       {"    %conv_bias = get_attr[target=conv.bias]\n", ""},
                       {", %conv_bias", ""}});
  return with(
      text, {{"parameter conv.bias : f32[6]\n", ""},
             {"    %p_conv_bias : f32[6] = placeholder[target=p_conv_bias](state=conv.bias)\n", ""},
             {", %p_conv_bias", ""}});
}

// The module dialect with other hyper-parameters and sizes of the convolution.
std::string module_with(const std::string& parameters, const std::string& weight,
                        const std::string& type = "Conv2d") {
  return with(kModule,
              {{"torch.nn.Conv2d(in_channels=4, out_channels=6, kernel_size=(3, 3), bias=True)",
                fmt::format("torch.nn.{}({}, bias=True)", type, parameters)},
               {"f32[6, 4, 3, 3]", weight}});
}

Model apply_to(const Model& original) {
  Model model = original;
  find_transformation(kName)(model);
  return model;
}

// ---- the rewrite -------------------------------------------------------------------------------

TEST(FuseBatchNorm2d, FoldsInTheAtenDialect) {
  expect_rewritten(kName, kAten, R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
graph():
    %p_conv_weight : f32[6, 4, 3, 3] = placeholder[target=p_conv_weight](state=conv.weight)
    %p_conv_bias : f32[6] = placeholder[target=p_conv_bias](state=conv.bias)
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %batch_norm : f32[2, 6, 5, 5] = call_function[target=aten.conv2d.default](args = (%x, %p_conv_weight, %p_conv_bias))  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return batch_norm
)");
}

TEST(FuseBatchNorm2d, FoldsModules) {
  expect_rewritten(kName, kModule, R"(
parameter net.conv.weight : f32[6, 4, 3, 3]
parameter net.conv.bias : f32[6]
module net.conv : torch.nn.Conv2d(in_channels=4, out_channels=6, kernel_size=(3, 3), bias=True)
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %net_bn = call_module[target=net.conv](args = (%x,))  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return net_bn
)");
}

TEST(FuseBatchNorm2d, FoldsFunctions) {
  expect_rewritten(kName, kFunctional, R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %conv_weight = get_attr[target=conv.weight]
    %conv_bias = get_attr[target=conv.bias]
    %batch_norm = call_function[target=torch.conv2d](args = (%x, %conv_weight, %conv_bias), kwargs = {padding: 1})  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return batch_norm
)");
}

TEST(FuseBatchNorm2d, AddsABiasInTheAtenDialect) {
  expect_rewritten(kName, without_conv_bias(kAten), R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
graph():
    %p_conv_weight : f32[6, 4, 3, 3] = placeholder[target=p_conv_weight](state=conv.weight)
    %p_conv_bias : f32[6] = placeholder[target=p_conv_bias](state=conv.bias)
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %batch_norm : f32[2, 6, 5, 5] = call_function[target=aten.conv2d.default](args = (%x, %p_conv_weight, %p_conv_bias))  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return batch_norm
)");
}

TEST(FuseBatchNorm2d, AddsABiasToAModule) {
  expect_rewritten(kName, without_conv_bias(kModule), R"(
parameter net.conv.weight : f32[6, 4, 3, 3]
parameter net.conv.bias : f32[6]
module net.conv : torch.nn.Conv2d(in_channels=4, out_channels=6, kernel_size=(3, 3), bias=True)
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %net_bn = call_module[target=net.conv](args = (%x,))  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return net_bn
)");
}

TEST(FuseBatchNorm2d, AddsABiasToAFunction) {
  expect_rewritten(kName, without_conv_bias(kFunctional), R"(
parameter conv.weight : f32[6, 4, 3, 3]
parameter conv.bias : f32[6]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %conv_weight = get_attr[target=conv.weight]
    %conv_bias : f32[6] = get_attr[target=conv.bias]
    %batch_norm = call_function[target=torch.conv2d](args = (%x, %conv_weight, %conv_bias), kwargs = {padding: 1})  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return batch_norm
)");
}

// "kernel.bias" could not be an attribute: kernel is a tensor, not a module.
TEST(FuseBatchNorm2d, AddsABiasBesideATensorWithoutAModule) {
  expect_rewritten(kName, R"(
parameter kernel : f32[6, 4, 3, 3]
buffer mean : f32[6]
buffer var : f32[6]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %kernel = get_attr[target=kernel]
    %conv2d = call_function[target=torch.conv2d](args = (%x, %kernel))
    %mean = get_attr[target=mean]
    %var = get_attr[target=var]
    %batch_norm = call_function[target=torch.nn.functional.batch_norm](args = (%conv2d, %mean, %var))
    return batch_norm
)",
                   R"(
parameter kernel : f32[6, 4, 3, 3]
parameter kernel_bias : f32[6]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %kernel = get_attr[target=kernel]
    %kernel_bias : f32[6] = get_attr[target=kernel_bias]
    %batch_norm = call_function[target=torch.conv2d](args = (%x, %kernel, %kernel_bias))  # marks ["fuse-batch-norm-2d-in-conv-2d"]
    return batch_norm
)");
}

// Two convolutions with one weight, each with a batch norm.
const std::string kShared = R"(
parameter w : f32[6, 4, 3, 3]
buffer a.mean : f32[6]
buffer a.var : f32[6]
buffer b.mean : f32[6]
buffer b.var : f32[6]
graph():
    %p_w : f32[6, 4, 3, 3] = placeholder[target=p_w](state=w)
    %a_mean : f32[6] = placeholder[target=a_mean](state=a.mean)
    %a_var : f32[6] = placeholder[target=a_var](state=a.var)
    %b_mean : f32[6] = placeholder[target=b_mean](state=b.mean)
    %b_var : f32[6] = placeholder[target=b_var](state=b.var)
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %c : f32[2, 6, 5, 5] = call_function[target=aten.conv2d.default](args = (%x, %p_w))
    %a : f32[2, 6, 5, 5] = call_function[target=aten.batch_norm.default](args = (%c, None, None, %a_mean, %a_var, False, 0.1, 0.001, True))
    %d : f32[2, 6, 5, 5] = call_function[target=aten.conv2d.default](args = (%x, %p_w))
    %b : f32[2, 6, 5, 5] = call_function[target=aten.batch_norm.default](args = (%d, None, None, %b_mean, %b_var, False, 0.1, 0.001, True))
    return (a, b)
)";

TEST(FuseBatchNorm2d, GivesOneOfTwoThatShareAWeightItsOwn) {
  const Model original = parse_filled(kShared);
  expect_applies(kName, original);
  const std::vector<c10::IValue> inputs = random_inputs(original);
  for (const std::uint32_t first : {1u, 2u}) {
    Model model = apply_to(original);
    ASSERT_EQ(model.history().size(), 2u);
    EXPECT_EQ(print(model).find("batch_norm"), std::string::npos);
    reverse(model, StepId(first));
    EXPECT_EQ(model.history().size(), 1u);
    expect_same_results(original, model, inputs);
    reverse_all(model);
    EXPECT_EQ(snapshot(model), snapshot(original));
  }
}

TEST(FuseBatchNorm2d, NamesItsSiteAfterBoth) {
  EXPECT_EQ(site_names(kName, parse_filled(kAten)), Names{"{conv,bn}"});
  EXPECT_EQ(site_names(kName, parse_filled(kModule)), Names{"net.{conv,bn}"});
}

TEST(FuseBatchNorm2d, FoldsInDoubleAndRoundsOnce) {
  const Model before = parse_filled(kAten), after = apply_to(before);
  auto exact = [&](const char* name) { return tensor(before, name).to(at::kDouble); };
  const at::Tensor scale = exact("bn.weight") / (exact("bn.running_var") + 0.001).sqrt();
  const at::Tensor weight = exact("conv.weight") * scale.reshape({6, 1, 1, 1});
  const at::Tensor bias =
      exact("conv.bias") * scale + (exact("bn.bias") - exact("bn.running_mean") * scale);
  EXPECT_TRUE(at::equal(tensor(after, "conv.weight"), weight.to(at::kFloat)));
  EXPECT_TRUE(at::equal(tensor(after, "conv.bias"), bias.to(at::kFloat)));
}

// ---- what may be folded ------------------------------------------------------------------------

TEST(FuseBatchNorm2d, FoldsIntoAGroupedConvolution) {
  expect_applies(kName, module_with("groups=2", "f32[6, 2, 3, 3]"));
  expect_applies(kName,
                 with(kAten, {{"f32[6, 4, 3, 3]", "f32[6, 2, 3, 3]"},
                              {"%p_conv_bias))", "%p_conv_bias, [1, 1], [0, 0], [1, 1], 2))"}}));
}

TEST(FuseBatchNorm2d, FoldsIntoADepthwiseConvolution) {
  expect_applies(kName, with(module_with("groups=6", "f32[6, 1, 3, 3]"),
                             {{"f32[2, 4, 7, 7]", "f32[2, 6, 7, 7]"}}));
}

TEST(FuseBatchNorm2d, FoldsIntoAStridedDilatedConvolution) {
  expect_applies(kName,
                 module_with("stride=2, dilation=(2, 1), padding=(1, 0)", "f32[6, 4, 3, 3]"));
}

TEST(FuseBatchNorm2d, FoldsIntoATransposedConvolution) {
  expect_applies(kName,
                 module_with("stride=2, output_padding=1", "f32[4, 6, 3, 3]", "ConvTranspose2d"));
  expect_applies(kName, with(kAten, {{"f32[6, 4, 3, 3]", "f32[4, 6, 3, 3]"},
                                     {"f32[2, 6, 5, 5]", "f32[2, 6, 9, 9]"},
                                     {"aten.conv2d.default", "aten.conv_transpose2d.input"}}));
  expect_applies(kName, with(kFunctional, {{"f32[6, 4, 3, 3]", "f32[4, 6, 3, 3]"},
                                           {"torch.conv2d", "torch.conv_transpose2d"}}));
}

TEST(FuseBatchNorm2d, FoldsIntoATransposedConvolutionWithGroups) {
  expect_applies(kName, module_with("groups=2", "f32[4, 3, 3, 3]", "ConvTranspose2d"));
  expect_applies(kName, with(kFunctional, {{"f32[6, 4, 3, 3]", "f32[4, 3, 3, 3]"},
                                           {"torch.conv2d", "torch.nn.functional.conv_transpose2d"},
                                           {"padding: 1", "padding: 1, groups: 2"}}));
}

TEST(FuseBatchNorm2d, FoldsIntoAGeneralConvolution) {
  expect_applies(kName,
                 with(kAten, {{"aten.conv2d.default", "aten.convolution.default"},
                              {"%p_conv_bias))",
                               "%p_conv_bias, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))"}}));
  expect_applies(
      kName,
      with(kAten, {{"aten.conv2d.default", "aten.convolution.default"},
                   {"f32[6, 4, 3, 3]", "f32[4, 3, 3, 3]"},
                   {"f32[2, 6, 5, 5]", "f32[2, 6, 9, 9]"},
                   {"%p_conv_bias))", "%p_conv_bias, [1, 1], [0, 0], [1, 1], True, [0, 0], 2))"}}));
  expect_applies(kName,
                 with(without_conv_bias(kAten),
                      {{"aten.conv2d.default", "aten.convolution.default"},
                       {"%p_conv_weight))",
                        "%p_conv_weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))"}}));
}

TEST(FuseBatchNorm2d, FoldsUnderEveryPaddingMode) {
  for (const char* mode : {"zeros", "reflect", "replicate", "circular"})
    expect_applies(
        kName, module_with(fmt::format("padding=2, padding_mode='{}'", mode), "f32[6, 4, 3, 3]"));
}

TEST(FuseBatchNorm2d, FoldsUnderPaddingByName) {
  for (const char* padding : {"same", "valid"}) {
    expect_applies(kName, module_with(fmt::format("padding='{}'", padding), "f32[6, 4, 3, 3]"));
    expect_applies(kName,
                   with(kFunctional, {{"padding: 1", fmt::format("padding: '{}'", padding)}}));
  }
  expect_applies(kName, with(kAten, {{"aten.conv2d.default", "aten.conv2d.padding"},
                                     {"%p_conv_bias))", "%p_conv_bias, [1, 1], 'valid'))"}}));
  expect_applies(kName, module_with("padding='same', padding_mode='reflect'", "f32[6, 4, 3, 3]"));
}

TEST(FuseBatchNorm2d, KeepsChannelsLast) {
  const std::string text =
      with(kModule, {{"f32[6, 4, 3, 3]", "f32[6, 4, 3, 3] strides=(36, 1, 12, 4)"}});
  expect_applies(kName, text);
  const Model before = parse_filled(text);
  EXPECT_EQ(tensor(apply_to(before), "net.conv.weight").strides(),
            tensor(before, "net.conv.weight").strides());
}

TEST(FuseBatchNorm2d, FoldsAnExpandedWeight) {
  Model before = parse_filled(kModule);
  Editor editor(before);
  editor.set_state(before.state().find("net.conv.weight"),
                   at::rand({6, 1, 3, 3}).expand({6, 4, 3, 3}));
  editor.commit_as_origin();
  expect_applies(kName, before);
}

TEST(FuseBatchNorm2d, KeepsDynamicShapes) {
  const std::string text =
      with(kAten, {{"f32[2, 4, 7, 7]", "f32[s0{2}, 4, s1{7}, s1{7}]"},
                   {"f32[2, 6, 5, 5]", "f32[s0{2}, 6, s1 - 2{5}, s1 - 2{5}]"}});
  expect_applies(kName, text);
  EXPECT_EQ(print(*node(apply_to(parse_filled(text)), "batch_norm").type),
            "f32[s0{2}, 6, s1 - 2{5}, s1 - 2{5}]");
}

TEST(FuseBatchNorm2d, TakesKeywordArguments) {
  expect_applies(
      kName, with(kFunctional, {{"args = (%x, %conv_weight, %conv_bias), kwargs = {padding: 1}",
                                 "kwargs = {input: %x, weight: %conv_weight, bias: %conv_bias}"}}));
  expect_applies(kName, with(without_conv_bias(kFunctional),
                             {{"args = (%x, %conv_weight), kwargs = {padding: 1}",
                               "kwargs = {input: %x, weight: %conv_weight}"}}));
  expect_applies(
      kName,
      with(kFunctional, {{"args = (%conv2d, %mean, %var), kwargs = {",
                          "kwargs = {input: %conv2d, running_mean: %mean, running_var: %var, "}}));
  expect_applies(kName, with(kModule, {{"args = (%x,)", "kwargs = {input: %x}"},
                                       {"args = (%net_conv,)", "kwargs = {input: %net_conv}"}}));
}

TEST(FuseBatchNorm2d, TakesTheOrderOfTorchBatchNorm) {
  expect_applies(
      kName,
      with(kFunctional,
           {{"torch.nn.functional.batch_norm", "torch.batch_norm"},
            {"args = (%conv2d, %mean, %var), kwargs = {weight: %weight, bias: %bias, eps: 0.001}",
             "args = (%conv2d, %weight, %bias, %mean, %var, False, 0.1, 0.001, True)"}}));
}

TEST(FuseBatchNorm2d, ReadsEpsHoweverItIsWritten) {
  for (const char* eps : {"1", "0", "0.5"}) {
    expect_applies(kName, with(kAten, {{"0.001", eps}}));
    expect_applies(kName, with(kFunctional, {{"0.001", eps}}));
    expect_applies(kName, with(kModule, {{"0.001", eps}}));
  }
  expect_applies(kName, with(kModule, {{", eps=0.001", ""}}));
}

TEST(FuseBatchNorm2d, FoldsTwoBatchNormsOneAfterTheOther) {
  const std::string text =
      with(kModule, {{"module net.conv", R"(parameter bn2.weight : f32[6]
parameter bn2.bias : f32[6]
buffer bn2.running_mean : f32[6]
buffer bn2.running_var : f32[6]
module bn2 : torch.nn.BatchNorm2d(num_features=6)
module net.conv)"},
                     {"    return net_bn",
                      "    %bn2 = call_module[target=bn2](args = (%net_bn,))\n    return bn2"}});
  expect_applies(kName, text);
  const Model before = parse_filled(text), after = apply_to(before);
  EXPECT_EQ(after.history().size(), 2u);
  EXPECT_EQ(after.graph().size(), 3u);
}

TEST(FuseBatchNorm2d, FoldsEveryPairOfAModel) {
  const std::string text =
      with(kFunctional, {{"graph():", R"(parameter c2.weight : f32[3, 6, 1, 1]
buffer b2.mean : f32[3]
buffer b2.var : f32[3]
graph():)"},
                         {"    return batch_norm",
                          R"(    %relu = call_function[target=torch.relu](args = (%batch_norm,))
    %w2 = get_attr[target=c2.weight]
    %c2 = call_function[target=torch.conv2d](args = (%relu, %w2))
    %m2 = get_attr[target=b2.mean]
    %v2 = get_attr[target=b2.var]
    %b2 = call_function[target=torch.nn.functional.batch_norm](args = (%c2, %m2, %v2))
    return b2)"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse_filled(text)), (Names{"{conv,bn}", "{c2,b2}"}));
}

TEST(FuseBatchNorm2d, KeepsRequiresGrad) {
  const std::string text =
      with(without_conv_bias(kModule), {{"f32[6, 4, 3, 3]", "f32[6, 4, 3, 3] requires_grad=True"}});
  expect_applies(kName, text);
  const Model after = apply_to(parse_filled(text));
  EXPECT_TRUE(tensor(after, "net.conv.weight").requires_grad());
  EXPECT_TRUE(tensor(after, "net.conv.bias").requires_grad());
  EXPECT_FALSE(
      tensor(apply_to(parse_filled(without_conv_bias(kModule))), "net.conv.bias").requires_grad());
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(FuseBatchNorm2d, IgnoresABatchNormOfAnotherKind) {
  expect_no_match(kName, R"(
buffer m : f32[4]
buffer v : f32[4]
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %mean = get_attr[target=m]
    %var = get_attr[target=v]
    %y = call_function[target=torch.nn.functional.batch_norm](args = (%x, %mean, %var))
    return y
)");
  expect_no_match(kName, with(kModule, {{"torch.nn.BatchNorm2d", "my.BatchNorm2d"}}));
}

TEST(FuseBatchNorm2d, RefusesAnotherConvolution) {
  for (const char* target : {"mylib.conv2d.default", "my.conv2d"})
    expect_refused(kName, with(kAten, {{"aten.conv2d.default", target}}),
                   "its input 'conv2d' is not a convolution");
  for (const char* type : {"my.Conv2d", "torch.nn.LazyConv2d"})
    expect_refused(kName, with(kModule, {{"torch.nn.Conv2d", type}}),
                   "its input 'net_conv' is not a convolution");
  expect_refused(kName, with(kModule, {{"torch.nn.Conv2d", "torch.nn.Conv3d"}}),
                 "it is not a two-dimensional convolution");
}

TEST(FuseBatchNorm2d, RefusesAnActivationBetween) {
  expect_refused(
      kName,
      with(kModule,
           {{"    %net_bn =",
             "    %relu = call_function[target=torch.relu](args = (%net_conv,))\n    %net_bn ="},
            {"(%net_conv,))\n    return", "(%relu,))\n    return"}}),
      "its input 'relu' is not a convolution");
}

TEST(FuseBatchNorm2d, RefusesPaddingBetween) {
  expect_refused(
      kName,
      with(kAten,
           {{"    %batch_norm :",
             "    %pad : f32[2, 6, 7, 7] = call_function[target=aten.constant_pad_nd.default](args "
             "= (%conv2d, [1, 1, 1, 1], 0))\n    %batch_norm :"},
            {"(args = (%conv2d, %p_bn", "(args = (%pad, %p_bn"}}),
      "its input 'pad' is not a convolution");
}

TEST(FuseBatchNorm2d, RefusesANormThatIsFirst) {
  expect_refused(
      kName,
      with(kModule,
           {{"[target=net.conv](args = (%x,))", "[target=net.bn](args = (%x,))"},
            {"[target=net.bn](args = (%net_conv,))", "[target=net.conv](args = (%net_conv,))"}}),
      "its input 'x' is not a convolution");
}

TEST(FuseBatchNorm2d, LeavesConvolutionsOfOtherDimensionsToOthers) {
  const std::string text =
      with(kAten, {{"aten.conv2d.default", "aten.convolution.default"},
                   {"%p_conv_bias))", "%p_conv_bias, [1], [0], [1], False, [0], 1))"},
                   {"f32[6, 4, 3, 3]", "f32[6, 4, 3]"},
                   {"f32[2, 4, 7, 7]", "f32[2, 4, 7]"},
                   {"f32[2, 6, 5, 5]", "f32[2, 6, 5]"}});
  expect_no_match(kName, text);
  expect_applies("fuse-batch-norm-in-conv-1d", text);
  // Its weight does not fit the operator, which would raise an error.
  expect_refused(kName, with(kAten, {{"f32[6, 4, 3, 3]", "f32[6, 4, 3]"}}),
                 "its weight does not have the dimensions of the convolution");
}

TEST(FuseBatchNorm2d, RefusesAnUnbatchedConvolution) {
  // A batch norm over (6, 6, 5) takes the rows of each channel for channels.
  expect_refused(
      kName,
      with(kAten, {{"f32[2, 4, 7, 7]", "f32[4, 8, 7]"}, {"f32[2, 6, 5, 5]", "f32[6, 6, 5]"}}),
      "the convolution's result has 3 dimensions: its channels are not the second dimension");
  expect_refused(
      kName, with(kFunctional, {{"f32[2, 4, 7, 7]", "f32[4, 6, 7]"}}),
      "the convolution's result has 3 dimensions: its channels are not the second dimension");
  expect_refused(kName,
                 with(kModule, {{"torch.nn.BatchNorm2d", "torch.nn.BatchNorm1d"},
                                {"%x : f32[2, 4, 7, 7]", "%x"}}),
                 "the batch norm is one-dimensional");
  expect_refused(kName, with(kModule, {{"torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d"}}),
                 "the batch norm is three-dimensional");
}

TEST(FuseBatchNorm2d, RefusesAnotherNumberOfChannels) {
  expect_refused(kName,
                 with(kModule, {{"net.bn.weight : f32[6]", "net.bn.weight : f32[3]"},
                                {"net.bn.bias : f32[6]", "net.bn.bias : f32[3]"},
                                {"running_mean : f32[6]", "running_mean : f32[3]"},
                                {"running_var : f32[6]", "running_var : f32[3]"}}),
                 "the batch norm and the convolution have different numbers of channels");
}

TEST(FuseBatchNorm2d, RefusesAnInputWrittenBetween) {
  const std::string reason =
      "the convolution's input may be written in place before the batch norm";
  expect_refused(
      kName,
      with(
          kAten,
          {{"    %batch_norm :",
            "    %w = call_function[target=aten.zero_.default](args = (%x,))\n    %batch_norm :"}}),
      reason);
  expect_refused(
      kName,
      with(kModule, {{"    %net_bn =",
                      "    %w = call_function[target=my.function](args = (%x,))\n    %net_bn ="}}),
      reason);
}

// Only applying tells: the others are folded, and it is left as it was.
TEST(FuseBatchNorm2dInConv2d, LeavesOneThatIsNotFiniteAmongOthers) {
  const std::string text = R"(
parameter a.weight : f32[4, 4, 1, 1]
parameter b.weight : f32[4, 4, 1, 1]
parameter c.weight : f32[4, 4, 1, 1]
buffer mean : f32[4]
buffer var : f32[4]
buffer mean_b : f32[4]
buffer var_b : f32[4]
buffer mean_c : f32[4]
buffer var_c : f32[4]
graph():
    %x : f32[2, 4, 7, 7] = placeholder[target=x]
    %a = get_attr[target=a.weight]
    %b = get_attr[target=b.weight]
    %c = get_attr[target=c.weight]
    %mean = get_attr[target=mean]
    %var = get_attr[target=var]
    %mean_b = get_attr[target=mean_b]
    %var_b = get_attr[target=var_b]
    %mean_c = get_attr[target=mean_c]
    %var_c = get_attr[target=var_c]
    %conv_a = call_function[target=torch.conv2d](args = (%x, %a))
    %norm_a = call_function[target=torch.nn.functional.batch_norm](args = (%conv_a, %mean, %var))
    %conv_b = call_function[target=torch.conv2d](args = (%norm_a, %b))
    %norm_b = call_function[target=torch.nn.functional.batch_norm](args = (%conv_b, %mean_b, %var_b))
    %conv_c = call_function[target=torch.conv2d](args = (%norm_b, %c))
    %norm_c = call_function[target=torch.nn.functional.batch_norm](args = (%conv_c, %mean_c, %var_c))
    return norm_c
)";
  for (const double wrong : {static_cast<double>(INFINITY), static_cast<double>(NAN), 3e38}) {
    const Model before = parse_filled(text);
    for (const char* var : {"var", "var_b", "var_c"}) tensor(before, var).fill_(0.01);
    tensor(before, "mean_c").fill_(NAN);
    tensor(before, "b.weight").select(0, 3).select(0, 2).fill_(wrong);
    const Findings found = find_sites(before, find_transformation(kName));
    EXPECT_EQ(found.sites.size(), 1u);
    Model model = before;
    const Outcome outcome = find_transformation(kName)(model);
    EXPECT_EQ(outcome.steps.size(), 1u);
    EXPECT_EQ(told(outcome.refusals), told(found.refusals));
    ASSERT_EQ(outcome.refusals.size(), 2u);
    EXPECT_EQ(outcome.refusals[0].reason, because<ReasonId::folded_not_finite>());
    EXPECT_TRUE(
        model.state().tensor(model.state().find("b.weight")).is_same(tensor(before, "b.weight")));
    reverse_all(model);
    EXPECT_EQ(snapshot(model), snapshot(before));
  }
}

}  // namespace
}  // namespace refx::testing
