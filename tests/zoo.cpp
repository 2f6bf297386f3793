// SPDX-License-Identifier: Apache-2.0

#include "zoo.h"

#include <ATen/ops/full.h>

#include <cmath>
#include <functional>

#include "writer.h"

namespace refx::testing {

namespace {

// Self-attention with scores / sqrt(d), and a feed-forward part.
Model encoder(Writer& w) {
  const NodeId x = w.input({2, 5, 8});
  auto heads = [&](NodeId v) {
    const NodeId split = w.call("view", {v, List{{2, 5, 2, 4}}});
    return w.call("transpose", {split, 1, 2}, "int");
  };
  const NodeId q = heads(w.linear(x, "layer.attn.q", 8));
  const NodeId k = heads(w.linear(x, "layer.attn.k", 8, false));
  const NodeId v = heads(w.linear(x, "layer.attn.v", 8));
  const NodeId scores =
      w.divide(w.call("matmul", {q, w.call("transpose", {k, 2, 3}, "int")}), std::sqrt(4.0));
  const NodeId weights = w.call("softmax", {scores, -1}, "int");
  const NodeId mixed = w.call("transpose", {w.call("matmul", {weights, v}), 1, 2}, "int");
  const NodeId joined = w.call("reshape", {mixed, List{{2, 5, 8}}});
  const NodeId out = w.linear(joined, "layer.attn.out", 8);
  const NodeId hidden = w.call("relu", {w.linear(out, "layer.up", 16)});
  return w.build(w.linear(hidden, "layer.down", 8));
}

Model convolutions(Writer& w) {
  const NodeId x = w.input({2, 4, 6, 6});
  NodeId y = w.norm(w.conv(x, "stem.conv", 8, {}), "stem.bn", {});
  y = w.call("relu", {y});
  y = w.norm(w.conv(y, "depth.conv", 8, {.groups = 8, .bias = false}), "depth.bn", {});
  y = w.norm(w.conv(y, "wide.conv", 8, {.groups = 2, .padding = 2, .dilation = 2}), "wide.bn",
             {.affine = false});
  y = w.norm(w.conv(y, "up.conv", 6, {.groups = 2, .stride = 2, .transposed = true}), "up.bn", {});
  return w.build(Tuple{{y, w.call("relu", {y})}});
}

Model norms_and_linears(Writer& w) {
  const NodeId x = w.input({3, 2, 4});
  NodeId y = w.call("flatten", {x, 1}, "using_ints");
  y = w.norm(y, "first", {});
  y = w.linear(y, "a", 8, false);
  y = w.norm(y, "second", {});
  y = w.call("relu", {y});
  y = w.norm(w.linear(y, "b", 6), "third", {.affine = false});
  return w.build(w.linear(y, "c", 4));
}

// Nothing here may be rewritten except where it is legal: shared layers, training, fan-out.
Model corners(Writer& w) {
  const NodeId x = w.input({3, 8});
  const NodeId shared = w.linear(x, "shared", 8);
  const NodeId again = w.linear(shared, "shared", 8);
  const NodeId seen = w.linear(again, "seen", 8);
  const NodeId normed = w.norm(seen, "norm", {});
  const NodeId training = w.norm(w.linear(normed, "t", 8), "training", {.training = true});
  const NodeId zero = w.divide(training, 0.0);
  const NodeId big = w.divide(seen, 1e300);
  return w.build(List{{w.divide(normed, 7), zero, big, w.linear(x, "p", 3), w.linear(x, "r", 5)}});
}

Model in_place(Writer& w) {
  const NodeId x = w.input({3, 8});
  const NodeId y = w.call("relu", {x});
  const NodeId a = w.linear(y, "a", 4);
  const NodeId written = w.call("mul_", {y, 2.0}, "Tensor");
  const NodeId b = w.linear(y, "b", 4);
  const NodeId c = w.linear(written, "c", 4);
  const NodeId d = w.linear(written, "d", 4);
  const NodeId sum = w.call("add_", {c, d}, "Tensor");
  return w.build(Tuple{{a, b, sum, d}});
}

Model divisions(Writer& w) {
  const NodeId x = w.input({3, 4});
  const NodeId c = w.buffer("scale", at::full({}, 3.0, at::kFloat));
  NodeId y = w.divide(x, 49);
  y = w.divide(y, -0.1);
  if (w.value(x).scalar_type() == at::kFloat) y = w.divide(y, c);
  const NodeId left = w.linear(y, "l", 4), right = w.linear(y, "r", 4, false);
  return w.build(w.call(
      "add", {w.call("view", {left, List{{12}}}), w.call("view", {w.divide(right, 2), List{{12}}})},
      "Tensor"));
}

// What is handed on, computed twice, or the same every time.
Model untidy(Writer& w) {
  const NodeId x = w.input({3, 4});
  const NodeId table = w.buffer("table", w.random({4}));
  const NodeId fixed = w.call("sigmoid", {w.call("exp", {table})});
  const NodeId idle = w.call("dropout", {w.linear(x, "first", 4), 0.1, false});
  const NodeId left = w.call("mul", {idle, fixed}, "Tensor");
  const NodeId again = w.call("mul", {idle, fixed}, "Tensor");
  const NodeId turned = w.call("transpose", {again, 0, 1}, "int");
  const NodeId back = w.call("transpose", {turned, 0, 1}, "int");
  const NodeId sum = w.call("add", {left, w.call("clone", {back})}, "Tensor");
  return w.build(Tuple{{w.linear(sum, "l", 4), w.linear(sum, "r", 4)}});
}

struct Recipe {
  const char* name;
  Model (*write)(Writer&);
};
constexpr Recipe kRecipes[] = {
    {"encoder", encoder}, {"convolutions", convolutions}, {"norms", norms_and_linears},
    {"corners", corners}, {"in_place", in_place},         {"divisions", divisions},
    {"untidy", untidy}};

}  // namespace

std::vector<Specimen> zoo() {
  std::vector<Specimen> all;
  const std::pair<const char*, Spelling> spellings[] = {
      {"aten", Spelling::aten}, {"functional", Spelling::functional}, {"module", Spelling::module}};
  for (const Recipe& recipe : kRecipes) {
    for (const auto& [spelling_name, spelling] : spellings)
      for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        Writer writer(spelling, dtype);
        writer.set_requires_grad(dtype == at::kDouble);
        all.push_back({std::string(recipe.name) + "_" + spelling_name + "_" + c10::toString(dtype),
                       recipe.write(writer)});
      }
  }
  return all;
}

}  // namespace refx::testing
