// SPDX-License-Identifier: Apache-2.0

// The aten dialect against eager LibTorch, bit for bit.

#include "exec/same.h"
#include "io/fake_source.h"

namespace refx::testing {
namespace {

class Aten : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(0); }

  // aten.<op>(x, args…) of one input.
  void check(const std::string& op, Args args, const at::Tensor& x, const at::Tensor& expected,
             Kwargs kwargs = {}) {
    SCOPED_TRACE(op);
    expect_same(
        [&](Builder& b, NodeId in) {
          Args all = {in};
          all.insert(all.end(), args.begin(), args.end());
          return b.call("aten." + op, all, kwargs);
        },
        x, expected);
  }
};

TEST_F(Aten, UnaryOperators) {
  at::Tensor x = at::randn({3, 5});
  check("relu.default", {}, x, at::relu(x));
  check("gelu.default", {}, x, at::gelu(x));
  check("gelu.default", {}, x, at::gelu(x, "tanh"), {{"approximate", "tanh"}});
  check("sigmoid.default", {}, x, at::sigmoid(x));
  check("tanh.default", {}, x, at::tanh(x));
  check("exp.default", {}, x, at::exp(x));
  check("rsqrt.default", {}, x.abs(), at::rsqrt(x.abs()));
  check("neg.default", {}, x, -x);
  check("silu.default", {}, x, at::silu(x));
  check("clone.default", {}, x, x);
}

TEST_F(Aten, NumbersWhereTheSchemaWantsATensor) {
  for (auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    at::Tensor x = at::arange(1, 13, at::dtype(dtype)).reshape({3, 4});
    check("div.Tensor", {2.5}, x, at::div(x, 2.5));
    check("add.Tensor", {3}, x, at::add(x, 3));
    check("mul.Tensor", {1.5}, x, at::mul(x, 1.5));
    check("eq.Tensor", {3}, x, at::eq(x, 3));
  }
}

TEST_F(Aten, IntegersWhereTheSchemaWantsAFloat) {
  at::Tensor x = at::randn({3, 4});
  check("dropout.default", {0, false}, x, x);
  check("leaky_relu.default", {1}, x, at::leaky_relu(x, 1));
  check("full_like.default", {2}, x, at::full_like(x, 2));
}

TEST_F(Aten, ListsOfIntegers) {
  at::Tensor x = at::randn({2, 3, 4});
  check("view.default", {ints({6, 4})}, x, x.view({6, 4}));
  check("permute.default", {ints({2, 0, 1})}, x, x.permute({2, 0, 1}));
  check("sum.dim_IntList", {ints({0, 2}), true}, x, x.sum(at::IntArrayRef{0, 2}, true));
  check("mean.dim", {ints({-1})}, x, x.mean(-1));
  check("sum.dim_IntList", {1}, x, x.sum(1));
  check("constant_pad_nd.default", {ints({1, 2}), 0.5}, x, at::constant_pad_nd(x, {1, 2}, 0.5));
  check("expand.default", {ints({5, 2, 3, 4})}, x, x.expand({5, 2, 3, 4}));
}

TEST_F(Aten, ListsOfTensorsAndOptionalTensors) {
  at::Tensor x = at::randn({4, 5}), rows = at::tensor({0L, 3L, 1L});
  expect_same(
      [](Builder& b, NodeId x) {
        return b.call("aten.cat.default", {List{{x, x}}, 1});
      },
      x, at::cat({x, x}, 1));
  expect_same(
      [&](Builder& b, NodeId x) {
        NodeId i = b.constant("rows", rows);
        return b.call("aten.index.Tensor", {x, List{{None{}, i}}});
      },
      x, x.index({at::indexing::Slice(), rows}));
  expect_same(
      [&](Builder& b, NodeId x) {
        NodeId i = b.constant("rows", rows);
        return b.call("aten.index.Tensor", {x, List{{i}}});
      },
      x, x.index({rows}));
}

TEST_F(Aten, DtypesDevicesAndMemoryFormats) {
  at::Tensor x = at::randn({2, 3, 4, 5});
  check("to.dtype", {at::kDouble}, x, x.to(at::kDouble));
  check("_to_copy.default", {}, x, x.to(at::kHalf),
        {{"dtype", at::kHalf}, {"layout", c10::kStrided}, {"device", c10::Device("cpu")}});
  check("zeros_like.default", {}, x, at::zeros_like(x), {{"pin_memory", false}});
  Model channels_last = one_input([](Builder& b, NodeId x) {
    return b.call("aten.clone.default", {x}, {{"memory_format", c10::MemoryFormat::ChannelsLast}});
  });
  for (int i = 0; i < 3; ++i) {
    at::Tensor y = channels_last.forward({x}).toTensor();
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(same(y, x));
  }
  expect_same(
      [](Builder& b, NodeId x) {
        NodeId range = b.call("aten.arange.start_step", {0, 10, 2}, {{"dtype", at::kFloat}});
        return b.call("aten.add.Tensor", {x, range}, {{"alpha", 2}});
      },
      at::ones({5}), at::arange(0, 10, 2, at::kFloat) * 2 + 1);
}

TEST_F(Aten, BooleanListsStringsAndComplexNumbers) {
  at::Tensor x = at::randn({3, 3});
  check("mul.Scalar", {std::complex<double>(0, 2)}, x, at::mul(x, c10::complex<double>(0, 2)));
  check("div.Tensor_mode", {2.0}, x, at::div(x, 2.0, "floor"), {{"rounding_mode", "floor"}});
  check("pad.default", {ints({1, 1}), "reflect"}, x.unsqueeze(0),
        at::pad(x.unsqueeze(0), {1, 1}, "reflect"));
}

TEST_F(Aten, MatrixProducts) {
  at::Tensor x = at::randn({2, 7, 8}), w = at::randn({6, 8}), bias = at::randn({6});
  auto with = [&](const std::string& op, const at::Tensor& expected, auto... more) {
    SCOPED_TRACE(op);
    expect_same(
        [&](Builder& b, NodeId x) {
          return b.call(op, {x, b.parameter("p", more)...});
        },
        x, expected);
  };
  with("aten.matmul.default", at::matmul(x, w.t().contiguous()), w.t().contiguous());
  with("aten.linear.default", at::linear(x, w), w);
  expect_same(
      [&](Builder& b, NodeId x) {
        NodeId weight = b.parameter("w", w), beta = b.parameter("b", bias);
        NodeId y = b.call("aten.linear.default", {x, weight, beta});
        return b.call("aten.relu.default", {y});
      },
      x, at::relu(at::linear(x, w, bias)));
  expect_same(
      [](Builder& b, NodeId x) {
        NodeId t = b.call("aten.transpose.int", {x, 1, 2});
        return b.call("torch.ops.aten.bmm.default", {x, t});
      },
      x, at::bmm(x, x.transpose(1, 2)));
}

TEST_F(Aten, NormalizationAndConvolution) {
  at::Tensor x = at::randn({2, 4, 8, 8}), w = at::randn({6, 4, 3, 3});
  expect_same(
      [&](Builder& b, NodeId x) {
        return b.call("aten.conv2d.default", {x, b.parameter("w", w), None{}, ints({2, 2}), 1});
      },
      x, at::conv2d(x, w, {}, 2, 1));
  check("layer_norm.default", {ints({8})}, x, at::layer_norm(x, {8}));
  check("softmax.int", {-1}, x, at::softmax(x, -1));
  check("_log_softmax.default", {1, false}, x, at::_log_softmax(x, 1, false));
  check("max_pool2d.default", {ints({2, 2})}, x, at::max_pool2d(x, 2));
  check("avg_pool2d.default", {ints({3, 3}), ints({1, 1})}, x, at::avg_pool2d(x, 3, 1));
}

TEST_F(Aten, OperatorsWithSeveralResults) {
  at::Tensor x = at::randn({4, 6});
  auto item = [](const std::string& op, Args more, int i) -> Body {
    return [=](Builder& b, NodeId x) {
      Args args = {x};
      args.insert(args.end(), more.begin(), more.end());
      return b.call("operator.getitem", {b.call(op, args), i});
    };
  };
  expect_same(item("aten.topk.default", {2}, 0), x, std::get<0>(at::topk(x, 2)));
  expect_same(item("aten.topk.default", {2}, 1), x, std::get<1>(at::topk(x, 2)));
  expect_same(item("aten.max.dim", {1}, 1), x, std::get<1>(at::max(x, 1)));
  expect_same(item("aten.split.Tensor", {2, 1}, -1), x, x.split(2, 1)[2]);
  expect_same(item("aten.unbind.int", {}, 2), x, x.unbind()[2]);
  expect_same(item("aten.native_layer_norm.default", {ints({6}), None{}, None{}, 1e-5}, 2), x,
              std::get<2>(at::native_layer_norm(x, {6}, {}, {}, 1e-5)));
}

TEST_F(Aten, DynamicShapesByNodesThatYieldIntegers) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId n = b.call("aten.sym_size.int", {x, 0});
    NodeId m = b.call("aten.sym_size.int", {x, 1});
    NodeId nm = b.call("operator.mul", {n, m});
    NodeId half = b.call("_operator.floordiv", {nm, 2});
    NodeId flat = b.call("aten.view.default", {x, List{{half, 2}}});
    NodeId scaled = b.call("aten.mul.Tensor", {flat, n});
    return b.call("aten.div.Tensor", {scaled, b.call("torch.sym_float", {m})});
  });
  for (std::int64_t n : {2, 4, 4, 6, 2, 4}) {
    at::Tensor x = at::randn({n, 3});
    at::Tensor expected = x.view({n * 3 / 2, 2}).mul(n).div(3.0);
    EXPECT_TRUE(same(model.forward({x}).toTensor(), expected));
  }
}

TEST_F(Aten, PythonNumberFunctions) {
  auto number = [](const std::string& f, Args args) {
    Model m = one_input([&](Builder& b, NodeId) { return b.call(f, args); });
    return m.forward({at::ones({1})});
  };
  EXPECT_EQ(number("operator.floordiv", {-7, 2}).toInt(), -4);
  EXPECT_EQ(number("operator.mod", {-7, 3}).toInt(), 2);
  EXPECT_EQ(number("operator.pow", {2, 10}).toInt(), 1024);
  EXPECT_EQ(number("operator.truediv", {7, 2}).toDouble(), 3.5);
  EXPECT_EQ(number("operator.neg", {7}).toInt(), -7);
  EXPECT_TRUE(number("operator.ge", {7, 7}).toBool());
  EXPECT_EQ(number("math.ceil", {2.2}).toInt(), 3);
  EXPECT_EQ(number("math.trunc", {-2.7}).toInt(), -2);
  EXPECT_EQ(number("torch.sym_max", {3, 5}).toInt(), 5);
  EXPECT_EQ(number("torch.sym_ite", {true, 1, 2}).toInt(), 1);
  EXPECT_EQ(number("torch.sym_sum", {List{{1, 2, 3}}}).toInt(), 6);
  EXPECT_FALSE(number("torch.sym_not", {true}).toBool());
}

TEST_F(Aten, RandomOperatorsDrawFreshNumbersAsEagerDoes) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId noisy = b.call("aten.dropout.default", {x, 0.5, true});
    return b.call("aten.mul.Tensor", {noisy, b.call("aten.rand_like.default", {x})});
  });
  at::Tensor x = at::randn({16, 16});
  at::manual_seed(1);
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 4; ++i) {
    at::Tensor noisy = at::dropout(x, 0.5, true);
    expected.push_back(noisy * at::rand_like(x));
  }
  at::manual_seed(1);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(model.forward({x}).toTensor(), expected[i]));
}

TEST_F(Aten, RuntimeDependentShapes) {
  Model model = one_input([](Builder& b, NodeId x) {
    NodeId positive = b.call("aten.gt.Scalar", {x, 0});
    NodeId kept = b.call("aten.masked_select.default", {x, positive});
    return b.call("aten.exp.default", {b.call("aten.neg.default", {kept})});
  });
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = at::randn({20});
    EXPECT_TRUE(same(model.forward({x}).toTensor(), at::exp(-x.masked_select(x > 0))));
  }
}

// ---- grouped matrix products: transformers' without transformers, aten's in float64
// --------------

constexpr const char* kFallback = "transformers.grouped_mm_fallback.default";

Model grouped(const std::string& target, const at::Tensor& weight) {
  Builder b;
  const NodeId x = b.input("x"), ends = b.input("ends");
  return b.build(b.call(target, {x, b.parameter("w", weight), ends}));
}

at::Tensor expected(const at::Tensor& x, const at::Tensor& w, const std::vector<int>& ends) {
  at::Tensor y = at::zeros({x.size(0), w.size(2)}, x.options());
  for (int i = 0, start = 0; i < static_cast<int>(ends.size()); start = ends[i++])
    y.slice(0, start, ends[i]).copy_(at::mm(x.slice(0, start, ends[i]), w[i]));
  return y;
}

TEST(GroupedMm, RunsInEveryTypeWithoutTransformers) {
  for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const at::Tensor& plain : {at::randn({3, 7, 5}), at::randn({3, 5, 7}).transpose(1, 2)}) {
      const at::Tensor x = at::randn({10, 7}).to(dtype), w = plain.to(dtype);
      // An expert without rows, and rows after the last group.
      for (const std::vector<int>& ends :
           {std::vector<int>{3, 3, 10}, std::vector<int>{0, 4, 8}, std::vector<int>{0, 0, 0}}) {
        for (at::ScalarType integer : {at::kInt, at::kLong}) {
          Model model = grouped(kFallback, w);
          expect_same(model, {x, at::tensor(ends).to(integer)}, expected(x, w, ends));
        }
      }
    }
  }
}

TEST(GroupedMm, OfAtenRunsInFloat64Too) {
  for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({10, 8}).to(dtype), w = at::randn({3, 8, 16}).to(dtype);
    Model model = grouped("aten._grouped_mm.default", w);
    expect_same(model, {x, at::tensor({3, 3, 10}, at::kInt)}, expected(x, w, {3, 3, 10}));
  }
}

TEST(GroupedMm, TakesNoOffsetsOnTrust) {
  const at::Tensor x = at::randn({10, 7});
  Executor executor(grouped(kFallback, at::randn({3, 7, 5})));
  for (const std::vector<int>& ends :
       {std::vector<int>{3, 2, 10}, std::vector<int>{3, 3, 11}, std::vector<int>{-1, 3, 10}})
    expect_error([&] { executor.run({x, at::tensor(ends)}); }, {"grouped matrix product ends at"});
  for (const at::Tensor& ends : {at::tensor({3, 10}), at::tensor({3.F, 4.F, 10.F})})
    expect_error([&] { executor.run({x, ends}); }, {"a grouped matrix product expects"});
  expect_error(
      [&] {
        executor.run({at::randn({10, 6}), at::tensor({3, 3, 10})});
      },
      {"a grouped matrix product expects"});
}

// refx computes it itself: nothing of the library runs. Its other operators are still refused.
TEST(GroupedMm, NeedsNoPermission) {
  const auto from_file = [](const char* target) {
    Model model = grouped(target, at::randn({3, 8, 16}));
    Editor editor(model);
    editor.commit_as_origin(std::make_shared<FakeSource>());
    return model;
  };
  const Model model = from_file(kFallback);
  EXPECT_TRUE(refused_ops(model).empty());
  Executor(model).run({at::randn({10, 8}), at::tensor({3, 3, 10})});
  EXPECT_EQ(refused_ops(from_file("transformers.grouped_mm_fallback_backward.default")).size(), 1u);
}

}  // namespace
}  // namespace refx::testing
