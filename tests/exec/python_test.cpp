// SPDX-License-Identifier: Apache-2.0

// The module dialect's functions and methods against eager LibTorch, bit for bit.

#include "exec/same.h"

namespace refx::testing {
namespace {

at::Tensor x34() {
  at::manual_seed(3);
  return at::randn({3, 4});
}

struct Case {
  const char* name;
  Body body;
  std::function<at::Tensor(const at::Tensor&)> eager;
  at::Tensor input = x34();
};

Body function(std::string target, Args more = {}, Kwargs kwargs = {}) {
  return [=](Builder& b, NodeId x) {
    Args args = {x};
    args.insert(args.end(), more.begin(), more.end());
    return b.call(target, args, kwargs);
  };
}
Body method(std::string target, Args more = {}, Kwargs kwargs = {}) {
  return [=](Builder& b, NodeId x) {
    Args args = {x};
    args.insert(args.end(), more.begin(), more.end());
    return b.method(target, args, kwargs);
  };
}
void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    expect_same(c.body, c.input, c.eager(c.input));
  }
}
using T = const at::Tensor&;

TEST(PythonOperators, ArithmeticWithNumbersOnEitherSide) {
  auto left = [](std::string op, Arg n) -> Body {
    return [=](Builder& b, NodeId x) { return b.call("operator." + op, {n, x}); };
  };
  check({
      {"x + 2", function("operator.add", {2}), [](T x) { return x + 2; }},
      {"2 + x", left("add", 2), [](T x) { return x + 2; }},
      {"x - 2.5", function("operator.sub", {2.5}), [](T x) { return x - 2.5; }},
      {"2.5 - x", left("sub", 2.5), [](T x) { return at::rsub(x, 2.5); }},
      {"x * 3", function("operator.mul", {3}), [](T x) { return x * 3; }},
      {"x / 3", function("operator.truediv", {3}), [](T x) { return x / 3; }},
      {"3 / x", left("truediv", 3), [](T x) { return x.reciprocal() * 3; }},
      {"x // 2", function("operator.floordiv", {2}), [](T x) { return at::floor_divide(x, 2); }},
      {"x % 2", function("operator.mod", {2}), [](T x) { return at::remainder(x, 2); }},
      {"x ** 2", function("operator.pow", {2}), [](T x) { return at::pow(x, 2); }},
      {"2 ** x", left("pow", 2), [](T x) { return at::pow(2, x); }},
      {"-x", function("operator.neg"), [](T x) { return -x; }},
      {"x > 0", function("operator.gt", {0}), [](T x) { return x > 0; }},
      {"0 > x", left("gt", 0), [](T x) { return x < 0; }},
      {"x == 1", function("operator.eq", {1}), [](T x) { return x == 1; }},
      {"x @ x.T",
       [](Builder& b, NodeId x) {
         return b.call("operator.matmul", {x, b.call("getattr", {x, "T"})});
       },
       [](T x) { return at::matmul(x, x.t()); }},
      {"mask & mask", function("operator.and_", {true}), [](T x) { return x & true; },
       at::ones({3}, at::kBool)},
      {"~mask", function("operator.invert"), [](T x) { return ~x; }, at::ones({3}, at::kBool)},
  });
}

TEST(PythonOperators, IndexTensorsAsPythonDoes) {
  auto index = [](Arg i) { return function("operator.getitem", {std::move(i)}); };
  check({
      {"x[1]", index(1), [](T x) { return x[1]; }},
      {"x[-1]", index(-1), [](T x) { return x[-1]; }},
      {"x[1:]", index(refx::Slice{{1, refx::None{}, refx::None{}}}),
       [](T x) { return x.slice(0, 1); }},
      {"x[:, ::2]",
       index(Tuple{{refx::Slice{{refx::None{}, refx::None{}, refx::None{}}},
                    refx::Slice{{refx::None{}, refx::None{}, 2}}}}),
       [](T x) { return x.slice(1, 0, 4, 2); }},
      {"x[..., 0]", index(Tuple{{refx::Ellipsis{}, 0}}), [](T x) { return x.select(1, 0); }},
      {"x[None]", index(refx::None{}), [](T x) { return x.unsqueeze(0); }},
      {"x[:, None]",
       index(Tuple{{refx::Slice{{refx::None{}, refx::None{}, refx::None{}}}, refx::None{}}}),
       [](T x) { return x.unsqueeze(1); }},
      {"x[[2, 0]]", index(List{{2, 0}}),
       [](T x) {
         return x.index({at::tensor({2L, 0L})});
       }},
      {"x[x > 0]",
       [](Builder& b, NodeId x) {
         return b.call("operator.getitem", {x, b.call("operator.gt", {x, 0})});
       },
       [](T x) { return x.index({x > 0}); }},
  });
}

TEST(PythonOperators, AssignToAnIndex) {
  check({{"x[0] = 7",
          [](Builder& b, NodeId x) {
            NodeId y = b.method("clone", {x});
            b.call("operator.setitem", {y, 0, 7});
            return b.call("operator.mul", {y, 2});
          },
          [](T x) {
            at::Tensor y = x.clone();
            y[0] = 7;
            return y * 2;
          }}});
}

TEST(PythonOperators, InPlaceArithmeticChangesItsLeftOperand) {
  check({{"y += x",
          [](Builder& b, NodeId x) {
            NodeId y = b.method("clone", {x});
            b.call("operator.iadd", {y, x});
            return b.call("operator.mul", {y, 2});
          },
          [](T x) { return (x + x) * 2; }}});
}

TEST(PythonFunctions, ShapesAreNumbers) {
  check({
      {"x.view(x.size(0) * x.shape[1])",
       [](Builder& b, NodeId x) {
         NodeId rows = b.method("size", {x, 0});
         NodeId columns = b.call("operator.getitem", {b.call("getattr", {x, "shape"}), 1});
         return b.method("view", {x, b.call("operator.mul", {rows, columns})});
       },
       [](T x) { return x.view({12}); }},
      {"x.view(x.size()[:-1] + (2, 2))",
       [](Builder& b, NodeId x) {
         NodeId size = b.method("size", {x});
         NodeId head =
             b.call("operator.getitem", {size, refx::Slice{{refx::None{}, -1, refx::None{}}}});
         return b.method("view", {x, b.call("operator.add", {head, Tuple{{2, 2}}})});
       },
       [](T x) {
         return x.view({3, 2, 2});
       }},
      {"x / math.sqrt(x.size(-1))",
       [](Builder& b, NodeId x) {
         NodeId root = b.call("math.sqrt", {b.method("size", {x, -1})});
         return b.call("operator.truediv", {x, root});
       },
       [](T x) { return x / 2.0; }},
      {"x.to(y.dtype)",
       [](Builder& b, NodeId x) {
         NodeId y = b.method("double", {x});
         return b.method("to", {x, b.call("getattr", {y, "dtype"})});
       },
       [](T x) { return x.to(at::kDouble); }},
      {"torch.ones(x.size(0), 4, device=x.device) * x",
       [](Builder& b, NodeId x) {
         NodeId ones = b.call("torch.ones", {b.method("size", {x, 0}), 4},
                              {{"device", b.call("getattr", {x, "device"})}});
         return b.call("operator.mul", {ones, x});
       },
       [](T x) { return x; }},
  });
}

TEST(PythonFunctions, OverloadsByTheKindsOfArguments) {
  check({
      {"torch.sum(x)", function("torch.sum"), [](T x) { return x.sum(); }},
      {"torch.sum(x, 1)", function("torch.sum", {1}), [](T x) { return x.sum(1); }},
      {"torch.sum(x, dim=(0, 1))", function("torch.sum", {}, {{"dim", Tuple{{0, 1}}}}),
       [](T x) {
         return x.sum(at::IntArrayRef{0, 1});
       }},
      {"torch.mean(input=x, axis=0, keepdims=True)",
       [](Builder& b, NodeId x) {
         return b.call("torch.mean", {}, {{"input", x}, {"axis", 0}, {"keepdims", true}});
       },
       [](T x) { return x.mean(0, true); }},
      {"torch.max(x)", function("torch.max"), [](T x) { return x.max(); }},
      {"torch.max(x, 1)[0]",
       [](Builder& b, NodeId x) {
         return b.call("operator.getitem", {b.call("torch.max", {x, 1}), 0});
       },
       [](T x) { return std::get<0>(x.max(1)); }},
      {"torch.max(x, 1).indices",
       [](Builder& b, NodeId x) {
         return b.call("getattr", {b.call("torch.max", {x, 1}), "indices"});
       },
       [](T x) { return std::get<1>(x.max(1)); }},
      {"torch.max(x, x)",
       [](Builder& b, NodeId x) {
         return b.call("torch.max", {x, x});
       },
       [](T x) { return x; }},
      {"torch.div(x, 3, rounding_mode='floor')",
       function("torch.div", {3}, {{"rounding_mode", "floor"}}),
       [](T x) { return at::div(x, 3, "floor"); }},
      {"torch.clamp(x, min=0)", function("torch.clamp", {}, {{"min", 0}}),
       [](T x) { return at::clamp_min(x, 0); }},
      {"torch.cat((x, x), dim=1)",
       [](Builder& b, NodeId x) {
         return b.call("torch.cat", {Tuple{{x, x}}}, {{"dim", 1}});
       },
       [](T x) {
         return at::cat({x, x}, 1);
       }},
      {"torch.einsum('ij,kj->ik', x, x)",
       [](Builder& b, NodeId x) {
         return b.call("torch.functional.einsum", {"ij,kj->ik", x, x});
       },
       [](T x) {
         return at::einsum("ij,kj->ik", {x, x});
       }},
      {"torch.where(x > 0, x, 0.)",
       [](Builder& b, NodeId x) {
         return b.call("torch.where", {b.call("operator.gt", {x, 0}), x, 0.0});
       },
       [](T x) { return at::where(x > 0, x, 0.0); }},
      {"torch.softmax(x, -1)", function("torch.softmax", {-1}), [](T x) { return x.softmax(-1); }},
      {"torch.linalg.vector_norm(x, 2, 1)", function("torch.linalg.vector_norm", {2, 1}),
       [](T x) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{1}); }},
      {"torch.arange(4) + x",
       [](Builder& b, NodeId x) {
         return b.call("operator.add", {b.call("torch.arange", {4}), x});
       },
       [](T x) { return at::arange(4) + x; }},
      {"torch._C._nn.gelu(x)", function("torch._C._nn.gelu"), [](T x) { return at::gelu(x); }},
      {"torch.flatten(x, 0)", function("torch.flatten", {0}), [](T x) { return x.flatten(); }},
  });
}

TEST(PythonMethods, AsTensorsHaveThem) {
  check({
      {"x.view(2, 6)", method("view", {2, 6}),
       [](T x) {
         return x.view({2, 6});
       }},
      {"x.view(-1)", method("view", {-1}), [](T x) { return x.view({-1}); }},
      {"x.reshape((4, 3))", method("reshape", {Tuple{{4, 3}}}),
       [](T x) {
         return x.reshape({4, 3});
       }},
      {"x.permute(1, 0)", method("permute", {1, 0}), [](T x) { return x.t(); }},
      {"x.transpose(0, 1).contiguous()",
       [](Builder& b, NodeId x) {
         return b.method("contiguous", {b.method("transpose", {x, 0, 1})});
       },
       [](T x) { return x.t().contiguous(); }},
      {"x.expand(2, 3, 4)", method("expand", {2, 3, 4}),
       [](T x) {
         return x.expand({2, 3, 4});
       }},
      {"x.repeat(2, 1)", method("repeat", {2, 1}),
       [](T x) {
         return x.repeat({2, 1});
       }},
      {"x.mean(-1, keepdim=True)", method("mean", {-1}, {{"keepdim", true}}),
       [](T x) { return x.mean(-1, true); }},
      {"x.masked_fill(x > 0, 1.)",
       [](Builder& b, NodeId x) {
         return b.method("masked_fill", {x, b.call("operator.gt", {x, 0}), 1.0});
       },
       [](T x) { return x.masked_fill(x > 0, 1.0); }},
      {"x.half()", method("half"), [](T x) { return x.to(at::kHalf); }},
      {"x.to(torch.float64)", method("to", {at::kDouble}), [](T x) { return x.to(at::kDouble); }},
      {"x.to('cpu')", method("to", {"cpu"}), [](T x) { return x; }},
      {"x.to(dtype=torch.int64)", method("to", {}, {{"dtype", at::kLong}}),
       [](T x) { return x.to(at::kLong); }},
      {"x.split(2, dim=1)[1]",
       [](Builder& b, NodeId x) {
         return b.call("operator.getitem", {b.method("split", {x, 2}, {{"dim", 1}}), 1});
       },
       [](T x) { return x.split(2, 1)[1]; }},
      {"x.chunk(2)[0]",
       [](Builder& b, NodeId x) {
         return b.call("operator.getitem", {b.method("chunk", {x, 2}), 0});
       },
       [](T x) { return x.chunk(2)[0]; }},
      {"x.clone().add_(1)",
       [](Builder& b, NodeId x) {
         return b.method("add_", {b.method("clone", {x}), 1});
       },
       [](T x) { return x + 1; }},
      {"x.unsqueeze(0)", method("unsqueeze", {0}), [](T x) { return x.unsqueeze(0); }},
      {"x.type_as(x)",
       [](Builder& b, NodeId x) {
         return b.method("type_as", {x, x});
       },
       [](T x) { return x; }},
  });
}

TEST(Functional, WhereThePythonSignatureDiffers) {
  const std::string f = "torch.nn.functional.";
  at::Tensor image = at::randn({2, 3, 8, 8});
  check({
      {"relu", function(f + "relu", {}, {{"inplace", false}}), [](T x) { return at::relu(x); }},
      {"relu of a copy, in place",
       [&](Builder& b, NodeId x) {
         NodeId y = b.method("clone", {x});
         b.call(f + "relu", {y}, {{"inplace", true}});
         return b.call("operator.add", {y, 1});
       },
       [](T x) { return at::relu(x) + 1; }},
      {"dropout", function(f + "dropout", {}, {{"p", 0.5}, {"training", false}}),
       [](T x) { return x; }},
      {"softmax",
       function(f + "softmax", {}, {{"dim", -1}, {"_stacklevel", 3}, {"dtype", refx::None{}}}),
       [](T x) { return x.softmax(-1); }},
      {"log_softmax", function(f + "log_softmax", {1}), [](T x) { return x.log_softmax(1); }},
      {"gelu", function(f + "gelu", {}, {{"approximate", "tanh"}}),
       [](T x) { return at::gelu(x, "tanh"); }},
      {"layer_norm", function(f + "layer_norm", {Tuple{{4}}}),
       [](T x) { return at::layer_norm(x, {4}); }},
      {"elu", function(f + "elu", {0.5}), [](T x) { return at::elu(x, 0.5); }},
      {"pad", function(f + "pad", {Tuple{{1, 1}}}, {{"mode", "constant"}, {"value", 2.0}}),
       [](T x) {
         return at::constant_pad_nd(x, {1, 1}, 2.0);
       }},
      {"normalize", function(f + "normalize", {}, {{"dim", 1}}),
       [](T x) { return x / x.norm(2, {1}, true).clamp_min(1e-12).expand_as(x); }},
      {"max_pool2d",
       function(f + "max_pool2d", {2}, {{"stride", refx::None{}}, {"ceil_mode", false}}),
       [](T x) { return at::max_pool2d(x, 2); }, image},
      {"avg_pool2d", function(f + "avg_pool2d", {2}), [](T x) { return at::avg_pool2d(x, 2); },
       image},
      {"adaptive_avg_pool2d", function(f + "adaptive_avg_pool2d", {Tuple{{2, 2}}}),
       [](T x) {
         return at::adaptive_avg_pool2d(x, {2, 2});
       },
       image},
      {"interpolate, nearest", function(f + "interpolate", {}, {{"scale_factor", 2}}),
       [](T x) {
         return at::upsample_nearest2d(x, at::OptionalIntArrayRef(),
                                       at::ArrayRef<double>({2.0, 2.0}));
       },
       image},
      {"interpolate, bilinear",
       function(f + "interpolate", {Tuple{{5, 7}}},
                {{"mode", "bilinear"}, {"align_corners", false}}),
       [](T x) {
         return at::upsample_bilinear2d(x, {5, 7}, false);
       },
       image},
  });
}

TEST(Functional, BatchNormAndEmbeddingTakeTheirArgumentsInPythonsOrder) {
  at::Tensor mean = at::randn({4}), var = at::rand({4}), w = at::randn({4}), bias = at::randn({4});
  expect_same(
      [&](Builder& b, NodeId x) {
        return b.call("torch.nn.functional.batch_norm",
                      {x, b.buffer("m", mean), b.buffer("v", var), b.parameter("w", w),
                       b.parameter("b", bias)},
                      {{"training", false}, {"momentum", 0.1}, {"eps", 1e-5}});
      },
      x34(), at::batch_norm(x34(), w, bias, mean, var, false, 0.1, 1e-5, true));
  at::Tensor table = at::randn({10, 4}), ids = at::tensor({1L, 9L, 3L});
  expect_same(
      [&](Builder& b, NodeId x) {
        return b.call(
            "torch.nn.functional.embedding", {x, b.parameter("w", table)},
            {{"padding_idx", refx::None{}}, {"max_norm", refx::None{}}, {"sparse", false}});
      },
      ids, at::embedding(table, ids));
}

}  // namespace
}  // namespace refx::testing
