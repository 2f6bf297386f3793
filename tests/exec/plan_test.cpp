// SPDX-License-Identifier: Apache-2.0

// Planned runs: the bits of plain ones, whatever happens between two runs.

#include <random>

#include "exec/arena.h"
#include "exec/same.h"
#include "property.h"

namespace refx::testing {
namespace {

Model mlp(const at::Tensor& w1, const at::Tensor& b1, const at::Tensor& w2) {
  Builder b;
  NodeId x = b.input("x");
  NodeId h = b.call("aten.linear.default", {x, b.parameter("w1", w1), b.parameter("b1", b1)});
  h = b.call("aten.gelu.default", {h});
  h = b.call("aten.mul.Tensor", {h, 0.5});
  h = b.call("aten.add.Tensor", {h, h});
  NodeId y = b.call("aten.linear.default", {h, b.parameter("w2", w2)});
  return b.build(b.call("aten.softmax.int", {y, -1}));
}

class Plan : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }
  static at::Tensor eager(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                          const at::Tensor& w2) {
    at::Tensor h = at::mul(at::gelu(at::linear(x, w1, b1)), 0.5);
    return at::softmax(at::linear(h + h, w2), -1);
  }
  at::Tensor w1 = at::randn({16, 8}), b1 = at::randn({16}), w2 = at::randn({4, 16});
};

TEST_F(Plan, StartsWithTheThirdRunOfOneShape) {
  Executor executor(mlp(w1, b1, w2));
  at::Tensor x = at::randn({5, 8});
  for (bool planned : {false, false, true, true}) {
    EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
    EXPECT_EQ(executor.last_run_was_planned(), planned);
  }
}

TEST_F(Plan, TakesRmsNormApart) {
  for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (bool weighted : {true, false}) {
      const at::Tensor w = at::randn({8}).to(dtype), x = at::randn({2, 5, 8}).to(dtype);
      Builder b;
      const NodeId h = b.call("aten.neg.default", {b.input("x")});
      const Arg weight = weighted ? Arg(b.parameter("w", w)) : Arg(None{});
      const NodeId n = b.call("aten.rms_norm.default", {h, List{{8}}, weight, 1e-6});
      Model model = b.build(b.call("aten.neg.default", {n}));
      const auto scale = weighted ? std::optional(w) : std::nullopt;
      expect_same(model, {x}, at::neg(at::rms_norm(at::neg(x), {8}, scale, 1e-6)));
    }
  }
}

TEST_F(Plan, CanBeTurnedOff) {
  Executor executor(mlp(w1, b1, w2));
  executor.use_plans(false);
  for (int i = 0; i < 4; ++i) {
    executor.run({at::randn({5, 8})});
    EXPECT_FALSE(executor.last_run_was_planned());
  }
}

TEST_F(Plan, FollowsChangingShapesTypesAndStrides) {
  Executor executor(mlp(w1, b1, w2));
  std::vector<at::Tensor> inputs = {at::randn({5, 8}), at::randn({2, 3, 8}), at::randn({8, 5}).t(),
                                    at::randn({1, 8})};
  std::mt19937 random(1);
  int planned = 0;
  for (int i = 0; i < 60; ++i) {
    const at::Tensor& x =
        inputs[i < 20 ? static_cast<std::size_t>(i) / 5 : random() % inputs.size()];
    at::Tensor fresh = at::randn_like(x);
    ASSERT_TRUE(same(executor.run({fresh}).toTensor(), eager(fresh, w1, b1, w2))) << i;
    planned += executor.last_run_was_planned();
  }
  EXPECT_GT(planned, 40);
}

TEST_F(Plan, ResultsAreTheCallersOwn) {
  Executor executor(mlp(w1, b1, w2));
  std::vector<at::Tensor> results, expected;
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({5, 8});
    results.push_back(executor.run({x}).toTensor());
    expected.push_back(eager(x, w1, b1, w2));
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same(results[i], expected[i]));
  results[4].zero_();
  at::Tensor x = at::randn({5, 8});
  EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
}

TEST_F(Plan, IntermediatesThatAreReturnedAreTheCallersOwn) {
  Model model = one_input([](Builder& b, NodeId x) -> Arg {
    NodeId y = b.call("aten.exp.default", {x});
    NodeId part = b.call("aten.slice.Tensor", {y, 0, 1, 3});
    NodeId z = b.call("aten.neg.default", {y});
    return Tuple{{part, b.call("aten.abs.default", {z}), x}};
  });
  std::vector<at::Tensor> parts, inputs;
  for (int i = 0; i < 5; ++i) {
    inputs.push_back(at::randn({4, 4}));
    parts.push_back(model.forward({inputs.back()}).toTupleRef().elements()[0].toTensor());
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same(parts[i], inputs[i].exp().slice(0, 1, 3)));
}

TEST_F(Plan, SeesWeightsThatAreTrainedInPlace) {
  Executor executor(mlp(w1, b1, w2));
  at::Tensor x = at::randn({5, 8});
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
    w1.add_(0.25);
    w2.mul_(1.5);
  }
  EXPECT_TRUE(executor.last_run_was_planned());
}

TEST_F(Plan, SeesWeightsWhoseStorageIsReplaced) {
  Executor executor(mlp(w1, b1, w2));
  at::Tensor x = at::randn({5, 8});
  for (int i = 0; i < 4; ++i) executor.run({x});
  w1.set_data(at::randn({16, 8}));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
  EXPECT_TRUE(executor.last_run_was_planned());
  // Another layout of the same values.
  w1.set_data(w1.t().contiguous().t());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
}

TEST_F(Plan, InPlaceOperatorsAndTheirViews) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId y = b.call("aten.exp.default", {x});
    NodeId row = b.call("aten.select.int", {y, 0, 1});
    b.call("aten.mul_.Tensor", {row, 10.0});
    NodeId z = b.call("aten.relu_.default", {b.call("aten.sub.Tensor", {y, 1.0})});
    NodeId t = b.call("aten.transpose.int", {z, 0, 1});
    return b.call("aten.add.Tensor", {t, b.call("aten.neg.default", {row})});
  });
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({4, 4});
    at::Tensor y = at::exp(x);
    at::Tensor row = y.select(0, 1);
    row.mul_(10.0);
    at::Tensor expected = at::relu(y - 1.0).t() + (-row);
    EXPECT_TRUE(same(model.forward({x}).toTensor(), expected)) << i;
  }
}

TEST_F(Plan, InPlaceOnTheInputChangesTheCallersTensor) {
  Model model = one_input([](Builder& b, NodeId x) {
    b.call("aten.add_.Tensor", {x, 1});
    return b.call("aten.mul.Tensor", {b.call("aten.neg.default", {x}), 2});
  });
  at::Tensor x = at::zeros({3});
  for (int i = 1; i <= 5; ++i) {
    at::Tensor y = model.forward({x}).toTensor();
    EXPECT_TRUE(same(x, at::full({3}, static_cast<float>(i))));
    EXPECT_TRUE(same(y, at::full({3}, -2.0f * static_cast<float>(i))));
  }
}

TEST_F(Plan, ConstantsThatAreWrittenAreMadeAnew) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId zeros = b.call("aten.zeros.default", {ints({3})});
    b.call("aten.add_.Tensor", {zeros, x});
    NodeId ones = b.call("aten.ones.default", {ints({3})});
    return b.call("aten.mul.Tensor", {b.call("aten.add.Tensor", {zeros, ones}), 2});
  });
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({3});
    EXPECT_TRUE(same(model.forward({x}).toTensor(), (at::zeros({3}) + x + at::ones({3})) * 2));
  }
}

TEST_F(Plan, AttentionOverSeveralHeadsAndBatches) {
  auto heads = [](Builder& b, NodeId x) {
    return b.call("aten.transpose.int",
                  {b.call("aten.view.default", {x, ints({2, 6, 4, 8})}), 1, 2});
  };
  at::Tensor w = at::randn({32, 32});
  Model model = one_input([&](Builder& b, NodeId x) {
    NodeId q = heads(b, b.call("aten.linear.default", {x, b.parameter("w", w)}));
    NodeId scores = b.call("aten.matmul.default", {q, b.call("aten.transpose.int", {q, -1, -2})});
    NodeId a = b.call("aten.softmax.int", {b.call("aten.div.Tensor", {scores, 4.0}), -1});
    NodeId y = b.call("aten.transpose.int", {b.call("aten.matmul.default", {a, q}), 1, 2});
    NodeId flat = b.call("aten.reshape.default", {y, ints({2, 6, 32})});
    return b.call("aten.layer_norm.default", {b.call("aten.add.Tensor", {flat, x}), ints({32})});
  });
  Executor executor(model);
  for (int i = 0; i < 5; ++i) {
    at::Tensor x = at::randn({2, 6, 32});
    at::Tensor q = at::linear(x, w).view({2, 6, 4, 8}).transpose(1, 2);
    at::Tensor a = at::softmax(at::matmul(q, q.transpose(-1, -2)) / 4.0, -1);
    at::Tensor y = at::matmul(a, q).transpose(1, 2).reshape({2, 6, 32});
    EXPECT_TRUE(same(executor.run({x}).toTensor(), at::layer_norm(y + x, {32}))) << i;
  }
  EXPECT_TRUE(executor.last_run_was_planned());
}

TEST_F(Plan, LeavesGraphsWithContentDependentShapesAlone) {
  Executor executor(one_input([](Builder& b, NodeId x) {
    NodeId where = b.call("aten.nonzero.default", {x});
    return b.call("aten.neg.default", {b.call("aten.neg.default", {where})});
  }));
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = at::randn({9}).clamp_min(0);
    EXPECT_TRUE(same(executor.run({x}).toTensor(), x.nonzero()));
    EXPECT_FALSE(executor.last_run_was_planned());
  }
}

TEST_F(Plan, LeavesGraphsThatReadNumbersFromTensorsAlone) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId first = b.call("aten.select.int", {b.call("aten.abs.default", {x}), 0, 0});
    NodeId n = b.call("aten.to.dtype", {first, at::kLong});
    return b.call("aten.neg.default", {b.call("aten.slice.Tensor", {x, 0, n})});
  });
  for (float start : {1.f, 1.f, 1.f, 2.f, 3.f}) {
    at::Tensor x = at::randn({6});
    x[0] = start;
    EXPECT_TRUE(same(model.forward({x}).toTensor(), -x.slice(0, static_cast<std::int64_t>(start))));
  }
}

TEST_F(Plan, NumbersAmongTheInputsArePartOfTheShape) {
  Builder b;
  NodeId x = b.input("x"), n = b.input("n");
  NodeId y = b.call("aten.view.default", {b.call("aten.exp.default", {x}), List{{n, -1}}});
  Model model = b.build(b.call("aten.mul.Tensor", {b.call("aten.neg.default", {y}), n}));
  at::Tensor in = at::randn({12});
  for (std::int64_t n : {2, 2, 2, 3, 3, 3, 2, 4}) {
    EXPECT_TRUE(same(model.forward({in, n}).toTensor(), in.exp().view({n, -1}).neg() * n));
  }
}

TEST_F(Plan, ARefusedRunLeavesThePlanUsable) {
  Executor executor(mlp(w1, b1, w2));
  at::Tensor x = at::randn({5, 8});
  for (int i = 0; i < 3; ++i) executor.run({x});
  expect_error([&] { executor.run({at::randn({5, 7})}); }, {"node 'linear"});
  EXPECT_TRUE(same(executor.run({x}).toTensor(), eager(x, w1, b1, w2)));
  EXPECT_TRUE(executor.last_run_was_planned());
}

TEST(Memory, BuffersThatLiveTogetherLieApart) {
  using rc::gen::inRange;
  const auto any_buffer = rc::gen::resize(
      rc::kNominalSize,
      rc::gen::map(rc::gen::tuple(inRange<std::size_t>(1, 1001), inRange<std::size_t>(0, 20),
                                  inRange<std::size_t>(0, 6)),
                   [](const std::tuple<std::size_t, std::size_t, std::size_t>& numbers) {
                     const auto [bytes, first, length] = numbers;
                     return exec::Buffer{bytes, first, first + length};
                   }));
  check_property("buffers that live together lie apart", 200, 7, [&] {
    auto buffers = *up_to(30, any_buffer);
    const std::size_t size = exec::place(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto& a = buffers[i];
      EXPECT_EQ(a.offset % 64, 0u);
      EXPECT_LE(a.offset + a.bytes, size);
      for (std::size_t j = 0; j < i; ++j) {
        const auto& b = buffers[j];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(together && overlap);
      }
    }
  });
}

TEST(Memory, AChainNeedsTwoBuffersOnly) {
  std::vector<exec::Buffer> chain;
  for (std::size_t i = 0; i < 50; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(exec::place(chain), 2048u);
}

}  // namespace
}  // namespace refx::testing
