// SPDX-License-Identifier: Apache-2.0

// Every layer of the executor's registry against torch::nn's own, bit for bit.

#include <torch/torch.h>

#include "exec/same.h"
#include "refx/layers.h"

namespace refx::testing {
namespace {

namespace nn = torch::nn;

// The model that calls one layer, with the tensors of `own`.
Model one_layer(const std::string& type, Kwargs parameters, const nn::Module* own, bool training,
                std::size_t inputs = 1) {
  Builder b;
  Args args;
  for (std::size_t i = 0; i < inputs; ++i) args.push_back(b.input("x" + std::to_string(i)));
  b.module({"layer", "torch.nn." + type, std::move(parameters), training, ""});
  if (own) {
    for (const auto& p : own->named_parameters()) {
      b.state({"layer." + p.key(), StateKind::parameter, true, p.value()});
    }
    for (const auto& p : own->named_buffers()) {
      b.state({"layer." + p.key(), StateKind::buffer, true, p.value()});
    }
  }
  return b.build(b.call_module("layer", args));
}

// A layer, and what torch says that it computes.
struct Case {
  std::string type;
  Model model;
  std::vector<at::Tensor> inputs;
  at::Tensor expected;
};

// Some layers, each in the forms that matter.
class Cases {
 public:
  template <class Holder>
  void add(const std::string& type, Holder module, const at::Tensor& x, Kwargs parameters = {}) {
    const torch::NoGradGuard no_grad;
    module->eval();
    all.push_back({type,
                   one_layer(type, std::move(parameters), module.get(), false),
                   {x},
                   module->forward(x)});
  }
  void add(const std::string& type, const at::Tensor& expected, const at::Tensor& x,
           Kwargs parameters = {}) {
    all.push_back({type, one_layer(type, std::move(parameters), nullptr, false), {x}, expected});
  }

  const at::Tensor line = torch::randn({2, 4, 9}), image = torch::randn({2, 4, 9, 9}),
                   volume = torch::randn({2, 4, 5, 5, 5}), rows = torch::randn({3, 8});
  std::vector<Case> all;
};

void linears(Cases& c) {
  c.add("Linear", nn::Linear(8, 5), c.rows, {{"in_features", 8}, {"out_features", 5}});
  c.add("Linear", nn::Linear(nn::LinearOptions(8, 5).bias(false)), c.rows, {{"bias", false}});
  c.add("Identity", nn::Identity(), c.rows);
  nn::Bilinear bilinear(8, 6, 5);
  const at::Tensor other = torch::randn({3, 6});
  const torch::NoGradGuard no_grad;
  c.all.push_back({"Bilinear",
                   one_layer("Bilinear", {}, bilinear.get(), false, 2),
                   {c.rows, other},
                   bilinear->forward(c.rows, other)});
}

void convolutions(Cases& c) {
  c.add("Conv1d", nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2).padding(1)), c.line,
        {{"stride", 2}, {"padding", 1}});
  c.add("Conv2d",
        nn::Conv2d(nn::Conv2dOptions(4, 8, {3, 2}).dilation({2, 1}).groups(2).padding({1, 0})),
        c.image, {{"dilation", Tuple{{2, 1}}}, {"groups", 2}, {"padding", Tuple{{1, 0}}}});
  c.add("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 8, 3).bias(false)), c.image, {{"bias", false}});
  c.add("Conv3d", nn::Conv3d(nn::Conv3dOptions(4, 6, 3)), c.volume);
}

void padded_convolutions(Cases& c) {
  auto conv = [](auto mode) {
    return nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding({1, 2}).padding_mode(mode));
  };
  Arg padding = Tuple{{1, 2}};
  c.add("Conv2d", conv(torch::kReflect), c.image,
        {{"padding", padding}, {"padding_mode", "reflect"}});
  c.add("Conv2d", conv(torch::kReplicate), c.image,
        {{"padding", padding}, {"padding_mode", "replicate"}});
  c.add("Conv2d", conv(torch::kCircular), c.image,
        {{"padding", padding}, {"padding_mode", "circular"}});
  c.add("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 6, {4, 3}).padding(torch::kSame)), c.image,
        {{"padding", "same"}});
  c.add("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kValid)), c.image,
        {{"padding", "valid"}});
  // A square kernel: torch::nn itself mixes up the sides of others.
  nn::Conv2d same_reflect(
      nn::Conv2dOptions(4, 6, 4).padding(torch::kSame).padding_mode(torch::kReflect));
  c.add("Conv2d", same_reflect, c.image, {{"padding", "same"}, {"padding_mode", "reflect"}});
}

void transposed_convolutions(Cases& c) {
  c.add("ConvTranspose1d", nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3).stride(2)),
        c.line, {{"stride", 2}});
  c.add("ConvTranspose2d",
        nn::ConvTranspose2d(
            nn::ConvTranspose2dOptions(4, 6, 3).stride(2).padding(1).output_padding(1).groups(2)),
        c.image, {{"stride", 2}, {"padding", 1}, {"output_padding", 1}, {"groups", 2}});
  c.add("ConvTranspose3d", nn::ConvTranspose3d(nn::ConvTranspose3dOptions(4, 6, 3).dilation(2)),
        c.volume, {{"dilation", 2}});
}

void batch_norms(Cases& c) {
  auto filled = [](auto module) {
    torch::NoGradGuard no_grad;
    for (auto& p : module->parameters()) p.uniform_(0.5, 1.5);
    for (auto& p : module->buffers()) {
      if (p.is_floating_point()) p.uniform_(0.5, 1.5);
    }
    return module;
  };
  c.add("BatchNorm1d", filled(nn::BatchNorm1d(8)), c.rows);
  c.add("BatchNorm1d", filled(nn::BatchNorm1d(4)), c.line);
  c.add("BatchNorm2d", filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).eps(1e-3))), c.image,
        {{"eps", 1e-3}});
  c.add("BatchNorm2d", filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).affine(false))), c.image,
        {{"affine", false}});
  c.add("BatchNorm2d",
        filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).track_running_stats(false))), c.image,
        {{"track_running_stats", false}});
  c.add("BatchNorm3d", filled(nn::BatchNorm3d(4)), c.volume);
}

void other_norms(Cases& c) {
  c.add("InstanceNorm1d", nn::InstanceNorm1d(4), c.line);
  c.add("InstanceNorm2d", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)), c.image,
        {{"affine", true}});
  c.add("InstanceNorm2d",
        nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).track_running_stats(true)), c.image,
        {{"track_running_stats", true}});
  c.add("InstanceNorm3d", nn::InstanceNorm3d(4), c.volume);
  c.add("GroupNorm", nn::GroupNorm(2, 4), c.image, {{"num_groups", 2}});
  c.add("LayerNorm", nn::LayerNorm(nn::LayerNormOptions({8})), c.rows, {{"normalized_shape", 8}});
  c.add("LayerNorm", nn::LayerNorm(nn::LayerNormOptions({9, 9}).elementwise_affine(false)), c.image,
        {{"normalized_shape", Tuple{{9, 9}}}, {"elementwise_affine", false}});
  c.add("RMSNorm", at::rms_norm(c.rows, {8}), c.rows, {{"normalized_shape", Tuple{{8}}}});
}

void embeddings(Cases& c) {
  at::Tensor ids = torch::tensor({{1, 2, 0}, {4, 4, 1}});
  c.add("Embedding", nn::Embedding(5, 6), ids, {{"padding_idx", 0}});
}

void dropouts(Cases& c) {
  for (const char* type :
       {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
    c.add(type, c.volume, c.volume, {{"p", 0.3}});
}

void activations(Cases& c) {
  c.add("ReLU", nn::ReLU(), c.rows);
  c.add("ReLU6", nn::ReLU6(), c.rows * 5);
  c.add("GELU", nn::GELU(), c.rows);
  c.add("GELU", nn::GELU(nn::GELUOptions().approximate("tanh")), c.rows, {{"approximate", "tanh"}});
  c.add("SiLU", nn::SiLU(), c.rows);
  c.add("Mish", nn::Mish(), c.rows);
  c.add("ELU", nn::ELU(nn::ELUOptions().alpha(0.7)), c.rows, {{"alpha", 0.7}});
  c.add("CELU", nn::CELU(nn::CELUOptions().alpha(0.7)), c.rows, {{"alpha", 0.7}});
  c.add("SELU", nn::SELU(), c.rows);
  c.add("LeakyReLU", nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), c.rows,
        {{"negative_slope", 0.2}});
  c.add("PReLU", nn::PReLU(), c.rows);
  c.add("Hardtanh", nn::Hardtanh(), c.rows);
  c.add("Hardswish", at::hardswish(c.rows), c.rows);
  c.add("Hardsigmoid", at::hardsigmoid(c.rows), c.rows);
  c.add("Threshold", nn::Threshold(0.1, 20.0), c.rows, {{"threshold", 0.1}, {"value", 20.0}});
  c.add("Softplus", nn::Softplus(nn::SoftplusOptions().beta(0.5).threshold(3)), c.rows,
        {{"beta", 0.5}, {"threshold", 3}});
  c.add("Tanh", nn::Tanh(), c.rows);
  c.add("Sigmoid", nn::Sigmoid(), c.rows);
  c.add("LogSigmoid", nn::LogSigmoid(), c.rows);
  c.add("GLU", nn::GLU(), c.rows);
  c.add("Softmax", nn::Softmax(1), c.rows, {{"dim", 1}});
  c.add("LogSoftmax", nn::LogSoftmax(-1), c.rows, {{"dim", -1}});
}

void pools(Cases& c) {
  c.add("MaxPool1d", nn::MaxPool1d(2), c.line, {{"kernel_size", 2}});
  c.add("MaxPool2d",
        nn::MaxPool2d(nn::MaxPool2dOptions({3, 2}).stride(2).padding(1).ceil_mode(true)), c.image,
        {{"kernel_size", Tuple{{3, 2}}}, {"stride", 2}, {"padding", 1}, {"ceil_mode", true}});
  c.add("MaxPool3d", nn::MaxPool3d(2), c.volume, {{"kernel_size", 2}});
  c.add("AvgPool1d", nn::AvgPool1d(2), c.line, {{"kernel_size", 2}});
  c.add("AvgPool2d", nn::AvgPool2d(nn::AvgPool2dOptions(3).padding(1).count_include_pad(false)),
        c.image, {{"kernel_size", 3}, {"padding", 1}, {"count_include_pad", false}});
  c.add("AvgPool3d", nn::AvgPool3d(2), c.volume, {{"kernel_size", 2}});
  c.add("AdaptiveAvgPool1d", nn::AdaptiveAvgPool1d(3), c.line, {{"output_size", 3}});
  c.add("AdaptiveAvgPool2d", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, 2})), c.image,
        {{"output_size", Tuple{{3, 2}}}});
  c.add("AdaptiveAvgPool2d", at::adaptive_avg_pool2d(c.image, {9, 2}), c.image,
        {{"output_size", Tuple{{None{}, 2}}}});
  c.add("AdaptiveAvgPool3d", nn::AdaptiveAvgPool3d(2), c.volume, {{"output_size", 2}});
}

void shapes(Cases& c) {
  c.add("Flatten", nn::Flatten(), c.image);
  c.add("Flatten", nn::Flatten(nn::FlattenOptions().start_dim(0).end_dim(1)), c.image,
        {{"start_dim", 0}, {"end_dim", 1}});
  c.add("Unflatten", c.rows.unflatten(1, {2, 4}), c.rows,
        {{"dim", 1}, {"unflattened_size", Tuple{{2, 4}}}});
  c.add("ZeroPad2d", nn::ZeroPad2d(nn::ZeroPad2dOptions({1, 2, 0, 3})), c.image,
        {{"padding", Tuple{{1, 2, 0, 3}}}});
  c.add("ConstantPad2d", nn::ConstantPad2d(nn::ConstantPad2dOptions(1, 2.5)), c.image,
        {{"padding", 1}, {"value", 2.5}});
  c.add("ReflectionPad1d", nn::ReflectionPad1d(2), c.line, {{"padding", 2}});
  c.add("ReflectionPad2d", nn::ReflectionPad2d(2), c.image, {{"padding", 2}});
  c.add("ReplicationPad1d", nn::ReplicationPad1d(2), c.line, {{"padding", 2}});
  c.add("ReplicationPad2d", nn::ReplicationPad2d(nn::ReplicationPad2dOptions({1, 0, 2, 1})),
        c.image, {{"padding", Tuple{{1, 0, 2, 1}}}});
  c.add("PixelShuffle", nn::PixelShuffle(2), c.image, {{"upscale_factor", 2}});
  c.add("PixelUnshuffle", nn::PixelUnshuffle(3), c.image, {{"downscale_factor", 3}});
  c.add("Upsample",
        nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest)),
        c.image, {{"scale_factor", 2.0}});
  c.add("Upsample",
        nn::Upsample(nn::UpsampleOptions()
                         .size(std::vector<std::int64_t>{5, 7})
                         .mode(torch::kBilinear)
                         .align_corners(true)),
        c.image, {{"size", Tuple{{5, 7}}}, {"mode", "bilinear"}, {"align_corners", true}});
  c.add("UpsamplingNearest2d", at::upsample_nearest2d(c.image, {18, 18}), c.image, {{"size", 18}});
}

struct Group {
  const char* name;
  void (*fill)(Cases&);
};
void PrintTo(const Group& group, std::ostream* out) { *out << group.name; }

constexpr Group kGroups[] = {
    {"Linears", linears},
    {"Convolutions", convolutions},
    {"PaddedConvolutions", padded_convolutions},
    {"TransposedConvolutions", transposed_convolutions},
    {"BatchNorms", batch_norms},
    {"OtherNorms", other_norms},
    {"Embeddings", embeddings},
    {"Dropouts", dropouts},
    {"Activations", activations},
    {"Pools", pools},
    {"Shapes", shapes},
};

std::vector<Case> cases_of(const Group& group) {
  torch::manual_seed(2);
  Cases cases;
  group.fill(cases);
  return cases.all;
}

class Layers : public ::testing::TestWithParam<Group> {};

INSTANTIATE_TEST_SUITE_P(All, Layers, ::testing::ValuesIn(kGroups),
                         [](const auto& info) { return info.param.name; });

TEST_P(Layers, ComputeWhatTorchDoes) {
  const torch::NoGradGuard no_grad;
  for (Case& one : cases_of(GetParam())) {
    SCOPED_TRACE(print(one.model));
    expect_same(one.model, {one.inputs.begin(), one.inputs.end()}, one.expected);
  }
}

TEST(Layers, EveryKnownOneIsAmongTheCases) {
  std::set<std::string> types;
  for (const Group& group : kGroups)
    for (const Case& one : cases_of(group)) types.insert("torch.nn." + one.type);
  const auto& known = layer_types();
  EXPECT_EQ(types, std::set<std::string>(known.begin(), known.end()));
}

// Runs both for a few steps and compares results and statistics.
void check_training(nn::BatchNorm2d ours, nn::BatchNorm2d theirs, Kwargs parameters) {
  torch::NoGradGuard no_grad;
  Executor executor(one_layer("BatchNorm2d", std::move(parameters), ours.get(), true));
  const at::Tensor mean = ours->running_mean.clone();
  theirs->train();
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = torch::randn({2, 4, 3, 3});
    EXPECT_TRUE(same(executor.run({x}).toTensor(), theirs->forward(x)));
    auto b = theirs->named_buffers();
    ASSERT_EQ(executor.state().size(), b.size());
    for (const auto& [name, tensor] : executor.state())
      EXPECT_TRUE(same(tensor, b[name.substr(name.find('.') + 1)])) << name;
  }
  EXPECT_TRUE(same(ours->running_mean, mean));  // the module that the model shares tensors with
}

TEST(Layers, BatchNormInTrainingUpdatesTheStatisticsOfItsExecutor) {
  check_training(nn::BatchNorm2d(4), nn::BatchNorm2d(4), {});
  nn::BatchNorm2dOptions half = nn::BatchNorm2dOptions(4).momentum(0.5);
  check_training(nn::BatchNorm2d(half), nn::BatchNorm2d(half), {{"momentum", 0.5}});
  nn::BatchNorm2dOptions cumulative = nn::BatchNorm2dOptions(4).momentum(std::nullopt);
  check_training(nn::BatchNorm2d(cumulative), nn::BatchNorm2d(cumulative), {{"momentum", None{}}});
}

TEST(Layers, DropoutInTrainingDrawsAsTorchDoes) {
  const at::Tensor rows = torch::randn({3, 8});
  Model model = one_layer("Dropout", {{"p", 0.25}}, nullptr, true);
  torch::manual_seed(9);
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(at::dropout(rows, 0.25, true));
  torch::manual_seed(9);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(model.forward({rows}).toTensor(), expected[i]));
}

TEST(Layers, InPlaceActivationsChangeTheirInput) {
  Model model = one_layer("ReLU", {{"inplace", true}}, nullptr, false);
  for (int i = 0; i < 3; ++i) {
    at::Tensor x = torch::randn({4}), expected = at::relu(x);
    EXPECT_TRUE(same(model.forward({x}).toTensor(), expected));
    EXPECT_TRUE(same(x, expected));
  }
}

TEST(Layers, AreKnownByTheirFullModulePathToo) {
  const at::Tensor rows = torch::randn({3, 8});
  Builder b;
  NodeId x = b.input("x");
  b.module({"act", "torch.nn.modules.activation.ReLU", {}, false, ""});
  Model model = b.build(b.call_module("act", {x}));
  expect_same(model, {rows}, at::relu(rows));
}

}  // namespace
}  // namespace refx::testing
