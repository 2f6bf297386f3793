// Every layer of the executor's registry against torch::nn's own, bit for bit.

#include <torch/torch.h>

#include "book/layers.h"
#include "exec/same.h"

namespace refx::testing {
namespace {

namespace nn = torch::nn;

std::set<std::string>& tested() {
  static std::set<std::string> all;
  return all;
}

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
  tested().insert("torch.nn." + type);
  return b.build(b.call_module("layer", args));
}

template <class Holder>
void check(const std::string& type, Holder module, const at::Tensor& x, Kwargs parameters = {}) {
  SCOPED_TRACE(type);
  torch::NoGradGuard no_grad;
  module->eval();
  Model model = one_layer(type, std::move(parameters), module.get(), false);
  expect_same(model, {x}, module->forward(x));
}
void check(const std::string& type, const at::Tensor& expected, const at::Tensor& x,
           Kwargs parameters = {}) {
  SCOPED_TRACE(type);
  Model model = one_layer(type, std::move(parameters), nullptr, false);
  expect_same(model, {x}, expected);
}

class Layers : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(2); }
  at::Tensor line = torch::randn({2, 4, 9}), image = torch::randn({2, 4, 9, 9}),
             volume = torch::randn({2, 4, 5, 5, 5}), rows = torch::randn({3, 8});
};

TEST_F(Layers, LinearAndBilinear) {
  check("Linear", nn::Linear(8, 5), rows, {{"in_features", 8}, {"out_features", 5}});
  check("Linear", nn::Linear(nn::LinearOptions(8, 5).bias(false)), rows, {{"bias", false}});
  check("Identity", nn::Identity(), rows);
  nn::Bilinear bilinear(8, 6, 5);
  at::Tensor other = torch::randn({3, 6});
  torch::NoGradGuard no_grad;
  Model model = one_layer("Bilinear", {}, bilinear.get(), false, 2);
  expect_same(model, {rows, other}, bilinear->forward(rows, other));
}

TEST_F(Layers, Convolutions) {
  check("Conv1d", nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2).padding(1)), line,
        {{"stride", 2}, {"padding", 1}});
  check("Conv2d",
        nn::Conv2d(nn::Conv2dOptions(4, 8, {3, 2}).dilation({2, 1}).groups(2).padding({1, 0})),
        image, {{"dilation", Tuple{{2, 1}}}, {"groups", 2}, {"padding", Tuple{{1, 0}}}});
  check("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 8, 3).bias(false)), image, {{"bias", false}});
  check("Conv3d", nn::Conv3d(nn::Conv3dOptions(4, 6, 3)), volume);
}

TEST_F(Layers, ConvolutionsPadInEveryMode) {
  auto conv = [](auto mode) {
    return nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding({1, 2}).padding_mode(mode));
  };
  Arg padding = Tuple{{1, 2}};
  check("Conv2d", conv(torch::kReflect), image,
        {{"padding", padding}, {"padding_mode", "reflect"}});
  check("Conv2d", conv(torch::kReplicate), image,
        {{"padding", padding}, {"padding_mode", "replicate"}});
  check("Conv2d", conv(torch::kCircular), image,
        {{"padding", padding}, {"padding_mode", "circular"}});
  check("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 6, {4, 3}).padding(torch::kSame)), image,
        {{"padding", "same"}});
  check("Conv2d", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kValid)), image,
        {{"padding", "valid"}});
  // A square kernel: torch::nn itself mixes up the sides of others.
  nn::Conv2d same_reflect(
      nn::Conv2dOptions(4, 6, 4).padding(torch::kSame).padding_mode(torch::kReflect));
  check("Conv2d", same_reflect, image, {{"padding", "same"}, {"padding_mode", "reflect"}});
}

TEST_F(Layers, TransposedConvolutions) {
  check("ConvTranspose1d", nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3).stride(2)), line,
        {{"stride", 2}});
  check("ConvTranspose2d",
        nn::ConvTranspose2d(
            nn::ConvTranspose2dOptions(4, 6, 3).stride(2).padding(1).output_padding(1).groups(2)),
        image, {{"stride", 2}, {"padding", 1}, {"output_padding", 1}, {"groups", 2}});
  check("ConvTranspose3d", nn::ConvTranspose3d(nn::ConvTranspose3dOptions(4, 6, 3).dilation(2)),
        volume, {{"dilation", 2}});
}

TEST_F(Layers, BatchNormInEvaluation) {
  auto filled = [](auto module) {
    torch::NoGradGuard no_grad;
    for (auto& p : module->parameters()) p.uniform_(0.5, 1.5);
    for (auto& p : module->buffers()) {
      if (p.is_floating_point()) p.uniform_(0.5, 1.5);
    }
    return module;
  };
  check("BatchNorm1d", filled(nn::BatchNorm1d(8)), rows);
  check("BatchNorm1d", filled(nn::BatchNorm1d(4)), line);
  check("BatchNorm2d", filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).eps(1e-3))), image,
        {{"eps", 1e-3}});
  check("BatchNorm2d", filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).affine(false))), image,
        {{"affine", false}});
  check("BatchNorm2d",
        filled(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).track_running_stats(false))), image,
        {{"track_running_stats", false}});
  check("BatchNorm3d", filled(nn::BatchNorm3d(4)), volume);
}

// Runs both for a few steps and compares results and statistics.
void check_training(nn::BatchNorm2d ours, nn::BatchNorm2d theirs, Kwargs parameters) {
  torch::NoGradGuard no_grad;
  Model model = one_layer("BatchNorm2d", std::move(parameters), ours.get(), true);
  theirs->train();
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = torch::randn({2, 4, 3, 3});
    EXPECT_TRUE(same(model.forward({x}).toTensor(), theirs->forward(x)));
    auto a = ours->named_buffers(), b = theirs->named_buffers();
    for (const auto& buffer : a) EXPECT_TRUE(same(buffer.value(), b[buffer.key()])) << buffer.key();
  }
}

TEST_F(Layers, BatchNormInTrainingUpdatesItsStatistics) {
  check_training(nn::BatchNorm2d(4), nn::BatchNorm2d(4), {});
  nn::BatchNorm2dOptions half = nn::BatchNorm2dOptions(4).momentum(0.5);
  check_training(nn::BatchNorm2d(half), nn::BatchNorm2d(half), {{"momentum", 0.5}});
  nn::BatchNorm2dOptions cumulative = nn::BatchNorm2dOptions(4).momentum(std::nullopt);
  check_training(nn::BatchNorm2d(cumulative), nn::BatchNorm2d(cumulative), {{"momentum", None{}}});
}

TEST_F(Layers, OtherNormalizations) {
  check("InstanceNorm1d", nn::InstanceNorm1d(4), line);
  check("InstanceNorm2d", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)), image,
        {{"affine", true}});
  check("InstanceNorm2d",
        nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).track_running_stats(true)), image,
        {{"track_running_stats", true}});
  check("InstanceNorm3d", nn::InstanceNorm3d(4), volume);
  check("GroupNorm", nn::GroupNorm(2, 4), image, {{"num_groups", 2}});
  check("LayerNorm", nn::LayerNorm(nn::LayerNormOptions({8})), rows, {{"normalized_shape", 8}});
  check("LayerNorm", nn::LayerNorm(nn::LayerNormOptions({9, 9}).elementwise_affine(false)), image,
        {{"normalized_shape", Tuple{{9, 9}}}, {"elementwise_affine", false}});
  check("RMSNorm", at::rms_norm(rows, {8}), rows, {{"normalized_shape", Tuple{{8}}}});
}

TEST_F(Layers, Embedding) {
  at::Tensor ids = torch::tensor({{1, 2, 0}, {4, 4, 1}});
  check("Embedding", nn::Embedding(5, 6), ids, {{"padding_idx", 0}});
}

TEST_F(Layers, Dropout) {
  for (const char* type :
       {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"}) {
    check(type, volume, volume, {{"p", 0.3}});
  }
  Model model = one_layer("Dropout", {{"p", 0.25}}, nullptr, true);
  torch::manual_seed(9);
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(at::dropout(rows, 0.25, true));
  torch::manual_seed(9);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(model.forward({rows}).toTensor(), expected[i]));
}

TEST_F(Layers, Activations) {
  check("ReLU", nn::ReLU(), rows);
  check("ReLU6", nn::ReLU6(), rows * 5);
  check("GELU", nn::GELU(), rows);
  check("GELU", nn::GELU(nn::GELUOptions().approximate("tanh")), rows, {{"approximate", "tanh"}});
  check("SiLU", nn::SiLU(), rows);
  check("Mish", nn::Mish(), rows);
  check("ELU", nn::ELU(nn::ELUOptions().alpha(0.7)), rows, {{"alpha", 0.7}});
  check("CELU", nn::CELU(nn::CELUOptions().alpha(0.7)), rows, {{"alpha", 0.7}});
  check("SELU", nn::SELU(), rows);
  check("LeakyReLU", nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), rows,
        {{"negative_slope", 0.2}});
  check("PReLU", nn::PReLU(), rows);
  check("Hardtanh", nn::Hardtanh(), rows);
  check("Hardswish", at::hardswish(rows), rows);
  check("Hardsigmoid", at::hardsigmoid(rows), rows);
  check("Threshold", nn::Threshold(0.1, 20.0), rows, {{"threshold", 0.1}, {"value", 20.0}});
  check("Softplus", nn::Softplus(nn::SoftplusOptions().beta(0.5).threshold(3)), rows,
        {{"beta", 0.5}, {"threshold", 3}});
  check("Tanh", nn::Tanh(), rows);
  check("Sigmoid", nn::Sigmoid(), rows);
  check("LogSigmoid", nn::LogSigmoid(), rows);
  check("GLU", nn::GLU(), rows);
  check("Softmax", nn::Softmax(1), rows, {{"dim", 1}});
  check("LogSoftmax", nn::LogSoftmax(-1), rows, {{"dim", -1}});
}

TEST_F(Layers, InPlaceActivationsChangeTheirInput) {
  Model model = one_layer("ReLU", {{"inplace", true}}, nullptr, false);
  for (int i = 0; i < 3; ++i) {
    at::Tensor x = torch::randn({4}), expected = at::relu(x);
    EXPECT_TRUE(same(model.forward({x}).toTensor(), expected));
    EXPECT_TRUE(same(x, expected));
  }
}

TEST_F(Layers, Pooling) {
  check("MaxPool1d", nn::MaxPool1d(2), line, {{"kernel_size", 2}});
  check("MaxPool2d",
        nn::MaxPool2d(nn::MaxPool2dOptions({3, 2}).stride(2).padding(1).ceil_mode(true)), image,
        {{"kernel_size", Tuple{{3, 2}}}, {"stride", 2}, {"padding", 1}, {"ceil_mode", true}});
  check("MaxPool3d", nn::MaxPool3d(2), volume, {{"kernel_size", 2}});
  check("AvgPool1d", nn::AvgPool1d(2), line, {{"kernel_size", 2}});
  check("AvgPool2d", nn::AvgPool2d(nn::AvgPool2dOptions(3).padding(1).count_include_pad(false)),
        image, {{"kernel_size", 3}, {"padding", 1}, {"count_include_pad", false}});
  check("AvgPool3d", nn::AvgPool3d(2), volume, {{"kernel_size", 2}});
  check("AdaptiveAvgPool1d", nn::AdaptiveAvgPool1d(3), line, {{"output_size", 3}});
  check("AdaptiveAvgPool2d", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, 2})), image,
        {{"output_size", Tuple{{3, 2}}}});
  check("AdaptiveAvgPool2d", at::adaptive_avg_pool2d(image, {9, 2}), image,
        {{"output_size", Tuple{{None{}, 2}}}});
  check("AdaptiveAvgPool3d", nn::AdaptiveAvgPool3d(2), volume, {{"output_size", 2}});
}

TEST_F(Layers, ShapesPaddingAndResizing) {
  check("Flatten", nn::Flatten(), image);
  check("Flatten", nn::Flatten(nn::FlattenOptions().start_dim(0).end_dim(1)), image,
        {{"start_dim", 0}, {"end_dim", 1}});
  check("Unflatten", rows.unflatten(1, {2, 4}), rows,
        {{"dim", 1}, {"unflattened_size", Tuple{{2, 4}}}});
  check("ZeroPad2d", nn::ZeroPad2d(nn::ZeroPad2dOptions({1, 2, 0, 3})), image,
        {{"padding", Tuple{{1, 2, 0, 3}}}});
  check("ConstantPad2d", nn::ConstantPad2d(nn::ConstantPad2dOptions(1, 2.5)), image,
        {{"padding", 1}, {"value", 2.5}});
  check("ReflectionPad1d", nn::ReflectionPad1d(2), line, {{"padding", 2}});
  check("ReflectionPad2d", nn::ReflectionPad2d(2), image, {{"padding", 2}});
  check("ReplicationPad1d", nn::ReplicationPad1d(2), line, {{"padding", 2}});
  check("ReplicationPad2d", nn::ReplicationPad2d(nn::ReplicationPad2dOptions({1, 0, 2, 1})), image,
        {{"padding", Tuple{{1, 0, 2, 1}}}});
  check("PixelShuffle", nn::PixelShuffle(2), image, {{"upscale_factor", 2}});
  check("PixelUnshuffle", nn::PixelUnshuffle(3), image, {{"downscale_factor", 3}});
  check("Upsample",
        nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest)),
        image, {{"scale_factor", 2.0}});
  check("Upsample",
        nn::Upsample(nn::UpsampleOptions()
                         .size(std::vector<std::int64_t>{5, 7})
                         .mode(torch::kBilinear)
                         .align_corners(true)),
        image, {{"size", Tuple{{5, 7}}}, {"mode", "bilinear"}, {"align_corners", true}});
  check("UpsamplingNearest2d", at::upsample_nearest2d(image, {18, 18}), image, {{"size", 18}});
}

TEST_F(Layers, AreKnownByTheirFullModulePathToo) {
  Builder b;
  NodeId x = b.input("x");
  b.module({"act", "torch.nn.modules.activation.ReLU", {}, false, ""});
  Model model = b.build(b.call_module("act", {x}));
  expect_same(model, {rows}, at::relu(rows));
}

// Runs last in this file: a layer without a test is a bug waiting. The build runs all of Layers in
// one process for it.
TEST_F(Layers, ZEveryKnownLayerIsTested) {
  if (std::getenv("GTEST_TOTAL_SHARDS")) GTEST_SKIP() << "some of the tests ran elsewhere";
  for (const auto& name : book::layer_types()) EXPECT_TRUE(tested().count(name)) << name;
}

}  // namespace
}  // namespace refx::testing
