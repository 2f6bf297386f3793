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

TEST(Mutations, AreWrittenIntoTheBufferAndNotReturned) {
  at::Tensor count = at::zeros({2});
  Builder b;
  NodeId x = b.input("x");
  NodeId total = b.buffer("total", count);
  NodeId next = b.call("aten.add.Tensor", {total, x});
  NodeId y = b.call("aten.mul.Tensor", {next, 10});
  Model model = b.build(Tuple{{next, y}}, {{0, "total"}});
  auto version = count._version();
  for (int i = 1; i <= 5; ++i) {
    const auto result = model.forward({at::ones({2})});
    ASSERT_EQ(result.toTupleRef().size(), 1u);
    EXPECT_TRUE(same(result.toTupleRef().elements()[0].toTensor(), at::full({2}, 10.0f * i)));
    EXPECT_TRUE(same(count, at::full({2}, static_cast<float>(i))));
  }
  EXPECT_EQ(count._version(), version + 5);
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

TEST(InPlaceWrites, IntoStateCountAsChanges) {
  at::Tensor steps = at::zeros({1}, at::kLong);
  Builder b;
  NodeId x = b.input("x");
  NodeId counter = b.buffer("steps", steps);
  b.call("aten.add_.Tensor", {counter, 1});
  Model model = b.build(b.call("aten.add.Tensor", {x, counter}));
  auto version = steps._version();
  for (int i = 1; i <= 4; ++i)
    EXPECT_TRUE(
        same(model.forward({at::zeros({1})}).toTensor(), at::full({1}, static_cast<float>(i))));
  EXPECT_EQ(steps.item<std::int64_t>(), 4);
  EXPECT_EQ(steps._version(), version + 4);
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
