// SPDX-License-Identifier: Apache-2.0

#include "refx/original.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "kit.h"
#include "writer.h"

namespace refx::testing {
namespace {

Model two_linears() {
  Writer w(Spelling::aten);
  const NodeId x = w.input({2, 4});
  const NodeId q = w.linear(x, "q", 4);
  const NodeId k = w.linear(x, "k", 4);
  return w.build(w.divide(w.call("add", {q, k}, "Tensor"), 8));
}

TEST(Original, IsTheModelBeforeItsFirstStep) {
  Model model = two_linears();
  const std::string before = snapshot(model);
  compose(MergeLinears(), FuseBiasInLinear(), ChangeTrueDivToMulByInverse())(model);
  const std::string now = snapshot(model);

  const Model original = original_of(model);
  EXPECT_EQ(snapshot(original), before);
  EXPECT_TRUE(original.history().empty());
  EXPECT_EQ(snapshot(model), now) << "the model stays as it is";
  EXPECT_EQ(model.history().size(), 3u);
}

TEST(Original, OfAModelWithoutStepsIsItself) {
  const Model model = two_linears();
  EXPECT_EQ(snapshot(original_of(model)), snapshot(model));
}

TEST(Original, LeavesOutWhatWasTrainedSince) {
  Model model = two_linears();
  const std::string before = snapshot(model);
  MergeLinears()(model);
  const at::NoGradGuard no_grad;
  for (const TensorStamp& stamp : model.history().back().stamps)
    at::Tensor(model.state().tensor(stamp.state)).add_(1);
  EXPECT_EQ(snapshot(original_of(model)), before);
}

}  // namespace
}  // namespace refx::testing
