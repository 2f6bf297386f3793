// SPDX-License-Identifier: Apache-2.0

#include "oracle.h"

#include <ATen/ATen.h>
#include <gtest/gtest-spi.h>

#include "kit.h"

namespace refx::testing {
namespace {

at::Tensor only_result(const Model& model, const std::vector<c10::IValue>& inputs) {
  const auto results = results_in_double(model, inputs);
  EXPECT_EQ(results.size(), 1u);
  return results.at(0);
}

TEST(Oracle, ComputesInDouble) {
  const Model model = parse_filled(R"(
parameter w : bf16[3, 4]
graph():
    %w : bf16[3, 4] = placeholder[target=w](state=w)
    %x : bf16[2, 4] = placeholder[target=x]
    %linear : bf16[2, 3] = call_function[target=aten.linear.default](args = (%x, %w), kwargs = {})
    return (linear,)
)");
  const at::Tensor x = at::randn({2, 4}, at::kBFloat16);
  const at::Tensor w(model.state().tensor(*model.state().begin()));
  const at::Tensor expected = at::linear(x.to(at::kDouble), w.to(at::kDouble));
  EXPECT_TRUE(at::equal(only_result(model, {x}), expected));
  EXPECT_EQ(w.scalar_type(), at::kBFloat16);
}

TEST(Oracle, TypesThatTheGraphAsksForAreDoubleToo) {
  const Model model = parse_filled(R"(graph():
    %x : f32[2] = placeholder[target=x]
    %half = call_method[target=half](args = (%x,), kwargs = {})
    %to = call_function[target=aten._to_copy.default](args = (%half,), kwargs = {dtype: torch.bfloat16})
    %ones = call_function[target=aten.ones.default](args = ([2],), kwargs = {})
    %long = call_function[target=aten._to_copy.default](args = (%x,), kwargs = {dtype: torch.int64})
    %add = call_function[target=aten.add.Tensor](args = (%to, %ones), kwargs = {})
    return (add, ones, long)
)");
  const at::Tensor x = at::tensor({0.1, 2.7}, at::kFloat);
  const auto results = results_in_double(model, {x});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(at::equal(results[0], x.to(at::kDouble) + 1));
  EXPECT_EQ(results[1].scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(results[2], at::tensor({0, 2}, at::kLong)));
  EXPECT_EQ(at::ones({1}).scalar_type(), at::kFloat) << "the default is left as it was";
}

TEST(Oracle, LeavesBuffersThatTheModelWritesAlone) {
  const Model model = parse_filled(R"(
buffer n : f32[2]
mutates n = output 0
graph():
    %n : f32[2] = placeholder[target=n](state=n)
    %x : f32[2] = placeholder[target=x]
    %add : f32[2] = call_function[target=aten.add.Tensor](args = (%n, %x), kwargs = {})
    return (add, add)
)");
  const std::string before = content(model);
  results_in_double(model, {at::ones({2})});
  EXPECT_EQ(content(model), before);
}

TEST(Oracle, RefusesToLookAtBits) {
  const Model model = parse_filled(R"(graph():
    %x : f32[2] = placeholder[target=x]
    %view : i32[2] = call_function[target=aten.view.dtype](args = (%x, torch.int32), kwargs = {})
    return (view,)
)");
  EXPECT_EQ(error_of([&] { results_in_double(model, {at::ones({2})}); }),
            "node 'view' looks at bits");
}

// An error of one part in a thousand is distinguished from rounding.
TEST(Oracle, ExpectSameResultsSeesASmallDifference) {
  const char* text = R"(
parameter w : f32[3, 4]
graph():
    %w : f32[3, 4] = placeholder[target=w](state=w)
    %x : f32[2, 4] = placeholder[target=x]
    %linear : f32[2, 3] = call_function[target=aten.linear.default](args = (%x, %w), kwargs = {})
    return (linear,)
)";
  const Model a = parse_filled(text), b = parse_filled(text);
  expect_same_results(a, b, random_inputs(a));
  at::Tensor(b.state().tensor(*b.state().begin())).mul_(1.001);
  EXPECT_NONFATAL_FAILURE(expect_same_results(a, b, random_inputs(a)), "error");
}

}  // namespace
}  // namespace refx::testing
