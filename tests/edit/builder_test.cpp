// SPDX-License-Identifier: Apache-2.0

#include "refx/builder.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "kit.h"
#include "refx/validate.h"

namespace refx::testing {
namespace {

at::Tensor zeros(std::vector<std::int64_t> sizes) { return at::zeros(sizes); }

TEST(Builder, WritesTheAtenDialectWithLiftedTensorsFirst) {
  Builder b;
  const NodeId x = b.input("x", type_of(zeros({2, 4})));
  const NodeId w = b.parameter("q.weight", zeros({8, 4}));
  const NodeId s = b.buffer("scale", zeros({8}), false);
  const NodeId c = b.constant("one", zeros({}));
  const NodeId q = b.call("aten.linear.default", {x, w});
  const NodeId y = b.call("aten.mul.Tensor", {q, s});
  const NodeId z = b.call("aten.add.Tensor", {y, c}, {{"alpha", 2}});
  EXPECT_EQ(print(b.build(Tuple{{z, q}})), R"(parameter q.weight : f32[8, 4]
buffer scale : f32[8] persistent=False
constant one : f32[]
graph():
    %p_q_weight : f32[8, 4] [num_users=1] = placeholder[target=p_q_weight](state=q.weight)
    %b_scale : f32[8] [num_users=1] = placeholder[target=b_scale](state=scale)
    %c_one : f32[] [num_users=1] = placeholder[target=c_one](state=one)
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %linear : [num_users=2] = call_function[target=aten.linear.default](args = (%x, %p_q_weight), kwargs = {})
    %mul : [num_users=1] = call_function[target=aten.mul.Tensor](args = (%linear, %b_scale), kwargs = {})
    %add : [num_users=1] = call_function[target=aten.add.Tensor](args = (%mul, %c_one), kwargs = {alpha: 2})
    return (add, linear)
)");
}

TEST(Builder, WritesTheModuleDialect) {
  Builder b;
  const NodeId x = b.input("x");
  b.module({.name = "fc",
            .type = "torch.nn.Linear",
            .parameters = {{"in_features", 4}, {"out_features", 2}, {"bias", false}},
            .training = true,
            .custom = {}});
  b.state({"fc.weight", StateKind::parameter, true, zeros({2, 4})});
  b.state({"shift", StateKind::buffer, true, zeros({2})});
  const NodeId y = b.call_module("fc", {x});
  const NodeId z = b.method("add", {y, b.get_attr("shift")});
  EXPECT_EQ(print(b.build(z)), R"(parameter fc.weight : f32[2, 4]
buffer shift : f32[2]
module fc : torch.nn.Linear(in_features=4, out_features=2, bias=False) training=True
graph():
    %x : [num_users=1] = placeholder[target=x]
    %fc : [num_users=1] = call_module[target=fc](args = (%x,), kwargs = {})
    %shift : f32[2] [num_users=1] = get_attr[target=shift]
    %add : [num_users=1] = call_method[target=add](args = (%fc, %shift), kwargs = {})
    return add
)");
}

TEST(Builder, NumbersRepeatedNames) {
  Builder b;
  NodeId x = b.input("relu");
  for (int i = 0; i < 3; ++i) x = b.call("aten.relu.default", {x});
  const Model model = b.build(x);
  std::vector<std::string> names;
  for (NodeId id : model.graph()) names.push_back(model.graph()[id].name);
  EXPECT_EQ(names, (std::vector<std::string>{"relu", "relu_1", "relu_2", "relu_3", "output"}));
}

TEST(Builder, TypesAndMetadataGoToTheNodeJustMade) {
  Builder b;
  const NodeId x = b.input("x");
  const NodeId y = b.call("aten.relu.default", {x});
  b.typed(type_of(zeros({3})))
      .with_meta(std::make_shared<const Meta>(Meta{{"stack_trace", "a.py:1"}}));
  const Model model = b.build(y);
  EXPECT_FALSE(model.graph()[x].type);
  EXPECT_EQ(print(*model.graph()[y].type), "f32[3]");
  EXPECT_EQ(model.graph()[y].meta->at(0).second, "a.py:1");
}

TEST(Builder, AModelStartsWithoutHistory) {
  Builder b;
  Model model = b.build(b.input("x"));
  EXPECT_TRUE(model.history().empty());
  EXPECT_FALSE(redo(model));
  EXPECT_TRUE(problems(model).empty());
}

TEST(Builder, KeepsMutationsAndRunsThem) {
  Builder b;
  const at::Tensor counter = zeros({1});
  const NodeId count = b.buffer("count", counter);
  const NodeId x = b.input("x");
  const NodeId next = b.call("aten.add.Tensor", {count, x});
  const NodeId twice = b.call("aten.mul.Tensor", {x, 2});
  Model model = b.build(Tuple{{next, twice}}, {{0, "count"}});
  ASSERT_EQ(model.mutations().size(), 1u);
  const auto outputs = tensors_in(model.forward({at::ones({1})}));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].item<float>(), 2);
  EXPECT_EQ(counter.item<float>(), 0);  // state belongs to the runs
  Executor executor(model);
  for (int i = 0; i < 2; ++i) executor.run({at::ones({1})});
  ASSERT_EQ(executor.state().size(), 1u);
  EXPECT_EQ(executor.state()[0].second.item<float>(), 2);
}

TEST(Builder, SaysWhatIsWrong) {
  Builder b;
  b.input("x");
  EXPECT_EQ(error_of([&] { b.input("x"); }), "input name 'x' is taken");
  EXPECT_EQ(error_of([&] { b.get_attr("scale"); }), "get_attr: there is no state entry 'scale'");
  EXPECT_EQ(error_of([&] { b.call_module("fc", {}); }), "there is no module 'fc'");
  EXPECT_NE(error_of([&] { b.call("aten.relu.default", {NodeId(77)}); }).find("node id 77"),
            std::string::npos);
  b.parameter("w", zeros({1}));
  EXPECT_NE(error_of([&] { b.parameter("w", zeros({1})); }).find("'w'"), std::string::npos);
}

}  // namespace
}  // namespace refx::testing
