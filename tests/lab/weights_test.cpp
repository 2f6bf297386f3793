// SPDX-License-Identifier: Apache-2.0

#include "refx/weights.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand_like.h>
#include <gtest/gtest.h>

#include "kit.h"

namespace refx::testing {
namespace {

constexpr const char* kThreeLinears = R"(
  parameter q.weight : f32[4, 8]
  parameter q.bias : f32[4]
  parameter k.weight : f32[4, 8]
  parameter v.weight : f32[6, 8]
  buffer shift : f32[8]
  graph():
      %qw : f32[4, 8] = placeholder[target=qw](state=q.weight)
      %qb : f32[4] = placeholder[target=qb](state=q.bias)
      %kw : f32[4, 8] = placeholder[target=kw](state=k.weight)
      %vw : f32[6, 8] = placeholder[target=vw](state=v.weight)
      %s : f32[8] = placeholder[target=s](state=shift)
      %x : f32[2, 8] = placeholder[target=x]
      %y : f32[2, 8] = call_function[target=aten.add.Tensor](args = (%x, %s), kwargs = {})
      %z : f32[2, 8] = call_function[target=aten.div.Tensor](args = (%y, 7.0), kwargs = {})
      %q : f32[2, 4] = call_function[target=aten.linear.default](args = (%z, %qw, %qb), kwargs = {})
      %k : f32[2, 4] = call_function[target=aten.linear.default](args = (%z, %kw), kwargs = {})
      %v : f32[2, 6] = call_function[target=aten.linear.default](args = (%z, %vw), kwargs = {})
      return (q, k, v)
)";

using Weights = std::vector<std::pair<std::string, at::TensorBase>>;

Weights random_weights(const Model& model) {
  Weights weights;
  for (StateId id : model.state())
    weights.emplace_back(model.state()[id].name,
                         at::rand_like(at::Tensor(model.state().tensor(id))));
  return weights;
}

std::string steps_of(const Model& model) {
  std::string text;
  for (const Step& step : model.history()) text += step.transformation + " " + step.site + "\n";
  return text;
}

void rewrite(Model& model) {
  find_transformation("merge-linears")(model);
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  find_transformation("fuse-bias-in-linear")(model);
}

TEST(LoadWeights, AppliesTheStepsToTheNewWeights) {
  const Model plain = parse_filled(kThreeLinears);
  const Weights weights = random_weights(plain);
  Model fresh = plain;
  load_weights(fresh, weights);  // a model without steps
  Model rewritten = plain;
  rewrite(rewritten);
  const std::string steps = steps_of(rewritten);
  load_weights(rewritten, weights);
  EXPECT_EQ(steps_of(rewritten), steps);
  expect_same_results(fresh, rewritten, random_inputs(plain));
  reverse_all(rewritten);
  EXPECT_EQ(content(rewritten), content(fresh));
  std::size_t i = 0;
  for (StateId id : rewritten.state())
    EXPECT_TRUE(
        at::equal(at::Tensor(rewritten.state().tensor(id)), at::Tensor(weights.at(i++).second)));
}

TEST(LoadWeights, CopiesThem) {
  Model model = parse_filled(kThreeLinears);
  const Weights weights = random_weights(model);
  load_weights(model, weights);
  const std::string before = content(model);
  at::Tensor(weights[0].second).zero_();
  EXPECT_EQ(content(model), before);
}

TEST(LoadWeights, RefusesWhatDoesNotFitAndChangesNothing) {
  Model model = parse_filled(kThreeLinears);
  rewrite(model);
  const std::string before = snapshot(model);
  const Weights good = random_weights(original_of(model));
  const auto refuse = [&](const std::function<void(Weights&)>& spoil, std::string_view why) {
    Weights weights = good;
    spoil(weights);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string(why),
                        error_of([&] { load_weights(model, weights); }));
    EXPECT_EQ(snapshot(model), before);
  };
  refuse([](Weights& w) { w.emplace_back("q.weigth", w[0].second); },
         "no weight 'q.weigth'; did you mean 'q.weight'?");
  refuse([](Weights& w) { w.pop_back(); }, "'shift' is missing");
  refuse([](Weights& w) { w[1].second = at::Tensor(w[1].second).to(at::kDouble); },
         "'q.bias' should be f32[4], not f64[4]");
  refuse([](Weights& w) { w[1].second = at::Tensor(w[1].second).slice(0, 1); },
         "'q.bias' should be f32[4], not f32[3]");
}

TEST(LoadWeights, KeepsTiedWeightsTied) {
  Builder b;
  const NodeId x = b.input("x");
  const at::Tensor shared = at::rand_like(at::empty({4, 4}));
  const NodeId first = b.parameter("a.weight", shared), second = b.parameter("b.weight", shared);
  const NodeId middle = b.call("aten.linear.default", {x, first});
  Model model = b.build(b.call("aten.linear.default", {middle, second}));
  const at::Tensor one = at::rand_like(shared), other = at::rand_like(shared);
  load_weights(model, {{"a.weight", one}, {"b.weight", one}});
  EXPECT_EQ(model.state().storage_sharers(*model.state().begin()), 2U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string("shares memory with another weight"),
                      error_of([&] {
                        load_weights(model, {{"a.weight", one}, {"b.weight", other}});
                      }));
}

// Without a GPU the device without values shows that tensors, the history's among them, move.
TEST(MoveTo, MovesTheModelAndItsHistory) {
  Model model = parse_filled(kThreeLinears);
  rewrite(model);
  const std::string steps = steps_of(model);
  move_to(model, at::kMeta);
  EXPECT_EQ(steps_of(model), steps);
  const auto expect_moved = [&] {
    for (StateId id : model.state()) EXPECT_TRUE(model.state().tensor(id).is_meta());
  };
  expect_moved();
  reverse_all(model);
  expect_moved();
}

TEST(MoveTo, StaysWhereItIs) {
  Model model = parse_filled(kThreeLinears);
  rewrite(model);
  const std::string before = content(model);
  move_to(model, at::kCPU);
  EXPECT_EQ(content(model), before);
}

}  // namespace
}  // namespace refx::testing
