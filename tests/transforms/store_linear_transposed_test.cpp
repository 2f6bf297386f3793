// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/equal.h>

#include "refx/builder.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "store-linear-transposed";

const std::string kLinear = R"(
parameter fc.weight : f32[6, 4]
parameter fc.bias : f32[6]
graph():
    %p_fc_weight : f32[6, 4] = placeholder[target=p_fc_weight](state=fc.weight)
    %p_fc_bias : f32[6] = placeholder[target=p_fc_bias](state=fc.bias)
    %x : f32[3, 4] = placeholder[target=x]
    %linear : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias))
    return linear
)";

at::Tensor weight_of(const Model& model) {
  return at::Tensor(model.state().tensor(model.state().find("fc.weight")));
}

TEST(StoreLinearTransposed, ChangesTheLayoutOfTheWeightAlone) {
  Model model = parse_filled(kLinear);
  const at::Tensor before = weight_of(model);
  expect_applies(kName, model);
  find_transformation(kName)(model);
  EXPECT_EQ(weight_of(model).strides(), at::IntArrayRef({1, 6}));
  EXPECT_TRUE(at::equal(weight_of(model), before));
  EXPECT_EQ(model.history().size(), 1U);
  reverse_all(model);
  EXPECT_TRUE(weight_of(model).is_same(before));
}

TEST(StoreLinearTransposed, FindsNothingWhereItWouldGainNothing) {
  Model model = parse_filled(kLinear);
  find_transformation(kName)(model);
  EXPECT_TRUE(find_sites(model, find_transformation(kName)).sites.empty());
  for (const char* type : {"bf16", "f64"}) {
    std::string text = kLinear;
    for (std::size_t at = 0; (at = text.find("f32", at)) != text.npos;) text.replace(at, 3, type);
    expect_no_match(find_transformation(kName), text);
  }
}

TEST(StoreLinearTransposed, TakesMergedLinears) {
  Builder b;
  const NodeId x = b.input("x", std::make_shared<TensorType>(*type_of(at::rand({3, 4}))));
  Args results;
  for (const char* name : {"q", "k"})
    results.emplace_back(b.call("aten.linear.default",
                                {x, b.parameter(std::string(name) + ".weight", at::rand({6, 4}))}));
  Model model = b.build(Arg(Tuple{results}));
  const std::string before = snapshot(model);
  find_transformation("merge-linears")(model);
  find_transformation(kName)(model);
  ASSERT_EQ(model.history().size(), 2U);
  EXPECT_EQ(model.history().back().site, Name("{q,k}"));
  reverse(model, model.history().ids()[0]);  // the layout goes to each of the two again
  EXPECT_EQ(model.history().size(), 2U);
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

TEST(StoreLinearTransposed, CarriesTrainedValuesBack) {
  Model model = parse_filled(kLinear);
  const auto strides = weight_of(model).strides().vec();
  find_transformation(kName)(model);
  weight_of(model).add_(1);
  const at::Tensor trained = weight_of(model).clone();
  reverse_all(model);
  EXPECT_TRUE(at::equal(weight_of(model), trained));
  EXPECT_EQ(weight_of(model).strides(), at::IntArrayRef(strides));
}

TEST(StoreLinearTransposed, RefusesASharedWeight) {
  Builder b;
  const NodeId x = b.input("x", std::make_shared<TensorType>(*type_of(at::rand({3, 4}))));
  const NodeId weight = b.parameter("fc.weight", at::rand({4, 4}));
  const NodeId first = b.call("aten.linear.default", {x, weight});
  const Model model = b.build(b.call("aten.linear.default", {first, weight}));
  expect_refused(kName, model, "used");
}

TEST(StoreLinearTransposed, IsNotInAll) {
  for (const auto& transformation : find_transformations({"all"}))
    EXPECT_NE(transformation->name(), kName);
}

}  // namespace
}  // namespace refx::testing
