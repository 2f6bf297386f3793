// SPDX-License-Identifier: Apache-2.0

// Random transformers in which a few linears do not bear int8: they are found.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kit.h"
#include "lab/run/forms.h"
#include "lab/verify/loss.h"
#include "refx/bisect.h"
#include "refx/builder.h"
#include "refx/original.h"
#include "refx/sensitivity.h"
#include "refx/tune.h"

namespace refx {
namespace {

using namespace testing;

TypePtr type_of(std::vector<Dim> sizes, c10::ScalarType dtype = at::kFloat) {
  auto type = std::make_shared<TensorType>();
  type->dtype = dtype;
  type->sizes = std::move(sizes);
  return type;
}

// Tokens or vectors through blocks of attention and MLP with residuals. The first number of
// whatever a linear takes is zero, so that a weight for it says nothing, however large it is; but
// it is what the scale of its row is made for.
class Transformer {
 public:
  explicit Transformer(unsigned seed) : random_(seed) {
    at::manual_seed(seed);
    batch_ = pick(0, 1) ? pick(1, 3) : 0;
    rows_ = pick(3, 9);
    width_ = 8 * pick(2, 5);
    hidden_ = width_ * pick(1, 3);
    NodeId x = pick(0, 1) ? tokens() : b_.input("x", values(width_));
    const int blocks = pick(1, 3);
    for (int i = 0; i < blocks; ++i) x = block(x, fmt::format("layer.{}", i), pick(0, 3) > 0);
    const NodeId head = linear(norm(x, "norm"), "head", width_, 5 * pick(1, 3));
    model_.emplace(b_.build(head));
    plant();
    transformation = pick(0, 1) ? "store-linear-int8" : "quantize-linear-int8";
  }

  Model& model() { return *model_; }
  std::set<std::string> planted;  // sites
  const char* transformation = nullptr;

 private:
  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  TypePtr values(std::int64_t last) const {
    return batch_ ? type_of({batch_, rows_, last}) : type_of({rows_, last});
  }

  NodeId call(const char* target, Args args, std::int64_t last) {
    const NodeId node = b_.call(target, std::move(args));
    b_.typed(values(last));
    return node;
  }

  NodeId tokens() {
    const NodeId ids =
        b_.input("ids", batch_ ? type_of({batch_, rows_}, at::kLong) : type_of({rows_}, at::kLong));
    const NodeId table = b_.parameter("table.weight", at::randn({50, width_}));
    return call("aten.embedding.default", {table, ids}, width_);
  }

  NodeId norm(NodeId x, const std::string& path) {
    at::Tensor weight = at::rand({width_}) + 0.5, bias = 0.1 * at::randn({width_});
    weight[0] = bias[0] = 0;
    const NodeId w = b_.parameter(path + ".weight", weight);
    const NodeId b = b_.parameter(path + ".bias", bias);
    return call("aten.layer_norm.default", {x, List{{width_}}, w, b}, width_);
  }

  // With `first_is_zero` its first output is zero, whatever it takes.
  NodeId linear(NodeId x, const std::string& path, std::int64_t in, std::int64_t out,
                bool first_is_zero = false) {
    at::Tensor weight = at::randn({out, in}) / std::sqrt(static_cast<double>(in));
    at::Tensor bias = 0.1 * at::randn({out});
    weight.select(1, 0).zero_();
    if (first_is_zero) {
      weight[0].zero_();
      bias[0] = 0;
    }
    const NodeId w = b_.parameter(path + ".weight", weight);
    const NodeId b = b_.parameter(path + ".bias", bias);
    const NodeId node = call("aten.linear.default", {x, w, b}, out);
    linears_.emplace_back(path, weight);
    return node;
  }

  NodeId block(NodeId x, const std::string& path, bool with_attention) {
    if (with_attention) x = attention(x, path + ".attention");
    const NodeId y = norm(x, path + ".norm");
    const NodeId up = linear(y, path + ".up", width_, hidden_, true);
    const NodeId active = call("aten.gelu.default", {up}, hidden_);
    const NodeId down = linear(active, path + ".down", hidden_, width_);
    return call("aten.add.Tensor", {x, down}, width_);
  }

  NodeId attention(NodeId x, const std::string& path) {
    const NodeId y = norm(x, path + ".norm");
    const NodeId q = linear(y, path + ".query", width_, width_);
    const NodeId k = linear(y, path + ".key", width_, width_);
    const NodeId v = linear(y, path + ".value", width_, width_, true);
    const NodeId turned = b_.call("aten.transpose.int", {k, -1, -2});
    b_.typed(batch_ ? type_of({batch_, width_, rows_}) : type_of({width_, rows_}));
    const NodeId scores = call("aten.matmul.default", {q, turned}, rows_);
    const double scale = std::sqrt(static_cast<double>(width_));
    const NodeId scaled = call("aten.div.Tensor", {scores, scale}, rows_);
    const NodeId shares = call("aten.softmax.int", {scaled, -1}, rows_);
    const NodeId mixed = call("aten.matmul.default", {shares, v}, width_);
    return call("aten.add.Tensor", {x, linear(mixed, path + ".out", width_, width_)}, width_);
  }

  // The first weight of each row is so large that of the others little or nothing is left.
  void plant() {
    std::shuffle(linears_.begin(), linears_.end(), random_);
    linears_.resize(static_cast<std::size_t>(pick(1, 3)));
    for (const auto& [path, weight] : linears_) {
      weight.select(1, 0).fill_(pick(150, 1000) * weight.abs().max().item<double>());
      planted.insert(path);
    }
  }

  std::mt19937 random_;
  Builder b_;
  std::int64_t batch_ = 0, rows_ = 0, width_ = 0, hidden_ = 0;
  std::vector<std::pair<std::string, at::Tensor>> linears_;  // with their weights
  std::optional<Model> model_;
};

TuneOptions smaller(const char* transformation, double budget) {
  return {.transformations = find_transformations({transformation}),
          .measure = {.threads = 1, .seconds = 1e-3},
          .budget = budget,
          .prefer = Prefer::size};
}

class Outliers : public ::testing::TestWithParam<unsigned> {};

TEST_P(Outliers, AreFoundBySensitivityAndByBisectionAndLeftAloneByTune) {
  for (unsigned seed = GetParam(); seed < GetParam() + 50; ++seed) {
    Transformer transformer(seed);
    Model& model = transformer.model();
    find_transformation(transformer.transformation)(model);
    const std::set<std::string>& planted = transformer.planted;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, transformer.transformation));

    const Sensitivity result = sensitivity(model);
    std::vector<StepLoss> ranked = result.steps;
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const StepLoss& a, const StepLoss& b) { return a.error > b.error; });
    std::set<std::string> first;
    std::set<StepId> others;
    for (std::size_t i = 0; i < ranked.size(); ++i)
      if (i < planted.size())
        first.insert(ranked[i].site);
      else
        others.insert(ranked[i].id);
    ASSERT_EQ(first, planted) << to_text(result);

    const LossOf loss(original_of(model), {inputs_for(model, "", 0)}, 0);
    const double least = ranked[planted.size() - 1].error, rest = loss(form_with(model, others));
    ASSERT_LT(rest, least) << to_text(result);
    const double budget = std::sqrt(rest * least);
    const Bisection found = bisect(model, [&](const Model& form) {
      return loss(form) <= budget ? BisectVerdict::good : BisectVerdict::bad;
    });
    std::set<std::string> culprits;
    for (const Culprit& culprit : found.culprits)
      for (StepId id : culprit.steps) culprits.insert(model.history()[id].site);
    EXPECT_EQ(culprits, planted) << to_text(found, model);

    Model tuned = original_of(model);
    const Tuning tuning = tune(tuned, smaller(transformer.transformation, budget));
    EXPECT_EQ(tuning.changed, !others.empty()) << to_text(tuning);
    EXPECT_LE(tuning.changed ? tuning.budget->error : 0, budget);
    for (const Step& step : tuned.history())
      EXPECT_FALSE(planted.contains(step.site)) << to_text(tuning);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Outliers, ::testing::Values(0, 50, 100, 150));

}  // namespace
}  // namespace refx
