// SPDX-License-Identifier: Apache-2.0

// What a run returns and what it writes back.

#include "exec/same.h"

namespace refx::testing {
namespace {

TEST(Outputs, KeepTheirNest) {
  Model model = one_input([](Builder& b, NodeId x) -> Arg {
    NodeId y = b.call("aten.neg.default", {x});
    return Tuple{{y, List{{x, y}}, Dict{{{Arg("a"), Arg(y)}, {Arg("n"), Arg(3)}}}, None{}}};
  });
  at::Tensor x = at::randn({3});
  for (int i = 0; i < 3; ++i) {
    const auto result = model.forward({x});
    const auto& items = result.toTupleRef().elements();
    ASSERT_EQ(items.size(), 4u);
    EXPECT_TRUE(same(items[0].toTensor(), -x));
    EXPECT_TRUE(same(items[1].toTensorVector().at(1), -x));
    EXPECT_TRUE(same(items[2].toGenericDict().at("a").toTensor(), -x));
    EXPECT_EQ(items[2].toGenericDict().at("n").toInt(), 3);
    EXPECT_TRUE(items[3].isNone());
  }
}

TEST(Outputs, AreOrdinaryTensors) {
  Model model = one_input([](Builder& b, NodeId x) { return b.call("aten.exp.default", {x}); });
  at::Tensor y = model.forward({at::randn({3})}).toTensor();
  EXPECT_FALSE(y.is_inference());
  EXPECT_FALSE(y.requires_grad());
  y.add_(1);  // may be changed
  y.set_requires_grad(true);
}

TEST(Outputs, OfAModelThatReturnsItsState) {
  at::Tensor w = at::randn({4, 3});
  Model model = one_input([&](Builder& b, NodeId) -> Arg {
    NodeId p = b.parameter("w", w);
    return Tuple{{p, b.call("aten.t.default", {p})}};
  });
  for (int i = 0; i < 4; ++i) {
    const auto result = model.forward({at::ones({1})});
    EXPECT_TRUE(result.toTupleRef().elements()[0].toTensor().is_same(w));
    EXPECT_TRUE(same(result.toTupleRef().elements()[1].toTensor(), w.t()));
  }
}

at::Tensor state_of(Executor& executor, const std::string& name) {
  for (const auto& [own, tensor] : executor.state())
    if (own == name) return tensor;
  return {};
}

TEST(Mutations, AreWrittenIntoTheExecutorsBufferAndNotReturned) {
  at::Tensor count = at::zeros({2});
  Builder b;
  NodeId x = b.input("x");
  NodeId total = b.buffer("total", count);
  NodeId next = b.call("aten.add.Tensor", {total, x});
  NodeId y = b.call("aten.mul.Tensor", {next, 10});
  Model model = b.build(Tuple{{next, y}}, {{0, "total"}});
  auto version = count._version();
  Executor executor(model);
  for (int i = 1; i <= 5; ++i) {
    const auto result = executor.run({at::ones({2})});
    ASSERT_EQ(result.toTupleRef().size(), 1u);
    EXPECT_TRUE(same(result.toTupleRef().elements()[0].toTensor(), at::full({2}, 10.0f * i)));
    EXPECT_TRUE(same(state_of(executor, "total"), at::full({2}, static_cast<float>(i))));
  }
  EXPECT_TRUE(same(count, at::zeros({2})));
  EXPECT_EQ(count._version(), version);
}

TEST(Mutations, OfAnInputAreWrittenIntoTheCallersTensor) {
  Builder b;
  NodeId x = b.input("x");
  NodeId doubled = b.call("aten.mul.Tensor", {x, 2});
  Model model = b.build(Tuple{{doubled, doubled}}, {{0, "x"}});
  at::Tensor x_in = at::ones({2});
  for (int i = 1; i <= 4; ++i) {
    const auto result = model.forward({x_in});
    EXPECT_TRUE(same(x_in, at::full({2}, std::pow(2.0f, static_cast<float>(i)))));
    EXPECT_TRUE(same(result.toTupleRef().elements()[0].toTensor(), x_in));
  }
}

// Returns x + steps, where each run adds one to steps.
Model counting(const at::Tensor& steps) {
  Builder b;
  NodeId x = b.input("x");
  NodeId counter = b.buffer("steps", steps);
  b.call("aten.add_.Tensor", {counter, 1});
  NodeId sum = b.call("aten.add.Tensor", {x, counter});
  return b.build(b.call("aten.mul.Tensor", {sum, 1.0}));
}
float next_count(Model& model) { return model.forward({at::zeros({1})}).toTensor().item<float>(); }

TEST(State, BelongsToRunsAndNotToTheModel) {
  at::Tensor steps = at::zeros({1}, at::kLong);
  Model model = counting(steps);
  auto version = steps._version();
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(next_count(model), i);
  EXPECT_EQ(steps.item<std::int64_t>(), 0);
  EXPECT_EQ(steps._version(), version);
}

TEST(State, OfACopyIsItsOwn) {
  Model model = counting(at::zeros({1}, at::kLong));
  EXPECT_EQ(next_count(model), 1);
  Model copy = model, other;
  other = model;
  EXPECT_EQ(next_count(model), 2);
  EXPECT_EQ(next_count(copy), 1);
  EXPECT_EQ(next_count(other), 1);
  EXPECT_EQ(next_count(model), 3);
  Model moved = std::move(model);
  EXPECT_EQ(next_count(moved), 4);
}

TEST(State, IsReadSetAndResetByTheExecutor) {
  const Model model = counting(at::full({1}, 5, at::kLong));
  Executor executor(model);
  const auto next = [&] { return executor.run({at::zeros({1})}).toTensor().item<float>(); };
  EXPECT_EQ(state_of(executor, "steps").item<std::int64_t>(), 5);
  for (int i = 6; i <= 10; ++i) EXPECT_EQ(next(), i);  // the later ones by a plan
  EXPECT_TRUE(executor.last_run_was_planned());
  EXPECT_EQ(state_of(executor, "steps").item<std::int64_t>(), 10);
  executor.reset_state();
  EXPECT_EQ(next(), 6);
  EXPECT_TRUE(executor.last_run_was_planned());
  state_of(executor, "steps").fill_(100);
  EXPECT_EQ(next(), 101);
  Executor other(model);
  EXPECT_EQ(other.run({at::zeros({1})}).toTensor().item<float>(), 6);
}

TEST(State, ThatIsNotWrittenIsShared) {
  const at::Tensor w = at::randn({3}), steps = at::zeros({1}, at::kLong);
  Builder b;
  NodeId x = b.input("x");
  NodeId counter = b.buffer("steps", steps);
  b.call("aten.add_.Tensor", {counter, 1});
  Executor executor(b.build(Tuple{{b.parameter("w", w), b.call("aten.add.Tensor", {x, counter})}}));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(executor.run({at::zeros({1})}).toTupleRef().elements()[0].toTensor().is_same(w));
  ASSERT_EQ(executor.state().size(), 1u);
}

TEST(State, ThatIsAddedInPlaceIsNotWritten) {
  Builder b;
  const NodeId x = b.input("x");
  const NodeId sum = b.call("aten.add.Tensor", {x, 1});
  const NodeId once = b.call("aten.add_.Tensor", {sum, b.buffer("a", at::ones({2}))});
  const NodeId twice = b.call("aten.add_.Tensor", {once, b.buffer("b", at::ones({2}))});
  const Model model = b.build(twice);
  Executor executor(model);
  EXPECT_TRUE(at::equal(executor.run({at::ones({2})}).toTensor(), at::full({2}, 4)));
  EXPECT_TRUE(executor.state().empty());
}

TEST(State, ThatSharesMemoryWithWhatIsWrittenFollowsIt) {
  const at::Tensor whole = at::zeros({4});
  Builder b;
  b.input("x");
  NodeId all = b.buffer("all", whole);
  NodeId half = b.buffer("half", whole.narrow(0, 2, 2));
  b.call("aten.add_.Tensor", {all, 1});
  Executor executor(b.build(b.call("aten.mul.Tensor", {half, 10})));
  for (int i = 1; i <= 4; ++i)
    EXPECT_TRUE(same(executor.run({at::zeros({1})}).toTensor(), at::full({2}, 10.0f * i)));
  EXPECT_TRUE(same(whole, at::zeros({4})));
  executor.reset_state();
  EXPECT_TRUE(same(executor.run({at::zeros({1})}).toTensor(), at::full({2}, 10.0f)));
}

TEST(Forward, FollowsChangesOfTheModel) {
  Model model = one_input([](Builder& b, NodeId x) { return b.call("aten.neg.default", {x}); });
  at::Tensor x = at::randn({3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(model.forward({x}).toTensor(), -x));
  Model copy = model;
  Editor editor(model);
  NodeId neg = model.graph().find("neg");
  editor.set_target(neg, "aten.abs.default");
  editor.commit({"test", "test", "neg", {}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same(model.forward({x}).toTensor(), x.abs()));
    EXPECT_TRUE(same(copy.forward({x}).toTensor(), -x));
  }
}

TEST(Forward, ReadsGetAttrAndUnusedInputs) {
  at::Tensor w = at::randn({3});
  Builder b;
  NodeId x = b.input("x");
  b.input("unused");
  b.state({"w", StateKind::parameter, true, w});
  Model model = b.build(b.call("operator.mul", {x, b.get_attr("w")}));
  at::Tensor in = at::randn({3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(model.forward({in, 5}).toTensor(), in * w));
}

}  // namespace
}  // namespace refx::testing
