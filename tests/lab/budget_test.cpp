// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kit.h"
#include "refx/pt2.h"
#include "refx/reverse.h"
#include "refx/tune.h"
#include "rules/short_text.h"

namespace refx {
namespace {

using namespace testing;

// Linears one after the other, of which every one can be spoilt by itself.
std::string chain(int layers, int width = 24) {
  std::string text = fmt::format("input x : f32[7, {}]\n", width);
  for (int i = 0; i < layers; ++i)
    text += fmt::format("parameter l{}.weight : f32[{}, {}]\n", i, width, width);
  std::string last = "x";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format("l{} : f32[7, {}] = aten.linear.default(%{}, %p_l{}_weight)\n", i, width,
                        last, i);
    text += fmt::format("t{} : f32[7, {}] = aten.tanh.default(%l{})\n", i, width, i);
    last = fmt::format("t{}", i);
  }
  return long_text((text + "return " + last).c_str());
}

// The weights with one large number in each row, so that int8 keeps little of the others; what it
// is multiplied by is 0 but for the first layer.
void plant_outliers(Model& model, int layer) {
  Editor editor(model);
  const auto change = [&](int at, std::int64_t dim, double value) {
    const StateId id = model.state().find(fmt::format("l{}.weight", at));
    at::Tensor weight = at::Tensor(model.state().tensor(id)).clone();
    weight.select(dim, 3).fill_(value);
    editor.set_state(id, weight);
  };
  change(layer, 1, 40);
  if (layer > 0) change(layer - 1, 0, 0);
  editor.commit_as_origin(model.source());
}

TuneOptions smaller(double budget) {
  return {.transformations = find_transformations({"store-linear-int8"}),
          .measure = {.threads = 1, .seconds = 0.02},
          .budget = budget,
          .prefer = Prefer::size};
}

std::vector<std::string> sites(const Model& model) {
  std::vector<std::string> all;
  for (const Step& step : model.history()) all.push_back(step.site);
  return all;
}

TEST(Budget, TakesAllThatFitsAndLeavesOutliersAlone) {
  for (int outlier = 1; outlier < 4; ++outlier) {
    Model model = parse_filled(chain(4));
    plant_outliers(model, outlier);
    Model all = model;
    find_transformation("store-linear-int8")(all);
    Model without = all;
    reverse(without, without.history().select(fmt::format("l{}", outlier)));
    const double bad = verify(all).lossy->error, good = verify(without).lossy->error;
    ASSERT_GT(bad, 4 * good) << outlier;
    const Tuning t = tune(model, smaller(2 * good));
    ASSERT_TRUE(t.changed) << to_text(t);
    EXPECT_EQ(sites(model), sites(without)) << to_text(t);
    EXPECT_LE(t.budget->error, 2 * good);
    EXPECT_LT(t.bytes_after, 0.5 * static_cast<double>(t.bytes_before));
    EXPECT_TRUE(verify(model, {.budget = 2.5 * good}).passed());
    // What is within the budget all of it is taken.
    Model again = model;
    EXPECT_TRUE(tune(again, smaller(2 * bad)).changed);
    EXPECT_EQ(again.history().size(), 4u);
  }
}

TEST(Budget, IsNeverExceededOnInputsThatNothingWasChosenOn) {
  for (double budget : {1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1})
    for (int layers : {1, 3, 8}) {
      Model model = parse_filled(chain(layers));
      const Tuning t = tune(model, smaller(budget));
      ASSERT_TRUE(t.budget);
      EXPECT_EQ(t.budget->chosen_on, "generated with seed 0");
      EXPECT_EQ(t.budget->proven_on, "generated with seeds 1, 2");
      EXPECT_EQ(t.changed, !model.history().empty());
      if (!t.changed) continue;
      EXPECT_LE(t.budget->error, budget);
      for (std::uint64_t seed : {1, 2})
        EXPECT_TRUE(
            verify(model, {.measure = {.inputs = {generated_inputs(model, seed), "generated"}},
                           .budget = budget})
                .passed())
            << budget << " " << layers << to_text(t);
    }
}

TEST(Budget, ComesNearTheBestOfAllSubsets) {
  for (double budget : {5e-3, 1e-2, 2e-2}) {
    const int layers = 8;
    Model model = parse_filled(chain(layers));
    for (int i : {1, 4}) plant_outliers(model, i);
    Model all = model;
    find_transformation("store-linear-int8")(all);
    const std::vector<StepId> steps = all.history().ids();
    const auto fits = [&](const Model& form) {
      if (form.history().empty()) return true;
      VerifyOptions how{.measure = {.inputs = {generated_inputs(form, 1), "1"}}, .budget = budget};
      how.more_inputs = {{generated_inputs(form, 2), "2"}, {generated_inputs(form, 0), "0"}};
      return verify(form, how).passed();
    };
    std::size_t best = 0;
    for (unsigned subset = 0; subset < 1u << layers; ++subset) {
      const auto size = static_cast<std::size_t>(__builtin_popcount(subset));
      if (size <= best) continue;
      Model form = all;
      std::vector<StepId> others;
      for (std::size_t i = 0; i < steps.size(); ++i)
        if (!(subset >> i & 1)) others.push_back(steps[i]);
      if (!others.empty()) reverse(form, others);
      if (fits(form)) best = size;
    }
    const Tuning t = tune(model, smaller(budget));
    EXPECT_GE(static_cast<double>(model.history().size()), 0.95 * static_cast<double>(best))
        << to_text(t);
    EXPECT_TRUE(fits(model));
  }
}

TEST(Budget, TheAcceptanceTestDecides) {
  Model model = parse_filled(chain(5));
  TuneOptions options = smaller(0);
  std::size_t asked = 0;
  options.accept = [&](const Model& form) {
    ++asked;
    for (const Step& step : form.history())
      if (step.site == "l2") return Acceptance{false, 0.5};
    return Acceptance{true, 0.9};
  };
  const Tuning t = tune(model, options);
  EXPECT_TRUE(t.changed) << to_text(t);
  for (const std::string& site : sites(model)) EXPECT_NE(site, "l2");
  EXPECT_GE(model.history().size(), 3u) << to_text(t);
  EXPECT_EQ(t.budget->score, 0.9);
  EXPECT_LE(asked, 20u);
  // Nobody who says no is overruled.
  Model never = parse_filled(chain(3));
  options.accept = [](const Model&) { return Acceptance{false, {}}; };
  EXPECT_FALSE(tune(never, options).changed);
  EXPECT_TRUE(never.history().empty());
}

TEST(Budget, IsProvenOnInputsThatAreHeldOut) {
  Model model = parse_filled(chain(3));
  TuneOptions options = smaller(1);
  const auto set = [&](std::uint64_t seed) {
    return Inputs{generated_inputs(model, seed), fmt::format("set {}", seed)};
  };
  options.measure.inputs = set(1);
  for (std::uint64_t seed : {2, 3, 4, 5, 6}) options.more_inputs.push_back(set(seed));
  const Tuning t = tune(model, options);
  EXPECT_EQ(t.budget->chosen_on, "set 1, set 2, set 3, set 4");
  EXPECT_EQ(t.budget->proven_on, "set 5, set 6");
  EXPECT_NE(to_text(t).find(" tried; chosen on: set 1, set 2, set 3, set 4\n"), std::string::npos)
      << to_text(t);
}

// Inputs on which the first layer has a large error. It is small on those used for choosing.
TEST(Budget, IsRepairedWhereOtherInputsSayMore) {
  Model model = parse_filled(chain(3));
  plant_outliers(model, 0);
  TuneOptions options = smaller(0);
  at::Tensor quiet = at::zeros({7, 24});
  quiet.select(1, 3).fill_(1);  // only the large numbers, which int8 keeps
  options.measure.inputs = {{quiet}, "quiet"};
  options.more_inputs = {{generated_inputs(model, 1), "loud"}};
  Model all = model;
  find_transformation("store-linear-int8")(all);
  const auto error_on = [&](const Inputs& inputs) {
    return verify(all, {.measure = {.inputs = inputs}}).lossy->error;
  };
  const double quietly = error_on(options.measure.inputs),
               loudly = error_on(options.more_inputs[0]);
  ASSERT_GT(loudly, 3 * quietly);
  options.budget = std::sqrt(quietly * loudly);
  const Tuning t = tune(model, options);
  EXPECT_TRUE(t.changed) << to_text(t);
  EXPECT_LE(t.budget->error, options.budget);
  EXPECT_LT(model.history().size(), 3u) << to_text(t);
}

TEST(Budget, ACommandSaysANumber) {
  if (!std::getenv("REFX_MODELS")) GTEST_SKIP() << "REFX_MODELS is not set";
  const Model model = load(std::string(std::getenv("REFX_MODELS")) + "/plain.pt2");
  const auto says = [&](const std::string& text, std::optional<double> at_least) {
    return accept_by_command(text, at_least)(model);
  };
  EXPECT_TRUE(says("echo first; echo 0.75 # {}", 0.7).accepted);
  EXPECT_EQ(says("echo first; echo 0.75 # {}", 0.7).score, 0.75);
  EXPECT_FALSE(says("echo 0.75 # {}", 0.8).accepted);
  EXPECT_FALSE(says("echo nan # {}", 0.8).accepted);
  EXPECT_FALSE(says("echo 0.9; exit 3 # {}", 0.8).accepted);
  EXPECT_TRUE(says("test -f {}", {}).accepted);
  EXPECT_FALSE(says("test ! -f {}", {}).accepted);
  EXPECT_THROW(says("echo well # {}", 0.8), Error);
  EXPECT_THROW(says("true # {}", 0.8), Error);
  EXPECT_THROW(says("echo 1", 0.8), Error);
}

}  // namespace
}  // namespace refx
