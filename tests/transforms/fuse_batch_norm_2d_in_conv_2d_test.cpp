#include <ATen/ops/equal.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <cmath>

#include "refx/builder.h"
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

TEST(FuseBatchNorm2d, WorksWithoutAffine) {
  expect_applies(
      kName,
      with(kModule, {{"parameter net.bn.weight : f32[6]\nparameter net.bn.bias : f32[6]\n", ""},
                     {"eps=0.001", "affine=False"}}));
  expect_applies(kName,
                 with(without_conv_bias(kModule),
                      {{"parameter net.bn.weight : f32[6]\nparameter net.bn.bias : f32[6]\n", ""},
                       {"eps=0.001", "affine=False"}}));
  expect_applies(kName,
                 with(kAten, {{"%conv2d, %p_bn_weight, %p_bn_bias", "%conv2d, None, None"}}));
  expect_applies(
      kName, with(kFunctional, {{"weight: %weight, bias: %bias, eps: 0.001", "training: False"}}));
}

TEST(FuseBatchNorm2d, WorksWithAWeightAlone) {
  expect_applies(kName, with(kFunctional, {{"bias: %bias, ", ""}}));
}

TEST(FuseBatchNorm2d, WorksWithoutABatchCounter) {
  expect_applies(kName, with(kModule, {{"buffer net.bn.num_batches_tracked : i64[]\n", ""}}));
}

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

TEST(FuseBatchNorm2d, WorksInEveryFloatingType) {
  for (const char* dtype : {"f64", "f16", "bf16"}) {
    expect_applies(kName, with(kAten, {{"f32", dtype}}));
    expect_applies(kName, with(without_conv_bias(kModule), {{"f32", dtype}}));
  }
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

TEST(FuseBatchNorm2d, FoldsWhatIsReturnedAndWrittenAfterwards) {
  expect_applies(
      kName,
      with(kAten, {{"    return batch_norm",
                    R"(    %relu_ = call_function[target=aten.relu_.default](args = (%batch_norm,))
    %zero_ = call_function[target=aten.zero_.default](args = (%x,))
    return (batch_norm, relu_))"}}));
}

TEST(FuseBatchNorm2d, FoldsAZeroScale) {
  Model model = parse_filled(kModule);
  tensor(model, "net.bn.weight").zero_();
  expect_applies(kName, model);
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
  expect_no_match(kName, with(kModule, {{"torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d"}}));
  expect_no_match(kName, with(kModule, {{"torch.nn.BatchNorm2d", "my.BatchNorm2d"}}));
  expect_no_match(kName, with(kAten, {{"aten.batch_norm.default", "mylib.batch_norm.default"}}));
}

TEST(FuseBatchNorm2d, RefusesAnotherConvolution) {
  for (const char* target : {"mylib.conv2d.default", "my.conv2d"})
    expect_refused(kName, with(kAten, {{"aten.conv2d.default", target}}),
                   "its input 'conv2d' is not a convolution");
  for (const char* type : {"my.Conv2d", "torch.nn.LazyConv2d", "torch.nn.Conv3d"})
    expect_refused(kName, with(kModule, {{"torch.nn.Conv2d", type}}),
                   "its input 'net_conv' is not a convolution");
}

TEST(FuseBatchNorm2d, RefusesTrainingMode) {
  const std::string reason = "the batch norm is in training mode";
  expect_refused(kName, with(kModule, {{"eps=0.001)", "eps=0.001) training=True"}}), reason);
  expect_refused(kName, with(kAten, {{"False, 0.1", "True, 0.1"}}), reason);
  expect_refused(kName, with(kFunctional, {{"eps: 0.001", "training: True"}}), reason);
  expect_refused(kName, with(kFunctional, {{"eps: 0.001", "training: 1"}}), reason);
}

TEST(FuseBatchNorm2d, RefusesANormWithoutRunningStatistics) {
  const std::string reason = "the batch norm has no running statistics";
  expect_refused(
      kName,
      with(kModule,
           {{"buffer net.bn.running_mean : f32[6]\nbuffer net.bn.running_var : f32[6]\n", ""},
            {"eps=0.001", "track_running_stats=False"}}),
      reason);
  expect_refused(kName, with(kAten, {{"%b_bn_running_mean, %b_bn_running_var,", "None, None,"}}),
                 reason);
}

TEST(FuseBatchNorm2d, RefusesAnEpsThatIsNotANumber) {
  expect_refused(kName, with(kFunctional, {{"eps: 0.001", "eps: %x"}}),
                 "the batch norm's eps is not a number");
}

TEST(FuseBatchNorm2d, RefusesAResultThatOthersUse) {
  const std::string reason = "the convolution's result is used by others than the batch norm";
  expect_refused(kName, with(kAten, {{"return batch_norm", "return (batch_norm, conv2d)"}}),
                 reason);
  expect_refused(kName,
                 with(kModule, {{"    return net_bn",
                                 "    %add = call_function[target=operator.add](args = (%net_bn, "
                                 "%net_conv))\n    return add"}}),
                 reason);
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

TEST(FuseBatchNorm2d, RefusesAnInPlaceActivationBetween) {
  expect_refused(kName,
                 with(kAten, {{"    %batch_norm :",
                               "    %relu_ = call_function[target=aten.relu_.default](args = "
                               "(%conv2d,))\n    %batch_norm :"}}),
                 "the convolution's result is used by others than the batch norm");
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

TEST(FuseBatchNorm2d, RefusesAConvolutionModuleCalledTwice) {
  expect_refused(kName,
                 with(kModule, {{"    return net_bn",
                                 "    %again = call_module[target=net.conv](args = (%x,))\n    "
                                 "return (net_bn, again)"}}),
                 "module 'net.conv' is used in more than one place");
}

TEST(FuseBatchNorm2d, RefusesANormModuleCalledTwice) {
  expect_refused(
      kName,
      with(kModule,
           {{"    return net_bn",
             "    %again = call_module[target=net.bn](args = (%net_bn,))\n    return again"}}),
      "module 'net.bn' is used in more than one place");
}

TEST(FuseBatchNorm2d, RefusesModulesWithHooks) {
  expect_refused(kName, with(kModule, {{"bias=True)", "bias=True) custom=\"has a forward hook\""}}),
                 "module 'net.conv' has a forward hook");
  expect_refused(kName, with(kModule, {{"eps=0.001)", "eps=0.001) custom=\"has a forward hook\""}}),
                 "module 'net.bn' has a forward hook");
}

TEST(FuseBatchNorm2d, RefusesAModuleCalledWithMore) {
  expect_refused(kName, with(kModule, {{"(args = (%x,))", "(args = (%x, [9, 9]))"}}),
                 "module 'net.conv' is not called with one tensor");
}

TEST(FuseBatchNorm2d, RefusesSharedTensors) {
  expect_refused(kName, with(kAten, {{"return batch_norm", "return (batch_norm, p_conv_weight)"}}),
                 "'conv.weight' is used in more than one place");
  expect_refused(kName, with(kAten, {{"return batch_norm", "return (batch_norm, p_conv_bias)"}}),
                 "'conv.bias' is used in more than one place");
  expect_refused(kName,
                 with(kAten, {{"return batch_norm", "return (batch_norm, b_bn_running_var)"}}),
                 "'bn.running_var' is used in more than one place");
  expect_refused(
      kName,
      with(kModule, {{"    return net_bn",
                      "    %m = get_attr[target=net.bn.running_mean]\n    return (net_bn, m)"}}),
      "'net.bn.running_mean' is used in more than one place");
}

TEST(FuseBatchNorm2d, RefusesABatchCounterThatOthersRead) {
  expect_refused(
      kName,
      with(kModule,
           {{"    return net_bn",
             "    %n = get_attr[target=net.bn.num_batches_tracked]\n    return (net_bn, n)"}}),
      "'net.bn.num_batches_tracked' is used in more than one place");
}

TEST(FuseBatchNorm2d, RefusesTiedTensors) {
  expect_refused(
      kName,
      with(kModule, {{"module net.conv",
                      "parameter tied : f32[6, 4, 3, 3] shares=net.conv.weight\nmodule net.conv"}}),
      "'net.conv.weight' shares its memory with another tensor");
  expect_refused(
      kName,
      with(kModule, {{"running_var : f32[6]", "running_var : f32[6] shares=net.bn.running_mean"}}),
      "shares its memory with another tensor");
}

TEST(FuseBatchNorm2d, RefusesStatisticsThatTheModelChanges) {
  expect_refused(kName,
                 with(kAten, {{"graph():", "mutates bn.running_mean = output 0\ngraph():"},
                              {"return batch_norm", "return (batch_norm,)"}}),
                 "'bn.running_mean' is changed by the model itself");
}

TEST(FuseBatchNorm2d, RefusesComputedTensors) {
  expect_refused(kName,
                 with(kAten, {{"    %conv2d :",
                               "    %exp = call_function[target=aten.exp.default](args = "
                               "(%p_conv_weight,))\n    %conv2d :"},
                              {"(%x, %p_conv_weight", "(%x, %exp"}}),
                 "its weight is computed, not stored");
  expect_refused(kName,
                 with(kAten, {{"    %conv2d :",
                               "    %exp = call_function[target=aten.exp.default](args = "
                               "(%p_conv_bias,))\n    %conv2d :"},
                              {"%p_conv_weight, %p_conv_bias", "%p_conv_weight, %exp"}}),
                 "its bias is computed, not stored");
  for (const char* part :
       {"%p_bn_weight,", "%p_bn_bias,", "%b_bn_running_mean,", "%b_bn_running_var,"})
    expect_refused(kName,
                   with(kAten, {{part, "%exp,"},
                                {"    %conv2d :",
                                 "    %exp = call_function[target=aten.exp.default](args = "
                                 "(%p_conv_bias,))\n    %conv2d :"}}),
                   "a tensor of the batch norm is computed, not stored");
}

TEST(FuseBatchNorm2d, RefusesTensorsThatAreInputs) {
  for (const char* part :
       {"%p_bn_weight,", "%p_bn_bias,", "%b_bn_running_mean,", "%b_bn_running_var,"})
    expect_refused(kName,
                   with(kAten, {{part, "%w,"},
                                {"    %x :", "    %w : f32[6] = placeholder[target=w]\n    %x :"}}),
                   "a tensor of the batch norm is an input, not stored");
}

TEST(FuseBatchNorm2d, RefusesDifferentTypes) {
  expect_refused(kName, with(kModule, {{"running_var : f32", "running_var : f64"}}),
                 "the layer is Float but the batch norm's 'net.bn.running_var' is Double");
  expect_refused(kName,
                 with(kModule, {{"conv.weight : f32", "conv.weight : f16"},
                                {"conv.bias : f32", "conv.bias : f16"}}),
                 "the layer is Half but the batch norm's 'net.bn.weight' is Float");
  expect_refused(kName, with(kModule, {{"conv.bias : f32", "conv.bias : f64"}}),
                 "weight and bias have different dtypes");
}

Model with_weight(const at::Tensor& weight) {
  Builder b;
  const NodeId w = b.parameter("conv.weight", weight), m = b.buffer("bn.mean", at::rand({6})),
               v = b.buffer("bn.var", at::rand({6}));
  const NodeId x = b.input("x");
  const NodeId y = b.call("aten.conv2d.default", {x, w});
  return b.build(
      b.call("aten.batch_norm.default", {y, None{}, None{}, m, v, false, 0.1, 1e-5, true}));
}

TEST(FuseBatchNorm2d, RefusesAQuantizedWeight) {
  expect_refused(kName,
                 with_weight(at::quantize_per_tensor(at::rand({6, 4, 3, 3}), 0.1, 0, at::kQInt8)),
                 "'conv.weight' is quantized");
}

TEST(FuseBatchNorm2d, RefusesASparseWeight) {
  expect_refusal(kName, with_weight(at::rand({6, 4, 3, 3}).to_sparse()), "'conv.weight' is sparse");
}

TEST(FuseBatchNorm2d, RefusesAWeightWithoutData) {
  expect_refusal(kName, with_weight(at::rand({6, 4, 3, 3}, at::device(at::kMeta))),
                 "'conv.weight' has no data (meta device)");
}

TEST(FuseBatchNorm2d, RefusesAConvolutionOfAnotherDimension) {
  expect_refused(kName,
                 with(kAten, {{"aten.conv2d.default", "aten.convolution.default"},
                              {"f32[6, 4, 3, 3]", "f32[6, 4, 3]"},
                              {"f32[2, 4, 7, 7]", "f32[2, 4, 7]"},
                              {"f32[2, 6, 5, 5]", "f32[2, 6, 5]"}}),
                 "it is not a two-dimensional convolution");
}

TEST(FuseBatchNorm2d, RefusesAnUnbatchedConvolution) {
  // A batch norm over (6, 6, 5) takes the rows of each channel for channels.
  expect_refused(
      kName,
      with(kAten, {{"f32[2, 4, 7, 7]", "f32[4, 8, 7]"}, {"f32[2, 6, 5, 5]", "f32[6, 6, 5]"}}),
      "the convolution's result has 3 dimensions: its channels are not the second");
  expect_refused(kName, with(kFunctional, {{"f32[2, 4, 7, 7]", "f32[4, 6, 7]"}}),
                 "the convolution's result has 3 dimensions: its channels are not the second");
  expect_refused(kName,
                 with(kModule, {{"torch.nn.BatchNorm2d", "torch.nn.BatchNorm1d"},
                                {"%x : f32[2, 4, 7, 7]", "%x"}}),
                 "the batch norm is one-dimensional");
}

TEST(FuseBatchNorm2d, RefusesAnotherNumberOfChannels) {
  expect_refused(kName,
                 with(kModule, {{"net.bn.weight : f32[6]", "net.bn.weight : f32[3]"},
                                {"net.bn.bias : f32[6]", "net.bn.bias : f32[3]"},
                                {"running_mean : f32[6]", "running_mean : f32[3]"},
                                {"running_var : f32[6]", "running_var : f32[3]"}}),
                 "the batch norm has another number of channels than the convolution");
}

TEST(FuseBatchNorm2d, RefusesTensorsOfTheNormThatDoNotFit) {
  expect_refused(kName, with(kFunctional, {{"bn.running_var : f32[6]", "bn.running_var : f32[1]"}}),
                 "'bn.running_var' has another size than the batch norm's mean");
  expect_refused(kName, with(kFunctional, {{"bn.weight : f32[6]", "bn.weight : f32[1]"}}),
                 "'bn.weight' has another size than the batch norm's mean");
  expect_refused(kName, with(kFunctional, {{"bn.weight : f32[6]", "bn.weight : f32[6, 1]"}}),
                 "'bn.weight' is not a vector");
}

Model with_value(const std::string& name, double value, const std::string& text = kModule) {
  Model model = parse_filled(text);
  tensor(model, name).view(-1)[0] = value;
  return model;
}

TEST(FuseBatchNorm2d, RefusesAVarianceThatHasNoInverseRoot) {
  const std::string reason =
      "var + eps of the batch norm is zero, negative or not finite in some channel";
  for (double value : {-0.001, -1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)})
    expect_refused(
        kName,
        with_value("net.bn.running_var", value,
                   with(kModule, {{"eps=0.001",
                                   value == -0.001 ? "eps=0.0010000000474974513" : "eps=0.001"}})),
        reason);
  expect_refused(
      kName, with_value("net.bn.running_var", 0, with(kModule, {{"eps=0.001", "eps=0"}})), reason);
}

TEST(FuseBatchNorm2d, RefusesAScaleOrShiftThatIsNotFinite) {
  const std::string reason = "the batch norm's scale or shift is not finite in some channel";
  for (const char* name : {"net.bn.weight", "net.bn.bias", "net.bn.running_mean"})
    for (double value : {static_cast<double>(INFINITY), static_cast<double>(NAN)})
      expect_refused(kName, with_value(name, value), reason);
}

TEST(FuseBatchNorm2d, RefusesFoldedWeightsThatAreNotFinite) {
  const std::string reason = "the folded weights are not finite in the layer's dtype";
  expect_refused(kName, with_value("net.conv.weight", NAN), reason);
  expect_refused(kName, with_value("net.conv.bias", INFINITY), reason);
  Model large = parse_filled(with(kModule, {{"f32", "f16"}}));
  tensor(large, "net.bn.weight").fill_(60000);
  tensor(large, "net.bn.running_var").fill_(0.01);
  expect_refused(kName, large, reason);
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

TEST(FuseBatchNorm2d, RefusesABiasThatDoesNotFit) {
  expect_refused(kName, with(kFunctional, {{"conv.bias : f32[6]", "conv.bias : f32[1]"}}),
                 "its bias does not fit its weight");
}

// ---- changed since -----------------------------------------------------------------------------

TEST(FuseBatchNorm2d, RefusesToReverseWhatWasTrainedSince) {
  for (const char* name : {"net.conv.weight", "net.conv.bias"}) {
    const Model before = parse_filled(kModule);
    Model model = apply_to(before);
    train(model, name);
    const std::string was = snapshot(model);
    try {
      reverse_all(model);
      ADD_FAILURE() << "reversed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what())
                    .find(fmt::format(
                        "'{}' was changed since, and the change cannot be carried back", name)),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("discard_changes"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(snapshot(model), was);
    reverse_all(model, {.discard_changes = true});
    EXPECT_EQ(snapshot(model), snapshot(before));
  }
}

TEST(FuseBatchNorm2d, LeavesTheOriginalsAlone) {
  const Model before = parse_filled(kModule);
  const std::string was = snapshot(before);
  apply_to(before);
  EXPECT_EQ(snapshot(before), was);
}

}  // namespace
}  // namespace refx::testing
