// SPDX-License-Identifier: Apache-2.0

// What all foldings of a batch norm share: each row holds for a linear and for every kind of
// convolution before the norm. What only some of them do is in their own files.

#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "refx/builder.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

// The words in capitals in the texts below, for one kind of layer.
struct Kind {
  const char *name, *transformation;
  Changes words;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

const Kind kKinds[] = {
    {"Linear",
     "fuse-batch-norm-1d-in-linear",
     {{"LAYER", "fc"},
      {"CALL", "linear"},
      {"OVERLOAD", "default"},
      {"WORD", "linear"},
      {"MODULE", "Linear(in_features=4, out_features=6, bias=True)"},
      {"NORM", "BatchNorm1d"},
      {"WEIGHT", "f32[6, 4]"},
      {"INPUT", "f32[3, 4]"},
      {"RESULT", "f32[3, 6]"}}},
    {"Convolution",
     "fuse-batch-norm-2d-in-conv-2d",
     {{"LAYER", "conv"},
      {"CALL", "conv2d"},
      {"OVERLOAD", "default"},
      {"WORD", "convolution"},
      {"MODULE", "Conv2d(in_channels=4, out_channels=6, kernel_size=(3, 3), bias=True)"},
      {"NORM", "BatchNorm2d"},
      {"WEIGHT", "f32[6, 4, 3, 3]"},
      {"INPUT", "f32[2, 4, 7, 7]"},
      {"RESULT", "f32[2, 6, 5, 5]"}}},
    {"Convolution1d",
     "fuse-batch-norm-in-conv-1d",
     {{"LAYER", "conv"},
      {"CALL", "conv1d"},
      {"OVERLOAD", "default"},
      {"WORD", "convolution"},
      {"MODULE", "Conv1d(in_channels=4, out_channels=6, kernel_size=(3,), bias=True)"},
      {"NORM", "BatchNorm1d"},
      {"WEIGHT", "f32[6, 4, 3]"},
      {"INPUT", "f32[2, 4, 7]"},
      {"RESULT", "f32[2, 6, 5]"}}},
    {"Convolution3d",
     "fuse-batch-norm-in-conv-3d",
     {{"LAYER", "conv"},
      {"CALL", "conv3d"},
      {"OVERLOAD", "default"},
      {"WORD", "convolution"},
      {"MODULE", "Conv3d(in_channels=4, out_channels=6, kernel_size=(3, 3, 3), bias=True)"},
      {"NORM", "BatchNorm3d"},
      {"WEIGHT", "f32[6, 4, 3, 3, 3]"},
      {"INPUT", "f32[2, 4, 7, 7, 7]"},
      {"RESULT", "f32[2, 6, 5, 5, 5]"}}},
    {"TransposedConvolution1d",
     "fuse-batch-norm-in-conv-transpose-1d",
     {{"LAYER", "conv"},
      {"CALL", "conv_transpose1d"},
      {"OVERLOAD", "default"},
      {"WORD", "convolution"},
      {"MODULE", "ConvTranspose1d(in_channels=4, out_channels=6, kernel_size=(3,), bias=True)"},
      {"NORM", "BatchNorm1d"},
      {"WEIGHT", "f32[4, 6, 3]"},
      {"INPUT", "f32[2, 4, 5]"},
      {"RESULT", "f32[2, 6, 7]"}}},
    {"TransposedConvolution3d",
     "fuse-batch-norm-in-conv-transpose-3d",
     {{"LAYER", "conv"},
      {"CALL", "conv_transpose3d"},
      {"OVERLOAD", "input"},
      {"WORD", "convolution"},
      {"MODULE",
       "ConvTranspose3d(in_channels=4, out_channels=6, kernel_size=(3, 3, 3), bias=True)"},
      {"NORM", "BatchNorm3d"},
      {"WEIGHT", "f32[4, 6, 3, 3, 3]"},
      {"INPUT", "f32[2, 4, 5, 5, 5]"},
      {"RESULT", "f32[2, 6, 7, 7, 7]"}}},
};

const std::string kAten = R"(
parameter LAYER.weight : WEIGHT
parameter LAYER.bias : f32[6]
parameter bn.weight : f32[6]
parameter bn.bias : f32[6]
buffer bn.running_mean : f32[6]
buffer bn.running_var : f32[6]
graph():
    %p_weight : WEIGHT = placeholder[target=p_weight](state=LAYER.weight)
    %p_bias : f32[6] = placeholder[target=p_bias](state=LAYER.bias)
    %p_bn_weight : f32[6] = placeholder[target=p_bn_weight](state=bn.weight)
    %p_bn_bias : f32[6] = placeholder[target=p_bn_bias](state=bn.bias)
    %b_mean : f32[6] = placeholder[target=b_mean](state=bn.running_mean)
    %b_var : f32[6] = placeholder[target=b_var](state=bn.running_var)
    %x : INPUT = placeholder[target=x]
    %y : RESULT = call_function[target=aten.CALL.OVERLOAD](args = (%x, %p_weight, %p_bias))
    %z : RESULT = call_function[target=aten.batch_norm.default](args = (%y, %p_bn_weight, %p_bn_bias, %b_mean, %b_var, False, 0.1, 0.001, True))
    return z
)";

const std::string kModule = R"(
parameter net.LAYER.weight : WEIGHT
parameter net.LAYER.bias : f32[6]
parameter net.bn.weight : f32[6]
parameter net.bn.bias : f32[6]
buffer net.bn.running_mean : f32[6]
buffer net.bn.running_var : f32[6]
buffer net.bn.num_batches_tracked : i64[]
module net.LAYER : torch.nn.MODULE
module net.bn : torch.nn.NORM(num_features=6, eps=0.001)
graph():
    %x : INPUT = placeholder[target=x]
    %y = call_module[target=net.LAYER](args = (%x,))
    %z = call_module[target=net.bn](args = (%y,))
    return z
)";

const std::string kFunctional = R"(
parameter LAYER.weight : WEIGHT
parameter LAYER.bias : f32[6]
parameter bn.weight : f32[6]
parameter bn.bias : f32[6]
buffer bn.running_mean : f32[6]
buffer bn.running_var : f32[6]
graph():
    %x : INPUT = placeholder[target=x]
    %p_weight = get_attr[target=LAYER.weight]
    %p_bias = get_attr[target=LAYER.bias]
    %y = call_function[target=torch.nn.functional.CALL](args = (%x, %p_weight, %p_bias))
    %mean = get_attr[target=bn.running_mean]
    %var = get_attr[target=bn.running_var]
    %weight = get_attr[target=bn.weight]
    %bias = get_attr[target=bn.bias]
    %z = call_function[target=torch.nn.functional.batch_norm](args = (%y, %mean, %var), kwargs = {weight: %weight, bias: %bias, eps: 0.001})
    return z
)";

struct Row {
  const std::string* text;
  Changes changes;
  const char* reason = "";  // of the refusal
};

const char* kTraining = "the batch norm is in training mode";
const char* kNoStatistics = "the batch norm has no running statistics";
const char* kOthers = "the WORD's result is used by nodes other than the batch norm";
const char* kComputed = "a tensor of the batch norm is computed, not stored";
const char* kInput = "a tensor of the batch norm is an input, not stored";
const char* kTied = "shares its memory with another tensor";

// A node before the layer, and its use in place of something.
Changes computed(const char* from, const char* instead_of) {
  return {{instead_of, "%exp,"},
          {"    %y :",
           std::string("    %exp : f32[6] = call_function[target=aten.exp.default](args = (") +
               from + ",))\n    %y :"}};
}
Changes given(const char* instead_of) {
  return {{instead_of, "%w,"}, {"    %x :", "    %w : f32[6] = placeholder[target=w]\n    %x :"}};
}

const Row kRefused[] = {
    {&kModule, {{"eps=0.001)", "eps=0.001) training=True"}}, kTraining},
    {&kAten, {{"False, 0.1", "True, 0.1"}}, kTraining},
    {&kFunctional, {{"eps: 0.001", "training: True"}}, kTraining},
    {&kFunctional, {{"eps: 0.001", "training: 1"}}, kTraining},

    {&kModule,
     {{"buffer net.bn.running_mean : f32[6]\nbuffer net.bn.running_var : f32[6]\n", ""},
      {"eps=0.001", "track_running_stats=False"}},
     kNoStatistics},
    {&kAten, {{"%b_mean, %b_var,", "None, None,"}}, kNoStatistics},
    {&kFunctional, {{"eps: 0.001", "eps: %x"}}, "the batch norm's eps is not a number"},

    {&kAten, {{"return z", "return (z, y)"}}, kOthers},
    {&kModule,
     {{"    return z",
       "    %add = call_function[target=operator.add](args = (%z, %y))\n    return add"}},
     kOthers},
    {&kAten,
     {{"    %z :",
       "    %relu_ = call_function[target=aten.relu_.default](args = (%y,))\n    %z :"}},
     kOthers},

    {&kModule,
     {{"    return z",
       "    %again = call_module[target=net.LAYER](args = (%x,))\n    return (z, again)"}},
     "module 'net.LAYER' is used in more than one place"},
    {&kModule,
     {{"    return z", "    %again = call_module[target=net.bn](args = (%z,))\n    return again"}},
     "module 'net.bn' is used in more than one place"},
    {&kModule,
     {{"bias=True)", "bias=True) custom=\"has a forward hook\""}},
     "module 'net.LAYER' has a forward hook"},
    {&kModule,
     {{"eps=0.001)", "eps=0.001) custom=\"has a forward hook\""}},
     "module 'net.bn' has a forward hook"},
    {&kModule,
     {{"(args = (%x,))", "(args = (%x, [9, 9]))"}},
     "module 'net.LAYER' is not called with one tensor"},

    {&kAten,
     {{"return z", "return (z, p_weight)"}},
     "'LAYER.weight' is used in more than one place"},
    {&kAten, {{"return z", "return (z, p_bias)"}}, "'LAYER.bias' is used in more than one place"},
    {&kAten,
     {{"return z", "return (z, b_var)"}},
     "'bn.running_var' is used in more than one place"},
    {&kModule,
     {{"    return z", "    %m = get_attr[target=net.bn.running_mean]\n    return (z, m)"}},
     "'net.bn.running_mean' is used in more than one place"},
    {&kModule,
     {{"    return z", "    %n = get_attr[target=net.bn.num_batches_tracked]\n    return (z, n)"}},
     "'net.bn.num_batches_tracked' is used in more than one place"},
    {&kModule,
     {{"module net.LAYER", "parameter tied : WEIGHT shares=net.LAYER.weight\nmodule net.LAYER"},
      {"    return z",
       "    %t = get_attr[target=tied]\n    %w = call_method[target=zero_](args = (%t,))\n"
       "    return z"}},
     "'net.LAYER.weight' shares its memory with another tensor and may be written through it"},
    {&kModule,
     {{"module net.LAYER", "parameter tied : WEIGHT shares=net.LAYER.weight\nmodule net.LAYER"},
      {"    return z", "    %t = get_attr[target=tied]\n    return (z, t)"}},
     "may be written through it"},
    {&kModule,
     {{"module net.LAYER", "buffer tied : WEIGHT shares=net.LAYER.weight\nmodule net.LAYER"}},
     "may be written through it"},
    {&kModule,
     {{"    return z", "    %w = get_attr[target=net.LAYER.weight]\n    return (z, w)"}},
     "'net.LAYER.weight' is used in more than one place"},
    {&kModule,
     {{"running_var : f32[6]", "running_var : f32[6] shares=net.bn.running_mean"}},
     kTied},
    {&kModule, {{"net.bn.bias : f32[6]", "net.bn.bias : f32[6] shares=net.LAYER.bias"}}, kTied},

    {&kAten,
     {{"graph():", "mutates bn.running_var = output 0\ngraph():"}, {"return z", "return (z,)"}},
     "'bn.running_var' is changed by the model itself"},
    {&kAten,
     {{"graph():", "mutates bn.running_mean = output 0\ngraph():"}, {"return z", "return (z,)"}},
     "'bn.running_mean' is changed by the model itself"},

    {&kAten, computed("%p_weight", "%p_weight,"), "its weight is computed, not stored"},
    {&kAten,
     {{"    %y :",
       "    %exp = call_function[target=aten.exp.default](args = (%p_bias,))\n    %y :"},
      {"%p_weight, %p_bias", "%p_weight, %exp"}},
     "its bias is computed, not stored"},
    {&kAten, computed("%p_bias", "%p_bn_weight,"), kComputed},
    {&kAten, computed("%p_bias", "%p_bn_bias,"), kComputed},
    {&kAten, computed("%p_bias", "%b_mean,"), kComputed},
    {&kAten, computed("%p_bias", "%b_var,"), kComputed},
    {&kAten, given("%p_bn_weight,"), kInput},
    {&kAten, given("%p_bn_bias,"), kInput},
    {&kAten, given("%b_mean,"), kInput},
    {&kAten, given("%b_var,"), kInput},

    {&kModule,
     {{"running_var : f32", "running_var : f64"}},
     "the layer is Float but the batch norm's 'net.bn.running_var' is Double"},
    {&kModule,
     {{"LAYER.weight : f32", "LAYER.weight : f16"}, {"LAYER.bias : f32", "LAYER.bias : f16"}},
     "the layer is Half but the batch norm's 'net.bn.weight' is Float"},
    {&kModule, {{"LAYER.bias : f32", "LAYER.bias : f64"}}, "weight and bias have different dtypes"},
    {&kFunctional,
     {{"LAYER.bias : f32[6]", "LAYER.bias : f32[1]"}},
     "its bias does not fit its weight"},
    {&kFunctional,
     {{"bn.running_var : f32[6]", "bn.running_var : f32[1]"}},
     "'bn.running_var' and the batch norm's mean have different sizes"},
    {&kFunctional,
     {{"bn.weight : f32[6]", "bn.weight : f32[1]"}},
     "'bn.weight' and the batch norm's mean have different sizes"},
    {&kFunctional,
     {{"bn.weight : f32[6]", "bn.weight : f32[6, 1]"}},
     "'bn.weight' is not a vector"},
};

const Row kFolded[] = {
    {&kAten, {}},
    {&kModule, {}},
    {&kFunctional, {}},
    {&kAten, {{"%y, %p_bn_weight, %p_bn_bias", "%y, None, None"}}},
    {&kModule,
     {{"parameter net.bn.weight : f32[6]\nparameter net.bn.bias : f32[6]\n", ""},
      {"eps=0.001", "affine=False"}}},
    {&kFunctional, {{"weight: %weight, bias: %bias, eps: 0.001", "training: False"}}},
    {&kFunctional, {{"bias: %bias, ", ""}}},
    {&kModule,
     {{"parameter net.bn.weight : f32[6]\nparameter net.bn.bias : f32[6]\n", ""},
      {"eps=0.001", "affine=False"},
      {"parameter net.LAYER.bias : f32[6]\n", ""},
      {"bias=True", "bias=False"}}},
    {&kModule, {{"buffer net.bn.num_batches_tracked : i64[]\n", ""}}},
    {&kModule,
     {{"module net.LAYER", "parameter tied : WEIGHT shares=net.LAYER.weight\nmodule net.LAYER"},
      {"    return z",
       "    %t = get_attr[target=tied]\n    %s = call_function[target=torch.sum](args = (%t,))\n"
       "    return (z, s)"}}},
    {&kAten,
     {{"    return z",
       "    %s = call_function[target=aten.sum.default](args = (%p_weight,))\n    return (z, s)"}}},
    {&kFunctional,
     {{"    return z",
       "    %w = get_attr[target=LAYER.weight]\n"
       "    %s = call_function[target=torch.sum](args = (%w,))\n    return (z, s)"}}},
    {&kModule, {{"parameter net.LAYER.bias : f32[6]\n", ""}, {"bias=True", "bias=False"}}},
    {&kModule,
     {{"args = (%y,)", "kwargs = {input: %y}"}, {"args = (%x,)", "kwargs = {input: %x}"}}},
    {&kAten,
     {{"    return z", R"(    %relu_ = call_function[target=aten.relu_.default](args = (%z,))
    %zero_ = call_function[target=aten.zero_.default](args = (%x,))
    return (z, relu_))"}}},
};

class FuseBatchNorm : public ::testing::TestWithParam<Kind> {
 protected:
  const std::string name_ = GetParam().transformation;

  static std::string worded(std::string text) {
    for (const auto& [word, meaning] : GetParam().words)
      for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; at += meaning.size())
        text.replace(at, word.size(), meaning);
    return text;
  }
  static std::string text_of(const Row& row) {
    std::string text = worded(*row.text);
    for (const auto& [from, to] : row.changes) text = with(text, {{worded(from), worded(to)}});
    return text;
  }
  static Model with_value(const std::string& tensor_name, double value,
                          const std::string& text = worded(kModule)) {
    Model model = parse_filled(text);
    tensor(model, worded(tensor_name)).view(-1)[0] = value;
    return model;
  }
  static Model with_weight(const std::function<at::Tensor(const at::Tensor&)>& make) {
    const Model like = parse(worded(kAten));
    const at::Tensor old = tensor(like, worded("LAYER.weight"));
    Builder b;
    const NodeId w = b.parameter("weight", make(at::rand(old.sizes()))),
                 m = b.buffer("bn.mean", at::rand({6})), v = b.buffer("bn.var", at::rand({6})),
                 x = b.input("x", node(like, "x").type);
    const NodeId y = b.call(worded("aten.CALL.OVERLOAD"), {x, w});
    return b.build(
        b.call("aten.batch_norm.default", {y, None{}, None{}, m, v, false, 0.1, 1e-5, true}));
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, FuseBatchNorm, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

TEST_P(FuseBatchNorm, Folds) {
  for (const Row& row : kFolded) {
    SCOPED_TRACE(text_of(row));
    expect_applies(name_, text_of(row));
  }
  for (const char* dtype : {"f64", "f16", "bf16"})
    for (const std::string* text : {&kAten, &kModule, &kFunctional})
      expect_applies(name_, with(worded(*text), {{"f32", dtype}}));
}

TEST_P(FuseBatchNorm, FoldsAZeroScale) {
  const Model model = parse_filled(worded(kModule));
  tensor(model, "net.bn.weight").zero_();
  expect_applies(name_, model);
}

TEST_P(FuseBatchNorm, Refuses) {
  for (const Row& row : kRefused) {
    SCOPED_TRACE(text_of(row));
    expect_refused(name_, text_of(row), worded(row.reason));
  }
}

TEST_P(FuseBatchNorm, IgnoresNormsOfOthers) {
  expect_no_match(name_,
                  with(worded(kAten), {{"aten.batch_norm.default", "mylib.batch_norm.default"}}));
}

TEST_P(FuseBatchNorm, RefusesWeightsThatCannotBeComputedWith) {
  expect_refused(name_, with_weight([](const at::Tensor& t) {
                   return at::quantize_per_tensor(t, 0.1, 0, at::kQInt8);
                 }),
                 "'weight' is quantized");
  expect_refusal(name_, with_weight([](const at::Tensor& t) { return t.to_sparse(); }),
                 "'weight' is sparse");
  expect_refusal(name_, with_weight([](const at::Tensor& t) { return t.to(at::kMeta); }),
                 "'weight' has no data (meta device)");
}

TEST_P(FuseBatchNorm, RefusesAVarianceThatHasNoInverseRoot) {
  const std::string reason =
      "var + eps of the batch norm is zero, negative or not finite in some channel";
  for (const double value : {-1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)})
    expect_refused(name_, with_value("net.bn.running_var", value), reason);
  // The sum is zero: in the second, that of the nearest float and its opposite.
  for (const char* eps : {"eps=0", "eps=0.0"})
    expect_refused(name_,
                   with_value("net.bn.running_var", 0, with(worded(kModule), {{"eps=0.001", eps}})),
                   reason);
  expect_refused(name_,
                 with_value("net.bn.running_var", -0.001,
                            with(worded(kModule), {{"eps=0.001", "eps=0.0010000000474974513"}})),
                 reason);
}

TEST_P(FuseBatchNorm, RefusesWhatIsNotFinite) {
  for (const double value : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    for (const char* name : {"net.bn.weight", "net.bn.bias", "net.bn.running_mean"})
      expect_refused(name_, with_value(name, value),
                     "the batch norm's scale or shift is not finite in some channel");
    for (const char* name : {"net.LAYER.weight", "net.LAYER.bias"})
      expect_refused(name_, with_value(name, value),
                     "the folded weights are not finite in the layer's dtype");
  }
  const Model large = parse_filled(with(worded(kModule), {{"f32", "f16"}}));
  tensor(large, "net.bn.weight").fill_(60000);
  tensor(large, "net.bn.running_var").fill_(0.01);
  expect_refused(name_, large, "the folded weights are not finite in the layer's dtype");
}

TEST_P(FuseBatchNorm, RefusesToReverseWhatWasTrainedSince) {
  for (const std::string& name : {worded("net.LAYER.weight"), worded("net.LAYER.bias")}) {
    const Model before = parse_filled(worded(kModule));
    Model model = before;
    find_transformation(name_)(model);
    train(model, name);
    const std::string was = snapshot(model);
    const std::string error = error_of([&] { reverse_all(model); });
    EXPECT_NE(error.find("'" + name + "' was changed since, and the change cannot be carried back"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("discard_changes"), std::string::npos) << error;
    EXPECT_EQ(snapshot(model), was);
    reverse_all(model, {.discard_changes = true});
    EXPECT_EQ(snapshot(model), snapshot(before));
  }
}

TEST_P(FuseBatchNorm, LeavesTheOriginalsAlone) {
  const Model before = parse_filled(worded(kModule));
  const std::string was = snapshot(before);
  Model model = before;
  EXPECT_EQ(find_transformation(name_)(model).steps.size(), 1u);
  EXPECT_EQ(snapshot(before), was);
}

}  // namespace
}  // namespace refx::testing
