// SPDX-License-Identifier: Apache-2.0

// Nodes that hand a value on unchanged, in every spelling, and those that only look like it.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kit.h"
#include "ops/views.h"

namespace refx::testing {
namespace {

struct Row {
  const char *node, *handed_on;
};

// x is untyped, t is f32[2, 3, 4], l is i64[2, 3], b is b8[2]; c is t in another order.
Model with_node(const std::string& node) {
  return parse_filled(fmt::format(R"(
parameter p : f32[4]
parameter q : f32[4] requires_grad=True
module id : torch.nn.Identity()
module drop : torch.nn.Dropout(p=0.1)
module drop0 : torch.nn.Dropout(p=0.0) training=True
module drops : torch.nn.Dropout(p=0.1) training=True
module hooked : torch.nn.Identity() custom="has a hook"
graph():
    %x = placeholder[target=x]
    %t : f32[2, 3, 4] = placeholder[target=t]
    %l : i64[2, 3] = placeholder[target=l]
    %b : b8[2] = placeholder[target=b]
    %s : f32[s0, 4] = placeholder[target=s]
    %p = get_attr[target=p]
    %q = get_attr[target=q]
    %c : f32[2, 4, 3] = call_function[target=aten.transpose.int](args = (%t, 1, 2))
    %v : f32[6, 4] = call_function[target=aten.view.default](args = (%t, [6, 4]))
    %h : f16[2, 3, 4] = call_function[target=aten.to.dtype](args = (%t, torch.float16))
    %u = call_method[target=transpose](args = (%x, -2, -1))
    %y {}
    return ({},)
)",
                                  node, "y"));
}

template <std::size_t N>
void check(const Row (&rows)[N]) {
  for (const auto& [node, handed_on] : rows)
    EXPECT_EQ(no_op_in(with_node(node), "y"), handed_on) << node;
}

TEST(NoOps, WhateverTheTypes) {
  const Row rows[] = {
      {"= call_module[target=id](args = (%x,))", "x"},
      {"= call_module[target=hooked](args = (%x,))", "?"},
      {"= call_module[target=drop](args = (%x,))", "x"},
      {"= call_module[target=drop0](args = (%x,))", "x"},
      {"= call_module[target=drops](args = (%x,))", "?"},
      {"= call_function[target=aten.dropout.default](args = (%x, 0.1, False))", "x"},
      {"= call_function[target=aten.dropout.default](args = (%x, 0.1, True))", "?"},
      {"= call_function[target=aten.dropout.default](args = (%x, 0.0, True))", "x"},
      {"= call_function[target=aten.dropout_.default](args = (%x, 0.1, False))", "?"},
      {"= call_function[target=aten.native_dropout.default](args = (%x, 0.1, False))", "?"},
      {"= call_function[target=torch.nn.functional.dropout](args = (%x,))", "?"},
      {"= call_function[target=torch.nn.functional.dropout](args = (%x, 0.1, False))", "x"},
      {"= call_function[target=torch.nn.functional.dropout](args = (%x,), kwargs = {training: "
       "False, inplace: True})",
       "?"},
      {"= call_function[target=torch.nn.functional.dropout2d](args = (), kwargs = {input: %x, "
       "training: False})",
       "x"},
      {"= call_function[target=aten.clone.default](args = (%x,))", "x"},
      {"= call_method[target=clone](args = (%x,))", "x"},
      {"= call_method[target=contiguous](args = (%x,))", "x"},
      {"= call_function[target=aten.alias.default](args = (%x,))", "x"},
      {"= call_function[target=aten.lift_fresh_copy.default](args = (%p,))", "p"},
      {"= call_function[target=aten.relu.default](args = (%x,))", "?"},
      {"= call_function[target=mylib.clone](args = (%x,))", "?"},
  };
  check(rows);
}

TEST(NoOps, DetachWhereThereIsNoGradient) {
  const Row rows[] = {
      {"= call_function[target=aten.detach.default](args = (%x,))", "?"},
      {"= call_function[target=aten.detach.default](args = (%t,))", "?"},
      {"= call_function[target=aten.detach.default](args = (%l,))", "l"},
      {"= call_method[target=detach](args = (%p,))", "p"},
      {"= call_method[target=detach](args = (%q,))", "?"},
      {"= call_function[target=aten.detach_.default](args = (%p,))", "p"},
      {"= call_function[target=aten.detach_.default](args = (%t,))", "?"},
  };
  check(rows);
}

TEST(NoOps, NeutralNumbers) {
  const Row rows[] = {
      {"= call_function[target=aten.mul.Tensor](args = (%t, 1.0))", "t"},
      {"= call_function[target=aten.mul.Tensor](args = (%t, 1))", "t"},
      {"= call_function[target=operator.mul](args = (1, %t))", "t"},
      {"= call_method[target=div](args = (%t, 1))", "t"},
      {"= call_function[target=torch.div](args = (%t, 1), kwargs = {rounding_mode: \"floor\"})",
       "?"},
      {"= call_function[target=aten.mul.Tensor](args = (%t, -1))", "?"},
      {"= call_function[target=aten.mul.Tensor](args = (%x, 1))", "?"},  // truth becomes a number
      {"= call_function[target=aten.mul.Tensor](args = (%b, 1))", "?"},  // likewise
      {"= call_function[target=aten.mul.Tensor](args = (%l, 1))", "l"},
      {"= call_function[target=aten.mul.Tensor](args = (%l, 1.0))", "?"},
      {"= call_function[target=aten.div.Tensor](args = (%l, 1))", "?"},
      {"= call_function[target=operator.truediv](args = (1, %t))", "?"},
      {"= call_function[target=aten.add.Tensor](args = (%t, 0))", "?"},  // -0 becomes 0
      {"= call_function[target=aten.add.Tensor](args = (%l, 0))", "l"},
      {"= call_function[target=operator.add](args = (0, %l))", "l"},
      {"= call_function[target=aten.sub.Tensor](args = (%l, 0))", "l"},
      {"= call_function[target=operator.sub](args = (0, %l))", "?"},
      {"= call_function[target=aten.add.Tensor](args = (%l, 0.0))", "?"},
      {"= call_function[target=aten.mul_.Tensor](args = (%t, 1))", "?"},
  };
  check(rows);
}

TEST(NoOps, WholeSlicesAndExpansions) {
  const Row rows[] = {
      {"= call_function[target=aten.slice.Tensor](args = (%x,))", "x"},
      {"= call_function[target=aten.slice.Tensor](args = (%x, 1, 0, 9223372036854775807))", "x"},
      {"= call_function[target=aten.slice.Tensor](args = (%x, 1, 1, 9223372036854775807))", "?"},
      {"= call_function[target=aten.slice.Tensor](args = (%x, 1, 0, 4))", "?"},
      {": f32[2, 3, 4] = call_function[target=aten.slice.Tensor](args = (%t, 2, 0, 4))", "t"},
      {": f32[2, 3, 3] = call_function[target=aten.slice.Tensor](args = (%t, 2, 0, 3))", "?"},
      {": f32[s0, 4] = call_function[target=aten.slice.Tensor](args = (%s, 1, 0, 4))", "s"},
      {": f32[s1, 4] = call_function[target=aten.slice.Tensor](args = (%s, 0, 0, 4))", "?"},
      {"= call_function[target=operator.getitem](args = (%t, (..., slice(None, None, None))))",
       "t"},
      {"= call_function[target=operator.getitem](args = (%t, slice(None, None, -1)))", "?"},
      {"= call_function[target=operator.getitem](args = (%t, (None, slice(None, None, None))))",
       "?"},
      {"= call_function[target=operator.getitem](args = (%x, slice(None, None, None)))", "?"},
      {"= call_method[target=expand](args = (%x, -1, -1))", "x"},
      {"= call_method[target=expand](args = (%x, 2, -1))", "?"},
      {": f32[2, 3, 4] = call_function[target=aten.expand.default](args = (%t, [2, 3, 4]))", "t"},
      {": f32[2, 2, 3, 4] = call_function[target=aten.expand.default](args = (%t, [2, 2, 3, 4]))",
       "?"},
  };
  check(rows);
}

TEST(NoOps, ShapesAndTypesAsTheyAre) {
  const Row rows[] = {
      {": f32[2, 3, 4] = call_function[target=aten.view.default](args = (%t, [2, 3, 4]))", "t"},
      {": f32[2, 3, 4] = call_function[target=aten.view.default](args = (%v, [2, 3, 4]))", "t"},
      {": f32[3, 2, 4] = call_function[target=aten.view.default](args = (%v, [3, 2, 4]))", "?"},
      {": f32[2, 3, 4] = call_function[target=aten.view.default](args = (%c, [2, 3, 4]))", "?"},
      {": i32[2, 3, 4] = call_function[target=aten.view.dtype](args = (%t, torch.int32))", "?"},
      {": f32[2, 3, 4] = call_function[target=aten.to.dtype](args = (%t, torch.float32))", "t"},
      {": f32[2, 3, 4] = call_function[target=aten.to.dtype](args = (%h, torch.float32))", "?"},
      {": f32[2, 3, 4] = call_function[target=aten._to_copy.default](args = (%t,), kwargs = "
       "{dtype: torch.float32})",
       "t"},
      {": f32[2, 3, 4] device=cuda:0 = call_function[target=aten._to_copy.default](args = (%t,), "
       "kwargs = "
       "{device: device(type='cuda', index=0)})",
       "?"},
      {": f32[4] = call_function[target=aten.to.dtype](args = (%p, torch.float32))", "p"},
      // torch.fx runs with any shapes and types, whatever was recorded.
      {": f32[2, 3, 4] = call_method[target=to](args = (%t, torch.float32))", "?"},
      {": f32[2, 3, 4] = call_method[target=view](args = (%t, 2, 3, 4))", "?"},
  };
  check(rows);
}

TEST(NoOps, TranspositionsThatUndoEachOther) {
  const Row rows[] = {
      {"= call_function[target=aten.transpose.int](args = (%c, 1, 2))", "t"},
      {"= call_function[target=aten.transpose.int](args = (%c, -1, 1))", "t"},
      {"= call_function[target=aten.permute.default](args = (%c, [0, 2, 1]))", "t"},
      {"= call_function[target=aten.permute.default](args = (%c, [1, 2, 0]))", "?"},
      {"= call_function[target=aten.transpose.int](args = (%c, 0, 2))", "?"},
      {"= call_method[target=permute](args = (%t, 0, 1, 2))", "t"},
      {"= call_method[target=transpose](args = (%u, -2, -1))", "x"},
      {"= call_method[target=transpose](args = (%u, 0, -1))", "?"},
      {"= call_function[target=aten.transpose.int](args = (%t, 1, 1))", "t"},
  };
  check(rows);
}

}  // namespace
}  // namespace refx::testing
