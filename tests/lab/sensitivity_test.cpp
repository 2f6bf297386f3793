// SPDX-License-Identifier: Apache-2.0

#include "refx/sensitivity.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "kit.h"
#include "refx/verify.h"
#include "rules/short_text.h"

namespace refx {
namespace {

using namespace testing;

constexpr const char* kLayers = R"(
input x : f32[5, 16]
parameter c.weight : f32[8, 24]
parameter a.weight : f32[24, 16]
parameter a.bias : f32[24]
parameter b.weight : f32[24, 24]
a : f32[5, 24] = aten.linear.default(%x, %p_a_weight, %p_a_bias)
r : f32[5, 24] = aten.relu.default(%a)
b : f32[5, 24] = aten.linear.default(%r, %p_b_weight)
d : f32[5, 24] = aten.div.Tensor(%b, 3.0)
c : f32[5, 8] = aten.linear.default(%d, %p_c_weight)
return c)";

Model three() { return parse_filled(long_text(kLayers)); }

void quantize(Model& model, const char* site) {
  apply(model, find_transformation("store-linear-int8"), {.site = {site}});
}

std::string sites(const Sensitivity& result) {
  std::string all;
  for (const StepLoss& step : result.steps) all += step.site;
  return all;
}

TEST(Sensitivity, IsOfEachLossyStepAloneInTheOrderOfTheGraph) {
  Model model = three();
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  for (const char* site : {"c", "a", "b"}) quantize(model, site);
  const std::string before = snapshot(model);
  const Inputs inputs{random_inputs(model), "given"};
  const Sensitivity result = sensitivity(model, {.measure = {.inputs = inputs}});
  EXPECT_EQ(sites(result), "abc");
  EXPECT_EQ(result.inputs, "given, f32[5, 16]");
  EXPECT_EQ(snapshot(model), before);
  const Verification verified = verify(model, {.measure = {.inputs = inputs}, .per_step = true});
  EXPECT_DOUBLE_EQ(result.error, verified.lossy->error);
  for (const StepLoss& step : result.steps) {
    const auto same = std::find_if(verified.steps.begin(), verified.steps.end(),
                                   [&](const StepCheck& s) { return s.id == step.id; });
    ASSERT_NE(same, verified.steps.end());
    EXPECT_DOUBLE_EQ(step.error, same->worst.l2) << step.site;
    EXPECT_GT(step.error, 1e-4);
    EXPECT_NEAR(step.sqnr(), -20 * std::log10(step.error), 1e-9);
    EXPECT_TRUE(step.in_model);
  }
  EXPECT_EQ(result.steps[0].bytes_before, 24u * 16 * 4);
  EXPECT_EQ(result.steps[0].bytes_after, 24u * 16 + 24 * 4);
}

TEST(Sensitivity, TriesTransformationsOnACopy) {
  Model model = three();
  quantize(model, "b");
  const std::string before = snapshot(model);
  const Sensitivity result =
      sensitivity(model, {.transformations = find_transformations({"store-linear-int8"})});
  EXPECT_EQ(sites(result), "abc");
  EXPECT_FALSE(result.steps[0].in_model);
  EXPECT_TRUE(result.steps[1].in_model);
  EXPECT_FALSE(result.steps[2].in_model);
  EXPECT_EQ(snapshot(model), before);
  EXPECT_EQ(sites(sensitivity(model)), "b");
}

TEST(Sensitivity, KnowsStepsThatWereTakenBack) {
  Model model = three();
  find_transformation("store-linear-int8")(model);
  const Sensitivity of_all = sensitivity(model);
  reverse(model, {model.history().select("b")});
  EXPECT_EQ(sites(sensitivity(model)), "ac");
  const Sensitivity with_reversed = sensitivity(model, {.reversed = true});
  ASSERT_EQ(sites(with_reversed), "abc");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(with_reversed.steps[i].in_model, i != 1);
    EXPECT_EQ(with_reversed.steps[i].error, of_all.steps[i].error);
  }
  EXPECT_EQ(model.history().size(), 2u);
}

TEST(Sensitivity, CountsWhatAStepIsBuiltOn) {
  Model model = three();
  find_transformation("fuse-bias-in-linear")(model);
  quantize(model, "a");
  const Sensitivity result = sensitivity(model);
  ASSERT_EQ(sites(result), "a");
  EXPECT_EQ(result.steps[0].built_on, std::vector<StepId>{StepId(1)});
  EXPECT_EQ(result.steps[0].error, result.error);
}

TEST(Sensitivity, NeedsALossyStep) {
  Model model = three();
  EXPECT_EQ(error_of([&] { sensitivity(model); }),
            "the model has no lossy steps: name transformations to try");
  EXPECT_EQ(error_of([&] {
              sensitivity(model, {.transformations = find_transformations(
                                      {"fuse-bias-in-linear", "compute-conv-2d-bf16"})});
            }),
            "there is no lossy step: the model has none, and fuse-bias-in-linear, "
            "compute-conv-2d-bf16 made none");
}

TEST(Sensitivity, ShowsTheWorst) {
  Sensitivity result{.steps = {{StepId(1), "store-linear-int8", "a", {}, true, 1e-4, 400, 104},
                               {StepId(2), "store-linear-int8", "b\x1b", {}, true, 1e-2, 400, 104},
                               {StepId(3), "store-linear-int8", "c", {}, false, 0, 400, 104}},
                     .error = 1.1e-2,
                     .inputs = "given",
                     .runs = 6};
  EXPECT_EQ(to_text(result),
            R"(relative L2 error of each lossy step by itself, in the order of the model
steps without a number are not in the model
inputs: given; 1 thread, 6 runs

  step  transformation     site   bytes  after  error    SQNR dB  log scale
  1     store-linear-int8  a      400    104    1.0e-04  80.0     #
  2     store-linear-int8  b\x1b  400    104    1.0e-02  40.0     ##############################  worst
  -     store-linear-int8  c      400    104    0        -

all 3 together: 1.1e-02
)");
  result.steps.pop_back();
  EXPECT_EQ(to_text(result).find("not in the model"), std::string::npos);
  result.steps.push_back({StepId(3), "store-linear-int8", "c", {}, false, 0, 400, 104});
  EXPECT_NE(to_json(result).find(R"("error": 0.0, "sqnr": null)"), std::string::npos)
      << to_json(result);
}

// Calls of one operator, by whomever.
class Calls {
 public:
  explicit Calls(const char* op) {
    name_ = op;
    count_ = 0;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
          if (name_ == call.name()) ++count_;
          return nullptr;
        }));
  }
  ~Calls() { at::removeCallback(handle_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  std::size_t count() const { return count_; }

 private:
  static inline std::string name_;
  static inline std::atomic<std::size_t> count_;
  at::CallbackHandle handle_;
};

TEST(Sensitivity, Of72LayersTakesAtMost80Runs) {
  std::string text = "input x : f32[2, 8]\n";
  for (int i = 0; i < 72; ++i) text += fmt::format("parameter l{}.weight : f32[8, 8]\n", i);
  std::string from = "x";
  for (int i = 0; i < 72; ++i) {
    text += fmt::format("l{0} : f32[2, 8] = aten.linear.default(%{1}, %p_l{0}_weight)\n", i, from);
    from = fmt::format("l{}", i);
  }
  text += fmt::format("t : f32[2, 8] = aten.tanh.default(%{})\nreturn t", from);
  const Model model = parse_filled(long_text(text));
  const Calls calls("aten::tanh");
  const Sensitivity result =
      sensitivity(model, {.transformations = find_transformations({"store-linear-int8"})});
  EXPECT_EQ(result.steps.size(), 72u);
  EXPECT_LE(calls.count(), 80u);
  EXPECT_EQ(calls.count(), result.runs);
}

}  // namespace
}  // namespace refx
