// SPDX-License-Identifier: Apache-2.0

#include "book/call.h"

#include <ATen/Functions.h>

#include "book/facts.h"
#include "kit.h"

namespace refx::testing {
namespace {

using book::Call;
using Spelled = Call::Spelled;

// A model of one call, whose node is `call`; %x, %w, %b and %m are values that it can be given.
Model calling(const std::string& call, const std::string& more = "") {
  return parse("parameter w : f32[4, 4]\nparameter b : f32[4]\nbuffer m : f32[4]\n" + more +
               "graph():\n"
               "    %w : f32[4, 4] = placeholder[target=w](state=w)\n"
               "    %b : f32[4] = placeholder[target=b](state=b)\n"
               "    %m : f32[4] = placeholder[target=m](state=m)\n"
               "    %x : f32[2, 4] = placeholder[target=x]\n"
               "    %call : = " +
               call +
               "\n"
               "    return call\n");
}

// An argument as text: %x, 1e-05, None; "-" if there is none.
std::string shown(const Model& model, const Call& call, const char* name) {
  const auto arg = call.argument(name);
  return arg ? print(*arg, model.graph()) : "-";
}

struct Spelling {
  Spelled spelled;
  std::string call;
  std::string more = "";
};

void expect_same_call(const std::vector<Spelling>& spellings, const std::string& name,
                      const std::vector<std::pair<const char*, std::string>>& arguments) {
  for (const Spelling& s : spellings) {
    const Model model = calling(s.call, s.more);
    const Call call(model, model.graph()[model.graph().find("call")]);
    EXPECT_EQ(call.spelled(), s.spelled) << s.call;
    EXPECT_EQ(call.name(), name) << s.call;
    for (const auto& [argument, value] : arguments)
      EXPECT_EQ(shown(model, call, argument), value) << s.call << ": " << argument;
  }
}

TEST(BookCall, LinearInEverySpelling) {
  expect_same_call(
      {{Spelled::op, "call_function[target=aten.linear.default](args = (%x, %w, %b))"},
       {Spelled::op, "call_function[target=torch.ops.aten.linear.default](args = (%x, %w, %b))"},
       {Spelled::function, "call_function[target=torch.nn.functional.linear](args = (%x, %w, %b))"},
       {Spelled::function,
        "call_function[target=torch._C._nn.linear](args = (%x,), kwargs = "
        "{bias: %b, weight: %w})"}},
      "linear", {{"input", "%x"}, {"weight", "%w"}, {"bias", "%b"}});
}

TEST(BookCall, AMissingBiasIsNone) {
  expect_same_call(
      {{Spelled::op, "call_function[target=aten.linear.default](args = (%x, %w))"},
       {Spelled::function, "call_function[target=torch.nn.functional.linear](args = (%x, %w))"}},
      "linear", {{"bias", "None"}});
}

TEST(BookCall, BatchNormWhoseArgumentsComeInAnotherOrder) {
  expect_same_call({{Spelled::op,
                     "call_function[target=aten.batch_norm.default](args = (%x, None, %b, %m, %m, "
                     "False, 0.1, 1e-05, True))"},
                    {Spelled::function,
                     "call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, "
                     "%m, None, %b))"},
                    {Spelled::function,
                     "call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, "
                     "%m), kwargs = {bias: %b, eps: 1e-05})"}},
                   "batch_norm",
                   {{"input", "%x"},
                    {"weight", "None"},
                    {"bias", "%b"},
                    {"running_mean", "%m"},
                    {"training", "False"},
                    {"momentum", "0.1"},
                    {"eps", "1e-05"}});
}

TEST(BookCall, DivisionInEverySpelling) {
  expect_same_call(
      {{Spelled::op, "call_function[target=aten.div.Tensor](args = (%x, 2.0))"},
       {Spelled::op, "call_function[target=aten.true_divide.Scalar](args = (%x, 2.0))"},
       {Spelled::function, "call_function[target=torch.div](args = (%x, 2.0))"},
       {Spelled::function,
        "call_function[target=torch.divide](args = (), kwargs = "
        "{input: %x, other: 2.0})"},
       {Spelled::function, "call_function[target=operator.truediv](args = (%x, 2.0))"},
       {Spelled::method, "call_method[target=true_divide](args = (%x, 2.0))"},
       {Spelled::method, "call_method[target=__truediv__](args = (%x, 2.0))"}},
      "div", {{"self", "%x"}, {"other", "2.0"}});
}

TEST(BookCall, DefaultsAreThoseOfTheSpelling) {
  expect_same_call({{Spelled::method, "call_method[target=flatten](args = (%x,))"}}, "flatten",
                   {{"start_dim", "0"}, {"end_dim", "-1"}});
  expect_same_call({{Spelled::module, "call_module[target=flat](args = (%x,))",
                     "module flat : torch.nn.Flatten()\n"}},
                   "flatten", {{"start_dim", "1"}, {"end_dim", "-1"}});
}

TEST(BookCall, ALayerHasItsTensorsAndHyperParameters) {
  const Model model = calling("call_module[target=bn](args = (%x,))",
                              "parameter bn.weight : f32[4]\nbuffer bn.running_mean : f32[4]\n"
                              "module bn : torch.nn.BatchNorm1d(num_features=4, eps=0.5)\n");
  const Call call(model, model.graph()[model.graph().find("call")]);
  EXPECT_EQ(call.name(), "batch_norm");
  EXPECT_EQ(call.tensor("weight"), model.state().find("bn.weight"));
  EXPECT_EQ(call.tensor("running_mean"), model.state().find("bn.running_mean"));
  EXPECT_FALSE(call.tensor("bias"));
  EXPECT_EQ(shown(model, call, "eps"), "0.5");
  EXPECT_EQ(shown(model, call, "momentum"), "0.1");
  EXPECT_EQ(shown(model, call, "training"), "False");
  EXPECT_EQ(shown(model, call, "weight"), "-");
}

TEST(BookCall, OperatorsThatAtenLacks) {
  for (const char* call : {"call_function[target=mylib.linear.default](args = (%x, %w))",
                           "call_function[target=my.linear](args = (%x, %w))",
                           "call_function[target=operator.div](args = (%x, 2))"}) {
    const Model model = calling(call);
    EXPECT_EQ(Call(model, model.graph()[model.graph().find("call")]).spelled(), Spelled::nothing)
        << call;
  }
}

TEST(BookFacts, HoldForInPlaceTwinsToo) {
  EXPECT_TRUE(book::has("relu_", book::kKeepsRank));
  EXPECT_TRUE(book::has("floor_", book::kJumps));
  EXPECT_FALSE(book::has("matmul", book::kKeepsRank));
}

TEST(BookEffect, OfNormsThatWriteWithoutSayingSo) {
  auto writes = [](const std::string& call) {
    const Model model = calling(call);
    return book::effect_of(model, model.graph()[model.graph().find("call")]).writes_all;
  };
  const std::string norm = "call_function[target=aten.batch_norm.default](args = (%x, None, %b, ";
  EXPECT_FALSE(writes(norm + "%m, %m, False, 0.1, 1e-05, True))"));
  EXPECT_TRUE(writes(norm + "%m, %m, True, 0.1, 1e-05, True))"));
  EXPECT_FALSE(writes(norm + "None, None, True, 0.1, 1e-05, True))"));
  const std::string instance =
      "call_function[target=aten.instance_norm.default](args = (%x, None, None, ";
  EXPECT_TRUE(writes(instance + "%m, %m, True, 0.1, 1e-05, True))"));
  EXPECT_FALSE(writes(instance + "%m, %m, False, 0.1, 1e-05, True))"));
}

}  // namespace
}  // namespace refx::testing
