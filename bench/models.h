// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Functions.h>

#include <string>

#include "refx/refx.h"

namespace refx::benchmarks {

inline TypePtr shape(std::vector<std::int64_t> sizes) {
  auto type = std::make_shared<TensorType>();
  type->sizes.assign(sizes.begin(), sizes.end());
  return type;
}

struct Layers {
  Builder b;
  NodeId linear(NodeId x, const std::string& path, std::int64_t in, std::int64_t out) {
    const NodeId weight = b.parameter(path + ".weight", at::ones({out, in}));
    const NodeId bias = b.parameter(path + ".bias", at::ones({out}));
    const NodeId y = b.call("aten.linear.default", {x, weight, bias});
    b.typed(shape({1, 128, out}));
    return y;
  }
  NodeId call(const std::string& target, Args args) {
    const NodeId y = b.call(target, std::move(args));
    return y;
  }
};

// The linears and the attention of an encoder of BERT-base's size, or of any other.
inline Model encoder(int layers = 12, std::int64_t hidden = 768, std::int64_t inner = 3072) {
  Layers w;
  NodeId x = w.b.input("x", shape({1, 128, hidden}));
  for (int i = 0; i < layers; ++i) {
    const std::string path = "encoder.layer." + std::to_string(i) + ".";
    const NodeId q = w.linear(x, path + "attention.self.query", hidden, hidden);
    const NodeId k = w.linear(x, path + "attention.self.key", hidden, hidden);
    const NodeId v = w.linear(x, path + "attention.self.value", hidden, hidden);
    const NodeId kt = w.call("aten.transpose.int", {k, -1, -2});
    const NodeId scores = w.call("aten.matmul.default", {q, kt});
    const NodeId scaled = w.call("aten.div.Tensor", {scores, 8.0});
    const NodeId weights = w.call("aten.softmax.int", {scaled, -1});
    const NodeId mixed = w.call("aten.matmul.default", {weights, v});
    const NodeId out = w.linear(mixed, path + "attention.output.dense", hidden, hidden);
    const NodeId sum = w.call("aten.add.Tensor", {out, x});
    const NodeId up = w.linear(sum, path + "intermediate.dense", hidden, inner);
    const NodeId act = w.call("aten.gelu.default", {up});
    x = w.call("aten.add.Tensor", {w.linear(act, path + "output.dense", inner, hidden), sum});
  }
  return w.b.build(x);
}

// A sequence of convolutions and batch norms with the shapes of ResNet-50.
inline Model resnet50() {
  Layers w;
  NodeId x = w.b.input("x", shape({1, 3, 224, 224}));
  int count = 0;
  auto conv_bn = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    const std::string path = "conv" + std::to_string(count++);
    const NodeId weight = w.b.parameter(path + ".weight", at::ones({out, in, kernel, kernel}));
    const NodeId scale = w.b.parameter(path + ".bn.weight", at::ones({out}));
    const NodeId shift = w.b.parameter(path + ".bn.bias", at::ones({out}));
    const NodeId mean = w.b.buffer(path + ".bn.running_mean", at::ones({out}));
    const NodeId var = w.b.buffer(path + ".bn.running_var", at::ones({out}));
    const NodeId conv = w.call("aten.conv2d.default", {x, weight});
    const NodeId bn =
        w.call("aten.batch_norm.default", {conv, scale, shift, mean, var, false, 0.1, 1e-5, true});
    x = w.call("aten.relu.default", {bn});
  };
  conv_bn(3, 64, 7);
  std::int64_t in = 64;
  for (const auto& [blocks, width] : {std::pair{3, 64}, {4, 128}, {6, 256}, {3, 512}}) {
    for (int i = 0; i < blocks; ++i) {
      conv_bn(in, width, 1);
      conv_bn(width, width, 3);
      conv_bn(width, width * 4, 1);
      in = width * 4;
    }
  }
  return w.b.build(x);
}

// n linears that all read one input.
inline Model fan_out(int linears) {
  Layers w;
  const NodeId x = w.b.input("x", shape({1, 128, 4}));
  List all;
  for (int i = 0; i < linears; ++i)
    all.items.emplace_back(w.linear(x, "l" + std::to_string(i), 4, 4));
  return w.b.build(w.call("aten.cat.default", {all, -1}));
}

}  // namespace refx::benchmarks
