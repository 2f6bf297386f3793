// SPDX-License-Identifier: Apache-2.0

// Arguments that nobody writes by chance: Python's functions, as refx has them, refuse them.

#include <limits>

#include "exec/same.h"

namespace refx::testing {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

c10::IValue value_of(const Body& body) { return one_input(body).forward({at::ones({2, 3})}); }
c10::IValue value_of(const std::string& target, const Args& args) {
  return value_of([&](Builder& b, NodeId) { return b.call(target, args); });
}
void expect_refused(const std::string& target, const Args& args, const std::string& part) {
  SCOPED_TRACE(target);
  expect_error([&] { value_of(target, args); }, {"node '", part});
}

TEST(HostileArguments, IntegersThatDoNotFit) {
  expect_refused("operator.floordiv", {kMin, -1}, "does not fit into 64 bits");
  expect_refused("operator.add", {kMax, 1}, "9223372036854775807 + 1 does not fit");
  expect_refused("operator.sub", {kMin, 1}, "does not fit");
  expect_refused("operator.mul", {kMax, 2}, "does not fit");
  expect_refused("operator.neg", {kMin}, "does not fit");
  expect_refused("builtins.abs", {kMin}, "does not fit");
  expect_refused("operator.pow", {2, 63}, "does not fit");
  expect_refused("operator.pow", {3, kMax}, "3 ** 9223372036854775807 does not fit");
  expect_refused("math.pow", {3, kMax}, "does not fit");
  expect_refused("torch.sym_sum", {List{{kMax, 1}}}, "does not fit");
  expect_refused("builtins.int", {1e300}, "does not fit");
  expect_refused("math.floor", {std::numeric_limits<double>::quiet_NaN()}, "does not fit");
  expect_refused("operator.lshift", {1, 64}, "expects tensors");
}

TEST(HostileArguments, IntegersThatDoAreAsInPython) {
  const auto integer = [](const std::string& target, const Args& args) {
    return value_of(target, args).toInt();
  };
  EXPECT_EQ(integer("operator.mod", {kMin, -1}), 0);
  EXPECT_EQ(integer("operator.mod", {-7, 3}), 2);
  EXPECT_EQ(integer("operator.mod", {7, -3}), -2);
  EXPECT_EQ(integer("operator.mod", {kMin, kMax}), kMax - 1);
  EXPECT_EQ(integer("operator.floordiv", {-7, 2}), -4);
  EXPECT_EQ(integer("operator.floordiv", {7, -1}), -7);
  EXPECT_EQ(integer("operator.pow", {-1, kMax}), -1);
  EXPECT_EQ(integer("operator.pow", {-2, 63}), kMin);
  EXPECT_EQ(integer("operator.pow", {0, 0}), 1);
  EXPECT_EQ(integer("builtins.int", {-9223372036854775808.0}), kMin);
}

TEST(HostileArguments, DivisionByZero) {
  for (const char* name : {"operator.floordiv", "operator.mod", "operator.truediv"}) {
    expect_refused(name, {1, 0}, "division by zero");
    expect_refused(name, {1.5, 0.0}, "division by zero");
  }
}

TEST(HostileArguments, ListsThatGrow) {
  expect_refused("operator.mul", {List{{1, 2}}, kMax}, "too long");
  EXPECT_EQ(value_of("operator.mul", {List{{}}, kMax}).toTupleRef().size(), 0);
  EXPECT_EQ(value_of("operator.mul", {List{{1, 2}}, -3}).toTupleRef().size(), 0);
  const auto grown = [](const char* target, std::size_t times) {
    return [=](Builder& b, NodeId) -> Arg {
      Arg list = List{{1, 2}};
      for (std::size_t i = 0; i < times; ++i)
        list = std::string(target) == "operator.add" ? b.call(target, {list, list})
                                                     : b.call(target, {List{{list, list}}});
      return b.call("builtins.len", {list});
    };
  };
  EXPECT_EQ(value_of(grown("operator.add", 10)).toInt(), 2048);
  expect_error([&] { value_of(grown("operator.add", 60)); }, {"too long"});
  EXPECT_EQ(value_of(grown("builtins.list", 10)).toInt(), 2);
  expect_error([&] { value_of(grown("builtins.list", 60)); }, {"more than 1000000 items"});
}

TEST(HostileArguments, ListsThatNest) {
  const Body nested = [](Builder& b, NodeId x) -> Arg {
    Arg list = x;
    for (int i = 0; i < 20000; ++i) list = b.call("builtins.list", {List{{list}}});
    return b.call("builtins.len", {list});
  };
  expect_error([&] { value_of(nested); }, {"100 deep"});
}

TEST(HostileArguments, SlicesOfLists) {
  const auto sliced = [](Arg start, Arg stop, Arg step) {
    const c10::IValue all =
        value_of("operator.getitem", {List{{1, 2, 3}}, Slice{{start, stop, step}}});
    std::string text;
    for (const c10::IValue& v : all.toTupleRef().elements()) text += std::to_string(v.toInt());
    return text;
  };
  EXPECT_EQ(sliced(1, None{}, kMax), "2");
  EXPECT_EQ(sliced(None{}, None{}, kMin), "3");
  EXPECT_EQ(sliced(kMin, kMax, 2), "13");
  EXPECT_EQ(sliced(kMax, kMin, -2), "31");
  EXPECT_EQ(sliced(None{}, None{}, -1), "321");
  expect_refused("operator.getitem", {List{{1}}, Slice{{1.5, None{}, None{}}}}, "expects integers");
  expect_refused("operator.getitem", {List{{1}}, kMin}, "out of range");
}

TEST(HostileArguments, IndicesOfTensors) {
  const auto indexed = [](Arg index) {
    return [=](Builder& b, NodeId x) -> Arg { return b.call("operator.getitem", {x, index}); };
  };
  EXPECT_EQ(value_of(indexed(Slice{{kMin, kMax, None{}}})).toTensor().numel(), 6);
  EXPECT_EQ(value_of(indexed(Slice{{1, None{}, kMax}})).toTensor().numel(), 3);
  expect_error([&] { value_of(indexed(kMin)); }, {"out of bounds"});
  expect_error([&] { value_of(indexed(Slice{{None{}, None{}, kMin}})); }, {"step"});
  expect_error([&] { value_of(indexed(List{{1.5}})); }, {"integers only"});
  expect_error([&] { value_of(indexed(Tuple{Args(10000, Arg(None{}))})); }, {"10000 parts"});
}

TEST(HostileArguments, AttributesThatAreNotThere) {
  expect_refused("builtins.getattr", {Tuple{{}}, "values"}, "no attribute 'values'");
  expect_refused("builtins.getattr", {Tuple{{1}}, "indices"}, "no attribute 'indices'");
  expect_refused("builtins.getattr", {Tuple{{1}}, 3}, "the name of an attribute");
  expect_refused("builtins.getattr", {Tuple{{1}}}, "argument 2 is missing");
}

TEST(HostileArguments, WrongTypes) {
  expect_refused("operator.and_", {1.5, 2}, "expected an integer");
  expect_refused("operator.invert", {1.5}, "expected an integer");
  expect_refused("builtins.len", {1}, "expected a tuple or list");
  expect_refused("torch.numel", {1}, "expects a tensor");
  expect_refused("operator.setitem", {1, 1, 1}, "expects a tensor");
  expect_refused("math.sqrt", {"a"}, "expected a number");
  expect_refused("torch.nn.functional.interpolate", {1, 2}, "expects a tensor");
}

TEST(HostileArguments, Enumerations) {
  for (const std::int64_t dtype : {200, 9999, -1, 6, 46}) {
    expect_error(
        [&] {
          value_of([&](Builder& b, NodeId x) { return b.call("aten.to.dtype", {x, dtype}); });
        },
        {"argument 'dtype'"});
    // … and where it is computed.
    expect_error(
        [&] {
          value_of([&](Builder& b, NodeId x) {
            return b.call("aten.to.dtype", {x, b.call("operator.mul", {dtype, 1000})});
          });
        },
        {"argument 'dtype'"});
  }
  const auto refused = [](Kwargs kwargs, const char* part) {
    expect_error(
        [&] {
          value_of([&](Builder& b, NodeId) {
            return b.call("aten.empty.memory_format", {ints({2, 3})}, kwargs);
          });
        },
        {part});
  };
  refused({{"layout", 99}}, "argument 'layout'");
  refused({{"memory_format", 99}}, "argument 'memory_format'");
  refused({{"device", 300}}, "argument 'device'");
  refused({{"device", -7}}, "argument 'device'");
}

// Each of these died of a signal, or read what is not its own.
TEST(HostileArguments, KernelsThatTrustTheirArguments) {
  struct Case {
    const char* target;
    std::function<Args(Arg x, Arg one)> args;
    const char* part;
  };
  const char* channels = "one for each channel";
  const Arg none = None{};
  const Case cases[] = {
      {"aten.native_batch_norm.default",
       [](Arg x, Arg one) -> Args { return {x, one, one, one, one, false, 0.1, 1e-5}; }, channels},
      {"aten.native_batch_norm.default",
       [=](Arg x, Arg) -> Args { return {x, none, none, none, none, false, 0.1, 1e-5}; }, channels},
      {"aten._native_batch_norm_legit.default",
       [](Arg x, Arg one) -> Args { return {x, one, one, one, one, true, 0.1, 1e-5}; }, channels},
      {"aten._native_batch_norm_legit.no_stats",
       [=](Arg x, Arg) -> Args { return {x, none, none, false, 0.1, 1e-5}; }, channels},
      {"aten._native_batch_norm_legit_no_training.default",
       [](Arg x, Arg one) -> Args { return {x, one, one, one, one, 0.1, 1e-5}; }, channels},
      {"aten._batch_norm_with_update.default",
       [](Arg x, Arg one) -> Args { return {x, one, one, one, one, 0.1, 1e-5}; }, channels},
      {"aten._weight_norm_interface.default",
       [](Arg x, Arg one) -> Args {
         return {x, one, 0};
       },
       "weight norm"},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default",
       [](Arg x, Arg one) -> Args {
         return {x, one, one};
       },
       "fit together"},
      {"aten._fft_r2c.default",
       [](Arg x, Arg) -> Args {
         return {x, ints({100}), 0, true};
       },
       "no dimension 100"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.target);
    Model model = one_input([&](Builder& b, NodeId x) {
      const NodeId one = b.call("aten.zeros.default", {ints({1, 1, 1, 1})});
      return b.call("operator.getitem", {b.call(c.target, c.args(x, one)), 0});
    });
    expect_error([&] { model.forward({at::ones({2, 1 << 20, 1, 1})}); }, {"node '", c.part});
  }
}

TEST(HostileArguments, OffsetsOfAnEmbeddingBag) {
  Model model = one_input([](Builder& b, NodeId x) {
    const NodeId weight = b.call("aten.ones.default", {ints({4, 4})});
    const NodeId indices = b.call("aten.zeros.default", {ints({4})}, {{"dtype", at::kLong}});
    return b.call("operator.getitem",
                  {b.call("aten.embedding_bag.default", {weight, indices, x}), 0});
  });
  EXPECT_EQ(model.forward({at::tensor({0, 2}, at::kLong)}).toTensor().numel(), 8);
  expect_error(
      [&] {
        model.forward({at::tensor({0, -(1 << 20), 2}, at::kLong)});
      },
      {"an offset of an embedding bag is not among its indices"});
}

TEST(HostileArguments, HyperParametersOfLayers) {
  const auto refused = [](const Arg& dilation, at::Tensor weight, const char* part) {
    Builder b;
    const NodeId x = b.input("x");
    b.module({"conv",
              "torch.nn.Conv2d",
              {{"in_channels", 1},
               {"out_channels", 1},
               {"kernel_size", 3},
               {"dilation", dilation},
               {"padding", "same"},
               {"padding_mode", "reflect"}},
              false,
              ""});
    b.state({.name = "conv.weight", .tensor = std::move(weight)});
    const Model model = b.build(b.call_module("conv", {x}));
    expect_error([&] { Executor executor(model); }, {"node 'conv'", part});
  };
  refused(kMax, at::ones({1, 1, 3, 3}), "too large");
  refused(List{{1.5, 2}}, at::ones({1, 1, 3, 3}), "expects integers");
  refused(1, at::ones({3}), "three dimensions");
}

TEST(HostileArguments, MethodsOfNothing) {
  for (const char* name : {"to", "float", "type", "cpu", "size"})
    expect_error([&] { value_of([&](Builder& b, NodeId) { return b.method(name, {}); }); },
                 {"node '"});
}

TEST(HostileArguments, WritesBackIntoInputsOnly) {
  Builder b;
  const NodeId x = b.input("x"), w = b.parameter("w", at::ones({2, 3}));
  const NodeId y = b.call("aten.add.Tensor", {x, w});
  expect_error(
      [&] {
        Executor(b.build(Tuple{{y, y}}, {{0, "add"}})).run({at::ones({2, 3})});
      },
      {"'add'", "neither a state entry nor an input"});
}

}  // namespace
}  // namespace refx::testing
