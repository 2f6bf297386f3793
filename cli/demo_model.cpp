// SPDX-License-Identifier: Apache-2.0

#include "demo_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cmath>

#include "refx/builder.h"

namespace refx::cli {

namespace {

constexpr std::int64_t kBatch = 2, kChannels = 3, kImage = 24, kPatch = 4;
constexpr std::int64_t kTokens = (kImage / kPatch) * (kImage / kPatch);
constexpr std::int64_t kHeads = 4, kWidth = 96, kHeadWidth = kWidth / kHeads, kClasses = 10;

class Transformer {
 public:
  explicit Transformer(at::ScalarType dtype) : dtype_(dtype) {}

  Model build() {
    const NodeId image = b_.input("image", sizes({kBatch, kChannels, kImage, kImage}));
    NodeId x = patches(image);
    x = b_.call("aten.add.Tensor", {x, attention(norm("attention.norm", x))});
    x = b_.call("aten.add.Tensor", {x, mlp(norm("mlp.norm", x))});
    return b_.build(head(x));
  }

 private:
  // A convolution with batch norm cuts the image into patches; each becomes a token.
  NodeId patches(NodeId image) {
    const NodeId weight =
        b_.parameter("stem.conv.weight", random({kWidth, kChannels, kPatch, kPatch}, 0.15));
    const NodeId conv =
        b_.call("aten.conv2d.default", {image, weight, None{}, List{{kPatch, kPatch}}});
    const NodeId flat =
        b_.call("aten.flatten.using_ints", {batch_norm("stem.norm", conv, kWidth), 2});
    return b_.call("aten.transpose.int", {flat, 1, 2});
  }

  NodeId attention(NodeId x) {
    const NodeId query = heads(linear("attention.query", x, kWidth, kWidth));
    const NodeId key = heads(linear("attention.key", x, kWidth, kWidth));
    const NodeId value = heads(linear("attention.value", x, kWidth, kWidth));
    const NodeId products =
        b_.call("aten.matmul.default", {query, b_.call("aten.transpose.int", {key, -2, -1})});
    const NodeId scores =
        b_.call("aten.div.Tensor", {products, std::sqrt(static_cast<double>(kHeadWidth))});
    b_.with_meta(std::make_shared<const Meta>(Meta{{"nn_module_stack", ",attention,Attention"}}));
    const NodeId weights = b_.call("aten.softmax.int", {scores, -1});
    const NodeId mixed = b_.call("aten.matmul.default", {weights, value});
    const NodeId tokens = b_.call("aten.transpose.int", {mixed, 1, 2});
    const NodeId joined =
        b_.call("aten.reshape.default", {tokens, List{{kBatch, kTokens, kWidth}}});
    return linear("attention.output", joined, kWidth, kWidth);
  }

  NodeId heads(NodeId x) {
    const NodeId split =
        b_.call("aten.view.default", {x, List{{kBatch, kTokens, kHeads, kHeadWidth}}});
    return b_.call("aten.transpose.int", {split, 1, 2});
  }

  NodeId mlp(NodeId x) {
    const NodeId wide = b_.call("aten.gelu.default", {linear("mlp.up", x, kWidth, 2 * kWidth)});
    return linear("mlp.down", wide, 2 * kWidth, kWidth);
  }

  NodeId head(NodeId x) {
    const NodeId mean = b_.call("aten.mean.dim", {x, List{{1}}});
    b_.typed(sizes({kBatch, kWidth}));
    const NodeId hidden =
        batch_norm("head.norm", linear("head.hidden", mean, kWidth, kWidth), kWidth);
    return linear("head.classes", b_.call("aten.relu.default", {hidden}), kWidth, kClasses);
  }

  NodeId linear(const std::string& path, NodeId x, std::int64_t in, std::int64_t out) {
    const NodeId weight = b_.parameter(path + ".weight", random({out, in}, 0.1));
    const NodeId bias = b_.parameter(path + ".bias", random({out}, 0.1));
    return b_.call("aten.linear.default", {x, weight, bias});
  }

  NodeId norm(const std::string& path, NodeId x) {
    const NodeId weight = b_.parameter(path + ".weight", random({kWidth}, 0.1, 1));
    const NodeId bias = b_.parameter(path + ".bias", random({kWidth}, 0.1));
    return b_.call("aten.layer_norm.default", {x, List{{kWidth}}, weight, bias});
  }

  NodeId batch_norm(const std::string& path, NodeId x, std::int64_t channels) {
    const NodeId weight = b_.parameter(path + ".weight", random({channels}, 0.1, 1));
    const NodeId bias = b_.parameter(path + ".bias", random({channels}, 0.1));
    const NodeId mean = b_.buffer(path + ".running_mean", random({channels}, 0.1));
    const NodeId var = b_.buffer(path + ".running_var", random({channels}, 0.1, 1).abs());
    return b_.call("aten.batch_norm.default", {x, weight, bias, mean, var, false, 0.1, 1e-5, true});
  }

  at::Tensor random(const std::vector<std::int64_t>& sizes, double spread, double mean = 0) {
    return (at::randn(sizes, generator_, at::kFloat) * spread + mean).to(dtype_);
  }

  TypePtr sizes(std::vector<Dim> dims) const {
    TensorType type;
    type.dtype = dtype_;
    type.sizes = std::move(dims);
    return std::make_shared<const TensorType>(std::move(type));
  }

  at::ScalarType dtype_;
  at::Generator generator_ = at::detail::createCPUGenerator(1);
  Builder b_;
};

}  // namespace

Model demo_model(at::ScalarType dtype) { return Transformer(dtype).build(); }

at::Tensor demo_image(at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(2);
  return at::randn({kBatch, kChannels, kImage, kImage}, generator, at::kFloat).to(dtype);
}

}  // namespace refx::cli
