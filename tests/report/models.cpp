// SPDX-License-Identifier: Apache-2.0

#include "report/models.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "refx/refx.h"

namespace refx::testing {

namespace {

TypePtr shape(std::vector<Dim> sizes) {
  auto type = std::make_shared<TensorType>();
  type->sizes = std::move(sizes);
  return type;
}

class Encoder {
 public:
  Model build(int layers, const std::string& path = "encoder.layer") {
    NodeId x = b.input("x", shape({2, 3, 4}));
    for (int i = 0; i < layers; ++i) x = layer(x, fmt::format("{}.{}", path, i));
    return b.build(x);
  }

 private:
  NodeId layer(NodeId x, const std::string& path) {
    const std::string self = path + ".attention.self";
    const NodeId q = linear(x, self + ".query"), k = linear(x, self + ".key"),
                 v = linear(x, self + ".value");
    const NodeId turned = call("aten.transpose.int", {k, -1, -2}, self);
    const NodeId scores = call("aten.matmul.default", {q, turned}, self, shape({2, 3, 3}));
    const NodeId scaled = call("aten.div.Tensor", {scores, 3.0}, self, shape({2, 3, 3}));
    const NodeId weights = call("aten.softmax.int", {scaled, -1}, self);
    const NodeId mixed = call("aten.matmul.default", {weights, v}, self, shape({2, 3, 4}));
    const NodeId out = linear(mixed, path + ".attention.output.dense");
    const NodeId sum =
        call("aten.add.Tensor", {out, x}, path + ".attention.output", shape({2, 3, 4}));
    const NodeId up = linear(sum, path + ".intermediate.dense");
    const NodeId act =
        call("aten.gelu.default", {up}, path + ".intermediate.act", shape({2, 3, 4}));
    const NodeId down = linear(act, path + ".output.dense");
    return call("aten.add.Tensor", {down, sum}, path + ".output", shape({2, 3, 4}));
  }

  NodeId linear(NodeId x, const std::string& path) {
    const NodeId weight = b.parameter(path + ".weight", at::rand({4, 4}));
    const NodeId bias = b.parameter(path + ".bias", at::rand({4}));
    return call("aten.linear.default", {x, weight, bias}, path, shape({2, 3, 4}));
  }

  NodeId call(const std::string& target, Args args, const std::string& path, TypePtr type = {}) {
    const NodeId node = b.call(target, std::move(args));
    b.typed(std::move(type));
    b.with_meta(std::make_shared<Meta>(
        Meta{{"nn_module_stack", fmt::format("k,{},torch.nn.Module", path)}}));
    return node;
  }

  Builder b;
};

}  // namespace

Model rewritten_encoder(int layers) {
  Model model = Encoder().build(layers);
  apply(model, MergeLinears());
  apply(model, ChangeTrueDivToMulByInverse());
  return model;
}

Model lossy_encoder() {
  at::manual_seed(0);
  Model model = Encoder().build(12, "model.text_encoder.transformer.<b>backbone</b>.layers");
  find_transformation("store-linear-int8")(model);
  reverse(model, model.history().select("*layers.3.*dense*"));
  return model;
}

Model chain(int nodes) {
  Builder b;
  NodeId x = b.input("x", shape({2}));
  for (int i = 0; i < nodes; ++i) x = b.call("aten.relu.default", {x});
  return b.build(x);
}

Verification some_verification() {
  OutputCheck good{.path = "output[0]",
                   .type = "f32[2, 3, 4]",
                   .scale = 2,
                   .fp64_error = {2e-16, 2e-10},
                   .native_error = {6e-7, 4e-6},
                   .original_error = 4e-7,
                   .original_l2 = 1e-7,
                   .l2 = 2e-7,
                   .problem = ""};
  OutputCheck bad = good;
  bad.path = "output[1]";
  bad.native_error.error = 1e-3;
  bad.fraction_exceeding = 0.25;
  bad.answer = VerifyVerdict::fail;
  bad.problem = "the error is 0.001, the tolerance is 4e-06";
  OutputCheck exact{.path = "output[2]", .type = "i64[2]", .exact = true, .problem = ""};
  Verification v;
  v.sets.push_back({"the sample inputs", {good, bad, exact}});
  for (std::uint32_t id : {1u, 2u})
    v.steps.push_back({.id = StepId(id),
                       .transformation = "merge-linears",
                       .site = fmt::format("encoder.layer.{}", id),
                       .built_on = {},
                       .worst = id == 1 ? good : bad,
                       .added_error = 1e-7});
  v.power = {{StepId(1), "merge-linears", "encoder.layer.1", 3e-9},
             {StepId(2), "merge-linears", "encoder.layer.2", {}}};
  v.warnings = {"step 2 is <not> reached"};
  v.notes = {"a <note>"};
  return v;
}

Benchmark some_benchmark() {
  Benchmark b;
  b.before = "the original";
  b.after = "the model";
  b.inputs = "generated";
  b.device = "cpu";
  b.machine = "a machine";
  b.contest.before = {2.3e-3, 2.4e-3, 2.6e-3, 400};
  b.contest.after = {2.0e-3, 2.1e-3, 2.2e-3, 400};
  b.contest.ratio = 1.14;
  b.contest.low = 1.12;
  b.contest.high = 1.16;
  b.contest.rounds = {1.10, 1.13, 1.14, 1.14, 1.15, 1.18};
  b.contest.speed = Speed::faster;
  for (std::uint32_t id : {1u, 2u})
    b.steps.push_back(
        {StepId(id), "merge-linears", fmt::format("encoder.layer.{}", id), b.contest});
  return b;
}

Tuning some_tuning() {
  Tuning t;
  WithinBudget& within = t.budget.emplace();
  within.budget = 0.01;
  within.error = 0.0093;
  within.tried = {{.sites = 72, .error = 0.031, .gain = 0.0042},
                  {.sites = 55, .error = 0.0118, .gain = 0.0030},
                  {.sites = 50, .error = 0.0091, .gain = 0.0031, .good = true},
                  {.sites = 12, .error = 0.002, .gain = 0.0008, .good = true}};
  return t;
}

}  // namespace refx::testing
