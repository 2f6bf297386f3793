// SPDX-License-Identifier: Apache-2.0

// Names, divisions, effects and what is known of values, in every spelling.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kit.h"
#include "ops/views.h"

namespace refx::testing {
namespace {

struct Row {
  const char *node, *seen;
};

const std::string kDeclared = R"(
parameter p : f32[4]
buffer n : i64[]
buffer scale : f32[]
module act : torch.nn.ReLU()
module act_ : torch.nn.ReLU(inplace=True)
module flat : torch.nn.Flatten()
module flat0 : torch.nn.Flatten(start_dim=0)
module drop : torch.nn.Dropout(p=0.1)
module fc : torch.nn.Linear(in_features=4, out_features=4)
module mine : mine.Layer()
)";

// x is untyped; t is f32[2, 3, 4] and l is i64[2, 3].
Model with_node(const std::string& node, const char* result = "y") {
  return parse(fmt::format("{}{}{}\n    return ({},)\n", kDeclared, R"(graph():
    %x = placeholder[target=x]
    %t : f32[2, 3, 4] = placeholder[target=t]
    %l : i64[2, 3] = placeholder[target=l]
    %p = get_attr[target=p]
    %n = get_attr[target=n]
    %scale = get_attr[target=scale]
    %size = call_method[target=size](args = (%x, 0))
    %c = call_function[target=aten.relu.default](args = (%x,))
    %y = )",
                           node, result));
}

template <std::size_t N, class F>
void check(const Row (&rows)[N], const F& seen_in) {
  for (const auto& [node, seen] : rows) EXPECT_EQ(seen_in(with_node(node), "y"), seen) << node;
}

TEST(Names, WithoutNamespaceAndOverload) {
  const Row rows[] = {
      {"call_function[target=aten.view.default](args = (%x, [2]))", "view"},
      {"call_function[target=aten.view.dtype](args = (%x, torch.int32))", "view"},
      {"call_function[target=torch.ops.aten.view.default](args = (%x, [2]))", "view"},
      {"call_function[target=torch.reshape](args = (%x, [2]))", "reshape"},
      {"call_function[target=torch.nn.functional.relu](args = (%x,))", "relu"},
      {"call_function[target=operator.truediv](args = (%x, 2))", "truediv"},
      {"call_function[target=math.sqrt](args = (%size,))", "sqrt"},
      {"call_function[target=builtins.len](args = (%x,))", "len"},
      {"call_function[target=getattr](args = (%x, \"shape\"))", "getattr"},
      {"call_method[target=view](args = (%x, 2))", "view"},
      {"call_module[target=act](args = (%x,))", "torch.nn.ReLU"},
      {"call_module[target=mine](args = (%x,))", "mine.Layer"},
      // Somebody else's functions keep their names, whatever those end with.
      {"call_function[target=mylib.view.default](args = (%x,))", "mylib.view.default"},
      {"call_function[target=mylib.view](args = (%x,))", "mylib.view"},
      {"call_function[target=my.deep.lib.view](args = (%x,))", "my.deep.lib.view"},
  };
  check(rows, name_in);
}

TEST(DivisionView, EverySpelling) {
  const Row rows[] = {
      {"call_function[target=aten.div.Tensor](args = (%t, 8.0))", "t / 8"},
      {"call_function[target=aten.div.Scalar](args = (%t, 8))", "t / 8"},
      {"call_function[target=aten.true_divide.Tensor](args = (%t, 0.5))", "t / 0.5"},
      {"call_function[target=aten.divide.Tensor](args = (%t, %scale))", "t / scale"},
      {"call_function[target=torch.div](args = (%t, 8))", "t / 8"},
      {"call_function[target=torch.div](args = (), kwargs = {input: %t, other: 8})", "t / 8"},
      {"call_function[target=torch.true_divide](args = (%x, -3))", "x / -3"},
      {"call_function[target=torch.divide](args = (%x, 2))", "x / 2"},
      {"call_function[target=operator.truediv](args = (%x, 2.5))", "x / 2.5"},
      {"call_function[target=operator.truediv](args = (%x, %p))", "x / p"},
      {"call_method[target=div](args = (%x, 4))", "x / 4"},
      {"call_method[target=true_divide](args = (%x, 4))", "x / 4"},
      {"call_method[target=divide](args = (%x, 4))", "x / 4"},
      {"call_method[target=__truediv__](args = (%x, 4))", "x / 4"},
      {"call_function[target=aten.div.Tensor_mode](args = (%t, 8), kwargs = {rounding_mode: None})",
       "t / 8"},
      // A division that stays one.
      {"call_function[target=aten.div.Tensor_mode](args = (%t, 8), kwargs = {rounding_mode: "
       "\"floor\"})",
       "t / 8: it has a rounding mode"},
      {"call_function[target=torch.div](args = (%t, 8), kwargs = {out: %t})",
       "t / 8: it writes into a tensor given as `out`"},
      {"call_function[target=operator.truediv](args = (%l, 8))", "l / 8: it divides integers"},
      {"call_function[target=operator.truediv](args = (%size, 8))",
       "size / 8: it divides integers"},
      {"call_function[target=operator.truediv](args = (%x, %c))",
       "x / ?: the divisor is computed, not constant"},
      {"call_function[target=operator.truediv](args = (%x, %t))",
       "x / ?: the divisor is computed, not constant"},
      {"call_function[target=operator.truediv](args = (8, %x))",
       "? / ?: the dividend is not a tensor"},
      {"call_function[target=operator.truediv](args = (%x, True))",
       "x / ?: the divisor is not a real number"},
      {"call_method[target=div_](args = (%x, 4))", "? / ?: it divides in place"},
      {"call_method[target=__itruediv__](args = (%x, 4))", "? / ?: it divides in place"},
      {"call_function[target=aten.div_.Tensor](args = (%x, 4))", "? / ?: it divides in place"},
      {"call_function[target=operator.itruediv](args = (%x, 4))", "? / ?: it divides in place"},
      // Something else.
      {"call_function[target=operator.floordiv](args = (%x, 4))", "no"},
      {"call_function[target=aten.mul.Tensor](args = (%x, 4))", "no"},
      {"call_function[target=mylib.div](args = (%x, 4))", "no"},
      {"call_function[target=mylib.div.Tensor](args = (%x, 4))", "no"},
      {"call_module[target=mine](args = (%x, 4))", "no"},
      {"call_function[target=aten.reciprocal.default](args = (%x,))", "no"},
  };
  check(rows, division_in);
}

TEST(DivisionView, BecomesAMultiplicationOfTheSameSpelling) {
  const Row rows[] = {
      {"call_function[target=aten.div.Tensor](args = (%t, 8.0))", "aten.mul.Tensor"},
      {"call_function[target=aten.div.Scalar](args = (%t, 8.0))", "aten.mul.Scalar"},
      {"call_function[target=torch.true_divide](args = (%t, 8))", "torch.mul"},
      {"call_function[target=operator.truediv](args = (%t, 8))", "operator.mul"},
      {"call_method[target=div](args = (%t, 8))", "mul"},
  };
  check(rows, multiplication_for);
}

TEST(Effects, WhatACallMayDoToItsArguments) {
  const Row rows[] = {
      {"call_function[target=aten.relu.default](args = (%x,))", "pure"},
      {"call_function[target=torch.relu](args = (%x,))", "pure"},
      {"call_function[target=aten.add.Tensor](args = (%x, %x))", "pure"},
      {"call_function[target=operator.add](args = (%x, %x))", "pure"},
      {"call_function[target=operator.invert](args = (%x,))", "pure"},
      {"call_function[target=operator.index](args = (%x,))", "pure"},
      {"call_function[target=math.sqrt](args = (%size,))", "pure"},
      {"call_module[target=act](args = (%x,))", "pure"},
      {"call_module[target=fc](args = (%x,))", "pure"},
      {"placeholder[target=y]", "pure"},
      // Results that may share memory.
      {"call_function[target=aten.view.default](args = (%x, [2]))", "views"},
      {"call_function[target=aten.transpose.int](args = (%x, 0, 1))", "views"},
      {"call_function[target=aten.slice.Tensor](args = (%x, 0))", "views"},
      {"call_function[target=aten.detach.default](args = (%x,))", "views"},
      {"call_function[target=torch.flatten](args = (%x, 1))", "views"},
      {"call_function[target=operator.getitem](args = (%x, 0))", "views"},
      {"call_function[target=getattr](args = (%x, \"data\"))", "views"},
      {"call_function[target=torch.nn.functional.dropout](args = (%x, 0.1, False))", "views"},
      {"call_method[target=view](args = (%x, 2))", "views"},
      {"call_method[target=contiguous](args = (%x,))", "views"},
      {"call_method[target=to](args = (%x, torch.float32))", "views"},
      {"call_module[target=flat](args = (%x,))", "views"},
      {"call_module[target=drop](args = (%x,))", "views"},
      // Writes.
      {"call_function[target=aten.relu_.default](args = (%x,))", "views, writes its first"},
      {"call_function[target=aten.copy_.default](args = (%x, %t))", "views, writes its first"},
      {"call_function[target=torch.relu_](args = (%x,))", "views, writes its first"},
      {"call_method[target=add_](args = (%x, 1))", "views, writes its first"},
      {"call_function[target=operator.iadd](args = (%x, 1))", "views, writes its first"},
      {"call_function[target=operator.setitem](args = (%x, 0, 1))", "views, writes its first"},
      {"call_function[target=torch.nn.init.zeros_](args = (%x,))", "views, writes its first"},
      {"call_function[target=torch.nn.functional.relu](args = (%x, True))",
       "views, writes its first"},
      {"call_function[target=torch.nn.functional.relu](args = (%x,), kwargs = {inplace: 1})",
       "views, writes its first"},
      {"call_function[target=torch.nn.functional.relu](args = (%x, False))", "pure"},
      {"call_function[target=torch.nn.functional.leaky_relu](args = (%x, 0.1, True))",
       "views, writes its first"},
      {"call_function[target=torch.nn.functional.dropout](args = (%x, 0.1, True, True))",
       "views, writes its first"},
      {"call_module[target=act_](args = (%x,))", "views, writes its first"},
      // The worst, where it is written elsewhere or nobody knows.
      {"call_function[target=torch.add](args = (%x, %x), kwargs = {out: %t})",
       "views, writes its first, writes any"},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %p, %p, None, None, "
       "True))",
       "views, writes its first, writes any"},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %p, %p, None, None, "
       "False))",
       "pure"},
      {"call_function[target=torch.nn.functional.instance_norm](args = (%x, %p, %p))",
       "views, writes its first, writes any"},
      {"call_function[target=mylib.op.default](args = (%x,))",
       "views, writes its first, writes any"},
      {"call_function[target=mylib.helper](args = (%x,))", "views, writes its first, writes any"},
      {"call_function[target=helper](args = (%x,))", "views, writes its first, writes any"},
      {"call_method[target=frobnicate](args = (%x,))", "views, writes its first, writes any"},
      {"call_module[target=mine](args = (%x,))", "views, writes its first, writes any"},
  };
  check(rows, effect_in);
}

TEST(Effects, WritesAreSeenThroughViews) {
  const Model model = parse(R"(graph():
    %x = placeholder[target=x]
    %z = placeholder[target=z]
    %a = call_function[target=aten.relu.default](args = (%x,))
    %v = call_function[target=aten.view.default](args = (%a, [2]))
    %b = call_function[target=aten.relu.default](args = (%z,))
    %w = call_function[target=aten.add_.Tensor](args = (%v, 1))
    %c = call_function[target=aten.relu.default](args = (%a,))
    return (c, b, w)
)");
  EXPECT_TRUE(written_between(model, "a", "a", "c"));
  EXPECT_TRUE(written_between(model, "v", "b", "c"));
  EXPECT_FALSE(written_between(model, "a", "a", "w")) << "the writer itself is not between";
  EXPECT_FALSE(written_between(model, "a", "w", "c"));
  EXPECT_FALSE(written_between(model, "a", "a", "b"));
  EXPECT_FALSE(written_between(model, "x", "x", "c")) << "relu's result is another tensor";
  EXPECT_FALSE(written_between(model, "b", "b", "c"));
}

TEST(Effects, WhoWorksOnASliceOfColumns) {
  const std::pair<const char*, bool> rows[] = {
      {"call_function[target=aten.relu.default](args = (%c,))", true},
      {"call_function[target=aten.transpose.int](args = (%c, 0, 1))", true},
      {"call_method[target=reshape](args = (%c, -1))", true},
      {"call_function[target=aten.view.default](args = (%c, [2, 3, 2, 4]))", true},
      {"call_method[target=view](args = (%c, 2, -1, 8))", true},
      {"call_function[target=aten.view.default](args = (%c, [2, 24]))", false},
      {"call_method[target=view](args = (%c, -1))", false},
      {"call_function[target=aten.view.dtype](args = (%c, torch.int32))", false},
      {"call_function[target=aten.as_strided.default](args = (%c, [2], [1]))", false},
      {"call_function[target=aten.relu_.default](args = (%c,))", false},
      {"call_method[target=is_contiguous](args = (%c,))", false},
      {"call_module[target=mine](args = (%c,))", false},
  };
  for (const auto& [node, will_do] : rows) {
    const Model model = with_node(
        fmt::format("{}\n    %z = call_function[target=aten.relu.default](args = (%y,))", node),
        "z");
    EXPECT_EQ(column_slice_will_do(model, "c", 8), will_do) << node;
  }
  // Who returns it shows it to a caller; and a view is asked like the slice itself.
  EXPECT_FALSE(column_slice_will_do(
      with_node("call_function[target=aten.transpose.int](args = (%c, 0, 1))"), "c", 8));
  const Model through = parse(R"(graph():
    %c = placeholder[target=c]
    %v = call_function[target=aten.transpose.int](args = (%c, 0, 1))
    %y = call_function[target=aten.view.default](args = (%v, [2, 3, 8]))
    %z = call_function[target=aten.relu.default](args = (%y,))
    return (z,)
)");
  EXPECT_FALSE(column_slice_will_do(through, "c", 8));
}

TEST(Inference, Integers) {
  const std::pair<const char*, bool> rows[] = {
      {"call_method[target=size](args = (%x, 0))", true},
      {"call_function[target=builtins.len](args = (%x,))", true},
      {"call_function[target=aten.sym_size.int](args = (%x, 0))", true},
      {"call_function[target=aten.argmax.default](args = (%x,))", true},
      {"call_function[target=torch.arange](args = (4,))", true},
      {"call_method[target=long](args = (%x,))", true},
      {"call_function[target=operator.eq](args = (%x, 1))", true},
      {"call_function[target=getattr](args = (%x, \"shape\"))", true},
      {"call_function[target=getattr](args = (%x, \"data\"))", false},
      // Arithmetic of integers alone is one; with anything else it is not.
      {"call_function[target=operator.add](args = (%size, 1))", true},
      {"call_function[target=operator.mul](args = (%size, %size))", true},
      {"call_function[target=operator.getitem](args = (%l, 0))", true},
      {"call_function[target=operator.add](args = (%x, %size))", false},
      {"call_function[target=operator.add](args = (%l, %n))", true},
      {"call_function[target=operator.truediv](args = (%size, 2))", false},
      {"call_function[target=aten.relu.default](args = (%x,))", false},
      {"call_module[target=fc](args = (%x,))", false},
      {"get_attr[target=n]", true},
      {"get_attr[target=p]", false},
      {"placeholder[target=y]", false},
  };
  for (const auto& [node, integer] : rows)
    EXPECT_EQ(may_be_integer_in(with_node(node), "y"), integer) << node;
  const Model model = with_node("placeholder[target=y]");
  EXPECT_TRUE(may_be_integer_in(model, "l"));
  EXPECT_FALSE(may_be_integer_in(model, "t"));
}

TEST(Inference, TypesSayWhatTheyAre) {
  const Model model = with_node("placeholder[target=y]");
  EXPECT_EQ(dtype_in(model, "t"), "Float");
  EXPECT_EQ(dtype_in(model, "l"), "Long");
  EXPECT_EQ(dtype_in(model, "n"), "Long");
  EXPECT_EQ(dtype_in(model, "p"), "Float");
  EXPECT_EQ(dtype_in(model, "x"), "?");
  EXPECT_EQ(dtype_in(model, "c"), "?");
}

TEST(Inference, Ranks) {
  const Row rows[] = {
      {"call_function[target=aten.relu.default](args = (%t,))", "3"},
      {"call_function[target=torch.nn.functional.gelu](args = (%l,))", "2"},
      {"call_method[target=contiguous](args = (%t,))", "3"},
      {"call_module[target=act](args = (%t,))", "3"},
      {"call_module[target=fc](args = (%t,))", "3"},
      {"call_module[target=drop](args = (%t,))", "3"},
      {"call_function[target=torch.nn.functional.dropout](args = (), kwargs = {input: %t})", "3"},
      // Flattened from the second dimension on, anything is a matrix.
      {"call_function[target=torch.flatten](args = (%x, 1))", "2"},
      {"call_method[target=flatten](args = (%x, 1))", "2"},
      {"call_function[target=aten.flatten.using_ints](args = (%x, 1, -1))", "2"},
      {"call_function[target=torch.flatten](args = (%x,), kwargs = {start_dim: 1})", "2"},
      {"call_module[target=flat](args = (%x,))", "2"},
      {"call_function[target=torch.flatten](args = (%x,))", "?"},
      {"call_function[target=torch.flatten](args = (%x, 1, 2))", "?"},
      {"call_function[target=torch.flatten](args = (%x, %size))", "?"},
      {"call_module[target=flat0](args = (%x,))", "?"},
      // Nothing is certain.
      {"call_function[target=aten.relu.default](args = (%x,))", "?"},
      {"call_function[target=aten.mean.dim](args = (%t, [1]))", "?"},
      {"call_method[target=view](args = (%t, 2, -1))", "?"},
      {"call_module[target=mine](args = (%t,))", "?"},
      {"call_function[target=mylib.relu](args = (%t,))", "?"},
      {"placeholder[target=y]", "?"},
  };
  check(rows, rank_in);
}

}  // namespace
}  // namespace refx::testing
