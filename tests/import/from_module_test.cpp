// SPDX-License-Identifier: Apache-2.0

#include "refx/from_module.h"

#include <torch/nn/modules.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <typeindex>

#include "kit.h"
#include "refx/layers.h"
#include "refx/validate.h"

namespace refx::testing {
namespace {

namespace nn = torch::nn;
using at::Tensor;

struct Case {
  std::shared_ptr<nn::Module> layer;
  std::function<Tensor(const Tensor&)> forward;
  Tensor input;
};

template <class Holder>
Case layer(Holder holder, Tensor input) {
  return {holder.ptr(), [holder](const Tensor& x) mutable { return holder->forward(x); },
          std::move(input)};
}

// C++ Sequentials hold one another only through a class like this one.
struct BlockImpl : nn::SequentialImpl {
  using nn::SequentialImpl::SequentialImpl;
  Tensor forward(Tensor x) { return nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Block);

struct ResidualImpl : nn::SequentialImpl {
  using nn::SequentialImpl::SequentialImpl;
  Tensor forward(Tensor x) { return x + nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Residual);

struct OwnImpl : nn::Module {
  Tensor forward(Tensor x) { return x; }
};
TORCH_MODULE(Own);

struct OwnLinearImpl : nn::LinearImpl {
  using nn::LinearImpl::LinearImpl;
  Tensor forward(const Tensor& x) { return nn::LinearImpl::forward(x) * 2; }
};
TORCH_MODULE(OwnLinear);

Tensor run(Model model, const Tensor& input) { return model.forward({input.clone()}).toTensor(); }

void fill_statistics(nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (auto& buffer : module.named_buffers()) {
    if (buffer.key().ends_with("running_mean")) buffer.value().normal_();
    if (buffer.key().ends_with("running_var")) buffer.value().uniform_(0.5, 2);
  }
}

std::vector<Case> every_layer() {
  const Tensor matrix = at::randn({4, 8}), line = at::randn({2, 4, 9}),
               image = at::randn({2, 4, 9, 8}), volume = at::randn({2, 4, 5, 6, 7});
  const auto conv = [](auto options) { return options.stride(2).padding(1).groups(2); };
  std::vector<Case> all;
  const auto add = [&](auto holder, const Tensor& input) { all.push_back(layer(holder, input)); };
  add(nn::Identity(), matrix);
  add(nn::Linear(8, 3), matrix);
  add(nn::Linear(nn::LinearOptions(8, 3).bias(false)), matrix);
  add(nn::Embedding(nn::EmbeddingOptions(8, 3).padding_idx(1)), at::randint(8, {2, 5}, at::kLong));

  add(nn::Conv1d(conv(nn::Conv1dOptions(4, 6, 3))), line);
  add(nn::Conv2d(conv(nn::Conv2dOptions(4, 6, {3, 2}))), image);
  add(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kSame).dilation(2).bias(false)), image);
  add(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kValid)), image);
  add(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding({1, 2}).padding_mode(torch::kCircular)), image);
  add(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(1).padding_mode(torch::kReflect)), image);
  add(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(1).padding_mode(torch::kReplicate)), image);
  add(nn::Conv3d(conv(nn::Conv3dOptions(4, 6, 3))), volume);
  add(nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3).stride(2).output_padding(1)), line);
  add(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 6, 3).groups(2).padding(1)), image);
  add(nn::ConvTranspose3d(nn::ConvTranspose3dOptions(4, 6, 3).dilation(2)), volume);

  add(nn::BatchNorm1d(8), matrix);
  add(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).eps(1e-3).affine(false)), image);
  add(nn::BatchNorm3d(nn::BatchNorm3dOptions(4).track_running_stats(false)), volume);
  add(nn::InstanceNorm1d(nn::InstanceNorm1dOptions(4).affine(true)), line);
  add(nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).track_running_stats(true)), image);
  add(nn::InstanceNorm3d(4), volume);
  add(nn::GroupNorm(nn::GroupNormOptions(2, 4).eps(1e-3)), image);
  add(nn::LayerNorm(nn::LayerNormOptions({9, 8})), image);
  add(nn::LayerNorm(nn::LayerNormOptions({8}).elementwise_affine(false)), image);

  add(nn::Dropout(0.3), matrix);
  add(nn::Dropout2d(0.3), image);
  add(nn::Dropout3d(0.3), volume);
  add(nn::AlphaDropout(0.3), matrix);
  add(nn::FeatureAlphaDropout(0.3), image);

  add(nn::ReLU(), matrix);
  add(nn::ReLU(nn::ReLUOptions(true)), matrix);
  add(nn::ReLU6(), matrix * 6);
  add(nn::SELU(), matrix);
  add(nn::ELU(nn::ELUOptions().alpha(0.5)), matrix);
  add(nn::CELU(nn::CELUOptions().alpha(0.5)), matrix);
  add(nn::GELU(), matrix);
  add(nn::GELU(nn::GELUOptions().approximate("tanh")), matrix);
  add(nn::SiLU(), matrix);
  add(nn::Mish(), matrix);
  add(nn::Tanh(), matrix);
  add(nn::Sigmoid(), matrix);
  add(nn::LogSigmoid(), matrix);
  add(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), matrix);
  add(nn::PReLU(nn::PReLUOptions().num_parameters(8).init(0.3)), matrix);
  add(nn::Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.7)), matrix);
  add(nn::Threshold(nn::ThresholdOptions(0.1, 20)), matrix);
  add(nn::Softplus(nn::SoftplusOptions().beta(2).threshold(3)), matrix);
  add(nn::GLU(1), matrix);
  add(nn::Softmax(0), matrix);
  add(nn::LogSoftmax(1), matrix);

  add(nn::MaxPool1d(nn::MaxPool1dOptions(3).stride(2).padding(1)), line);
  add(nn::MaxPool2d(nn::MaxPool2dOptions({3, 2}).ceil_mode(true)), image);
  add(nn::MaxPool3d(nn::MaxPool3dOptions(2).dilation(2).stride(1)), volume);
  add(nn::AvgPool1d(nn::AvgPool1dOptions(3).padding(1).count_include_pad(false)), line);
  add(nn::AvgPool2d(nn::AvgPool2dOptions({3, 2}).divisor_override(5)), image);
  add(nn::AvgPool3d(2), volume);
  add(nn::AdaptiveAvgPool1d(3), line);
  add(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, std::nullopt})), image);
  add(nn::AdaptiveAvgPool3d(2), volume);

  add(nn::Flatten(), image);
  add(nn::Flatten(nn::FlattenOptions().start_dim(2).end_dim(3)), image);
  add(nn::Unflatten(nn::UnflattenOptions(1, {2, 2})), image);
  add(nn::ZeroPad2d(nn::ZeroPad2dOptions({1, 2, 0, 3})), image);
  add(nn::ConstantPad2d(nn::ConstantPad2dOptions({1, 2, 0, 3}, 0.5)), image);
  add(nn::ReflectionPad1d(2), line);
  add(nn::ReflectionPad2d(nn::ReflectionPad2dOptions({1, 2, 0, 3})), image);
  add(nn::ReplicationPad1d(2), line);
  add(nn::ReplicationPad2d(2), image);
  add(nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2, 3})), image);
  add(nn::Upsample(nn::UpsampleOptions()
                       .size(std::vector<std::int64_t>{5, 20})
                       .mode(torch::kBilinear)
                       .align_corners(true)),
      image);
  add(nn::PixelShuffle(2), image);
  add(nn::PixelUnshuffle(3), at::randn({2, 4, 9, 6}));
  return all;
}

TEST(FromModule, EveryLayerRunsBitForBitAsInTorch) {
  at::manual_seed(1);
  std::set<std::string> covered;
  for (Case& c : every_layer()) {
    for (const bool training : {false, true}) {
      c.layer->train(training);
      fill_statistics(*c.layer);
      const Model model = from_module(*c.layer);
      validate(model);
      const std::string type = model.modules()[model.modules().first()].type;
      covered.insert(type);
      const Model own =
          deep_copy(model);  // running a layer in training mode changes its statistics
      at::manual_seed(2);
      const Tensor expected = c.forward(c.input.clone());
      at::manual_seed(2);
      EXPECT_TRUE(at::equal(run(own, c.input), expected))
          << print(model) << "training " << training;
    }
  }
  // What the executor can run, less what C++ torch::nn does not have or what takes two tensors.
  for (const std::string& type : layer_types()) {
    static const std::set<std::string> kOthers = {
        "torch.nn.Bilinear",  "torch.nn.Dropout1d", "torch.nn.Hardsigmoid",
        "torch.nn.Hardswish", "torch.nn.RMSNorm",   "torch.nn.UpsamplingNearest2d"};
    EXPECT_TRUE(covered.count(type) || kOthers.count(type)) << type << " has no row or no case";
  }
}

TEST(FromModule, TrainingUpdatesTheStatisticsAsInTorch) {
  for (const std::optional<double> momentum : {std::optional(0.3), std::optional<double>()}) {
    nn::Sequential a(nn::BatchNorm1d(nn::BatchNorm1dOptions(4).momentum(momentum)));
    nn::Sequential b(std::dynamic_pointer_cast<nn::SequentialImpl>(a->clone()));
    Executor executor(from_module(*b));
    for (int i = 0; i < 3; ++i) {
      const Tensor x = at::randn({8, 4});
      EXPECT_TRUE(at::equal(a->forward(x), executor.run({x}).toTensor()));
    }
    // They belong to the runs: the tensors of the source stay as they are.
    ASSERT_EQ(executor.state().size(), a->named_buffers().size());
    for (const auto& [name, tensor] : executor.state()) {
      EXPECT_TRUE(at::equal(a->named_buffers()[name], tensor)) << name;
      EXPECT_FALSE(at::equal(b->named_buffers()[name], tensor)) << name;
    }
  }
}

TEST(FromModule, WritesTheModuleDialect) {
  nn::Sequential net({{"conv", nn::Conv2d(nn::Conv2dOptions(1, 2, 3).padding(1).bias(false))},
                      {"bn", nn::BatchNorm2d(2)},
                      {"act", nn::ReLU()},
                      {"flat", nn::Flatten()},
                      {"fc", nn::Linear(8, 3)}});
  net->eval();
  net->ptr<nn::LinearImpl>(4)->bias.set_requires_grad(false);
  EXPECT_EQ(print(from_module(*net)), R"(parameter conv.weight : f32[2, 1, 3, 3] requires_grad=True
parameter bn.weight : f32[2] requires_grad=True
parameter bn.bias : f32[2] requires_grad=True
buffer bn.running_mean : f32[2]
buffer bn.running_var : f32[2]
buffer bn.num_batches_tracked : i64[]
parameter fc.weight : f32[3, 8] requires_grad=True
parameter fc.bias : f32[3]
module conv : torch.nn.Conv2d(in_channels=1, out_channels=2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1, bias=False, padding_mode="zeros")
module bn : torch.nn.BatchNorm2d(num_features=2, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
module act : torch.nn.ReLU(inplace=False)
module flat : torch.nn.Flatten(start_dim=1, end_dim=-1)
module fc : torch.nn.Linear(in_features=8, out_features=3, bias=True)
graph():
    %input : [num_users=1] = placeholder[target=input]
    %conv : [num_users=1] = call_module[target=conv](args = (%input,), kwargs = {})
    %bn : [num_users=1] = call_module[target=bn](args = (%conv,), kwargs = {})
    %act : [num_users=1] = call_module[target=act](args = (%bn,), kwargs = {})
    %flat : [num_users=1] = call_module[target=flat](args = (%act,), kwargs = {})
    %fc : [num_users=1] = call_module[target=fc](args = (%flat,), kwargs = {})
    return fc
)");
}

TEST(FromModule, KeepsTheOrderAndTheTensorsOfTheStateDict) {
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  const Model model = from_module(*net);
  std::vector<std::string> names, expected;
  for (StateId id : model.state()) names.push_back(model.state()[id].name);
  for (const auto& child : net->named_children()) {
    for (const auto& p : child.value()->named_parameters())
      expected.push_back(child.key() + "." + p.key());
    for (const auto& b : child.value()->named_buffers())
      expected.push_back(child.key() + "." + b.key());
  }
  EXPECT_EQ(names, expected);
  for (const auto& p : net->named_parameters())
    EXPECT_TRUE(Tensor(model.state().tensor(model.state().find(p.key()))).is_same(p.value()))
        << p.key();
}

TEST(FromModule, ReadsASingleLayerAsTheSequentialOfIt) {
  nn::Linear linear(4, 2);
  EXPECT_EQ(print(from_module(*linear)), print(from_module(*nn::Sequential(linear))));
  EXPECT_EQ(print(from_module(*linear)), print(from_module(nn::AnyModule(linear))));
}

TEST(FromModule, AnEmptySequentialReturnsItsInput) {
  EXPECT_EQ(print(from_module(*nn::Sequential())),
            "graph():\n    %input : [num_users=1] = placeholder[target=input]\n    return input\n");
}

TEST(FromModule, ALayerUsedTwiceIsOneModuleCalledTwice) {
  nn::Linear shared(4, 4);
  nn::Sequential net(shared, nn::ReLU(), shared);
  const Model model = from_module(*net);
  EXPECT_EQ(model.modules().size(), 2u);
  EXPECT_EQ(model.graph().callers("0").size(), 2u);
  EXPECT_FALSE(model.state().find("2.weight"));
  const Tensor x = at::randn({2, 4});
  EXPECT_TRUE(at::equal(run(model, x), net->forward(x)));
}

TEST(FromModule, TakesTheTensorsThatForwardUses) {
  nn::Linear encoder(4, 4), decoder(4, 4);
  decoder->weight = encoder->weight;  // torch still has the old one registered
  decoder->bias = Tensor();
  nn::Sequential net(encoder, decoder);
  const Model model = from_module(*net);
  EXPECT_EQ(model.state().storage_sharers(model.state().find("0.weight")), 2u);
  EXPECT_FALSE(model.state().find("1.bias"));
  const Tensor x = at::randn({2, 4});
  EXPECT_TRUE(at::equal(run(model, x), net->forward(x)));
}

TEST(FromModule, ReadsNestedSequentialsThatAreNamedPlain) {
  nn::Sequential net(nn::Linear(4, 4),
                     Block(nn::Linear(4, 8), Block(nn::ReLU()), nn::Linear(8, 4)));
  const Model model = from_module(*net, {typeid(BlockImpl)});
  std::vector<std::string> paths;
  for (ModuleId id : model.modules()) paths.push_back(model.modules()[id].name);
  EXPECT_EQ(paths, (std::vector<std::string>{"0", "1.0", "1.1.0", "1.2"}));
  const Tensor x = at::randn({2, 4});
  EXPECT_TRUE(at::equal(run(model, x), net->forward(x)));
}

TEST(FromModule, RefusesWhatItCannotReadAndNamesIt) {
  const auto message = [](const nn::Module& module) {
    return error_of([&] { from_module(module); });
  };
  EXPECT_EQ(
      message(*nn::Sequential(nn::ReLU(), Own())),
      "from_module cannot read module '1', a refx::testing::(anonymous namespace)::OwnImpl: its "
      "forward is not known (only those of torch::nn::Sequential and plain layers are); use layers "
      "of torch::nn in its place, or write this part with refx::Builder");
  EXPECT_EQ(
      message(*nn::Sequential({{"block", Residual(nn::ReLU())}})),
      "from_module cannot read module 'block', a refx::testing::(anonymous "
      "namespace)::ResidualImpl: "
      "it derives from Sequential, and its own forward may do more than run its layers; name its "
      "type among the plain Sequentials if it does no more, or write this part with refx::Builder");
  const auto contains = [&](const nn::Module& module, const char* part) {
    EXPECT_NE(message(module).find(part), std::string::npos) << message(module);
  };
  contains(*nn::ModuleList(nn::ReLU()), "a torch::nn::ModuleListImpl: its forward is not known");
  contains(*nn::Sequential(nn::Functional(torch::relu)), "module '0', a torch::nn::FunctionalImpl");
  contains(*nn::Sequential(OwnLinear(4, 4)), "OwnLinearImpl: its forward is not known");
  contains(*nn::Sequential(nn::LSTM(4, 4)), "module '0', a torch::nn::LSTMImpl");
  EXPECT_EQ(error_of([] { from_module(nn::AnyModule()); }),
            "from_module cannot read an empty AnyModule");
}

TEST(FromModule, RefusesASequentialWhoseLayersWereReplaced) {
  nn::Sequential net{nn::ReLU()};
  net->replace_module("0", nn::Tanh());  // forward still runs the ReLU
  EXPECT_NE(error_of([&] { from_module(*net); }).find("was replaced after it was pushed"),
            std::string::npos);
}

// Applies, compares, reverses; and the source never notices.
void expect_rewrites_and_reverses(nn::Sequential net, const std::string& transformation,
                                  const Tensor& x) {
  fill_statistics(*net);
  net->eval();
  const Tensor expected = net->forward(x);
  std::map<std::string, Tensor> values;
  for (const auto& p : net->named_parameters()) values[p.key()] = p.value().clone();

  const Model original = from_module(*net);
  Model model = original;
  ASSERT_EQ(find_transformation(transformation)(model).steps.size(), 1u) << print(model);
  validate(model);
  expect_same_results(original, model, {x});
  EXPECT_TRUE(at::equal(net->forward(x), expected));
  for (const auto& p : net->named_parameters()) EXPECT_TRUE(at::equal(p.value(), values[p.key()]));

  reverse_all(model);
  EXPECT_EQ(snapshot(model), snapshot(original));
  EXPECT_TRUE(at::equal(run(model, x), expected));
}

TEST(FromModule, BatchNormFoldsIntoConvolutionAndLinear) {
  expect_rewrites_and_reverses(nn::Sequential(nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4), nn::ReLU()),
                               "fuse-batch-norm-2d-in-conv-2d", at::randn({2, 3, 8, 8}));
  expect_rewrites_and_reverses(
      nn::Sequential(nn::Flatten(), nn::Linear(12, 4), nn::BatchNorm1d(4), nn::ReLU()),
      "fuse-batch-norm-1d-in-linear", at::randn({2, 3, 4}));
  expect_rewrites_and_reverses(nn::Sequential(nn::Linear(4, 4), nn::ReLU()), "fuse-bias-in-linear",
                               at::randn({2, 4}));
}

TEST(FromModule, BatchNormInTrainingModeIsLeftAlone) {
  nn::Sequential net(nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4));
  expect_refused("fuse-batch-norm-2d-in-conv-2d", from_module(*net), "training mode");
}

}  // namespace
}  // namespace refx::testing
