// SPDX-License-Identifier: Apache-2.0

// Inputs that the model does not take are refused before anything runs, on every way to run it.

#include "exec/same.h"
#include "io/fake_source.h"

namespace refx::testing {
namespace {

Model two_inputs() {
  FakeSource source;
  source.symbols["s0"] = {2, 16};
  return from_source(R"(graph():
    %x : f32[s0, 32] [num_users=1] = placeholder[target=x]
    %y : f32[s0, 32] [num_users=1] = placeholder[target=y]
    %add : [num_users=1] = call_function[target=aten.add.Tensor](args = (%x, %y), kwargs = {})
    return add)",
                     std::move(source));
}

std::string refusal(const at::Tensor& x, const at::Tensor& y) {
  Model model = two_inputs();
  const std::string by_forward = error_of([&] { model.forward({x, y}); });
  Executor executor(model);
  EXPECT_EQ(error_of([&] { executor.run({x, y}); }), by_forward);
  return by_forward;
}

TEST(InputChecks, NameTheDimensionAndItsBound) {
  const at::Tensor x = at::ones({4, 32});
  EXPECT_EQ(refusal(x, x), "no error");
  EXPECT_EQ(refusal(at::ones({17, 32}), at::ones({17, 32})),
            "input 'x', dimension 0 is 17, at most 16: it should be f32[s0, 32], not f32[17, 32]");
  EXPECT_EQ(refusal(at::ones({1, 32}), at::ones({1, 32})),
            "input 'x', dimension 0 is 1, at least 2: it should be f32[s0, 32], not f32[1, 32]");
  EXPECT_EQ(refusal(x, at::ones({4, 31})),
            "input 'y', dimension 1 is 31, not 32: it should be f32[s0, 32], not f32[4, 31]");
  EXPECT_EQ(refusal(x, at::ones({32})), "input 'y' should be f32[s0, 32], not f32[32]");
  EXPECT_EQ(refusal(x, x.to(at::kDouble)), "input 'y' should be f32[s0, 32], not f64[4, 32]");
}

TEST(InputChecks, CompareDimensionsOfOneSymbol) {
  EXPECT_EQ(refusal(at::ones({4, 32}), at::ones({5, 32})),
            "input 'y', dimension 0 is 5, not 4: it has to be equal to input 'x', dimension 0");
}

TEST(InputChecks, ComputeExpressions) {
  Model model = from_source(R"(graph():
    %x : f32[s0] [num_users=1] = placeholder[target=x]
    %y : f32[2*s0 + 1] [num_users=1] = placeholder[target=y]
    %cat : [num_users=1] = call_function[target=aten.cat.default](args = ([%x, %y],), kwargs = {})
    return cat)",
                            {});
  EXPECT_EQ(model.forward({at::ones({3}), at::ones({7})}).toTensor().size(0), 10);
  EXPECT_EQ(error_of([&] {
              model.forward({at::ones({3}), at::ones({6})});
            }),
            "input 'y', dimension 0 is 6, not 7: it has to be 2*s0 + 1");
}

TEST(InputChecks, WantTensors) {
  Model model = two_inputs();
  EXPECT_EQ(error_of([&] {
              model.forward({at::ones({4, 32}), 3});
            }),
            "input 'y' should be a tensor, f32[s0, 32], not an int");
  EXPECT_EQ(error_of([&] {
              model.forward({at::ones({4, 32}), at::Tensor()});
            }),
            "input 'y' should be a tensor, f32[s0, 32], not an undefined one");
}

}  // namespace
}  // namespace refx::testing
