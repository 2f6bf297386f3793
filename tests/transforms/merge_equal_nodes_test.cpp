// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "kit.h"

namespace refx::testing {
namespace {

const std::string kName = "merge-equal-nodes";

// One call twice, and their sum.
std::string twice(const std::string& call, const std::string& declared = "") {
  return fmt::format(R"({}graph():
    %x : f32[4] = placeholder[target=x]
    %l : i64[4] = placeholder[target=l]
    %a = {}
    %b = {}
    %z = call_function[target=aten.add.Tensor](args = (%a, %b))
    return z
)",
                     declared, call, call);
}

TEST(MergeEqualNodes, ReadsTheFirst) {
  expect_rewritten(kName, twice("call_function[target=aten.pow.Tensor_Scalar](args = (%x, 2))"),
                   R"(graph():
    %x : f32[4] = placeholder[target=x]
    %l : i64[4] = placeholder[target=l]
    %a = call_function[target=aten.pow.Tensor_Scalar](args = (%x, 2))  # marks ["merge-equal-nodes"]
    %z = call_function[target=aten.add.Tensor](args = (%a, %a))
    return z
)");
}

TEST(MergeEqualNodes, MergesWhatIsComputedOfEqualValues) {
  const Model model = expect_rewritten(kName, R"(
buffer w : f32[4]
graph():
    %x : f32[4] = placeholder[target=x]
    %w = get_attr[target=w]
    %a = call_function[target=operator.mul](args = (%x, %w))
    %b = call_method[target=relu](args = (%a,))
    %w_1 = get_attr[target=w]
    %c = call_function[target=operator.mul](args = (%x, %w_1))
    %d = call_method[target=relu](args = (%c,))
    %e = call_method[target=relu](args = (%a,))
    %y = call_function[target=torch.stack](args = ([%b, %d, %e],))
    return y
)",
                                       R"(
buffer w : f32[4]
graph():
    %x : f32[4] = placeholder[target=x]
    %w = get_attr[target=w]
    %a = call_function[target=operator.mul](args = (%x, %w))  # marks ["merge-equal-nodes"]
    %b = call_method[target=relu](args = (%a,))  # marks ["merge-equal-nodes"]
    %y = call_function[target=torch.stack](args = ([%b, %b, %b],))
    return y
)");
  EXPECT_EQ(model.history().begin()->site, "{a,c}");
}

TEST(MergeEqualNodes, MergesModules) {
  for (const char* declared : {"module m : torch.nn.Tanh()\n", "module m : torch.nn.Dropout()\n",
                               "module m : torch.nn.Tanh() training=True\n"}) {
    Model model = parse_filled(twice("call_module[target=m](args = (%x,))", declared));
    expect_applies(kName, model);
  }
}

TEST(MergeEqualNodes, TellsArgumentsApart) {
  auto two = [](const char* a, const char* b) {
    return fmt::format(R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a = {}
    %b = {}
    %z = call_function[target=aten.add.Tensor](args = (%a, %b))
    return z
)",
                       a, b);
  };
  expect_no_match(kName, two("call_function[target=aten.pow.Tensor_Scalar](args = (%x, 2))",
                             "call_function[target=aten.pow.Tensor_Scalar](args = (%x, 2.0))"));
  expect_no_match(kName, two("call_function[target=aten.add.Tensor](args = (%x, 0.0))",
                             "call_function[target=aten.add.Tensor](args = (%x, -0.0))"));
  expect_no_match(kName, two("call_function[target=aten.add.Tensor](args = (%x, 1))",
                             "call_function[target=aten.sub.Tensor](args = (%x, 1))"));
  expect_no_match(
      kName, two("call_function[target=aten.add.Tensor](args = (%x, 1))",
                 "call_function[target=aten.add.Tensor](args = (%x, 1), kwargs = {alpha: 2})"));
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(MergeEqualNodes, RefusesOperatorsThatAreNotPure) {
  const struct {
    const char *call, *declared, *reason;
  } cases[] = {
      {"call_function[target=aten.rand_like.default](args = (%x,))", "", "random numbers"},
      {"call_function[target=torch.rand](args = (4,))", "", "random numbers"},
      {"call_method[target=bernoulli](args = (%x,))", "", "random numbers"},
      {"call_function[target=aten.dropout.default](args = (%x, 0.5, True))", "", "random numbers"},
      {"call_function[target=torch.nn.functional.dropout](args = (%x,))", "", "random numbers"},
      {"call_module[target=m](args = (%x,))", "module m : torch.nn.Dropout() training=True\n",
       "random numbers"},
      {"call_module[target=m](args = (%x,))", "module m : torch.nn.Tanh() custom=\"has a hook\"\n",
       "does not know"},
      {"call_module[target=m](args = (%x,))", "module m : mine.Layer()\n", "does not know"},
      {"call_function[target=aten.empty_like.default](args = (%x,))", "", "uninitialized memory"},
      {"call_function[target=mylib.f.default](args = (%x,))", "", "does not know"},
      {"call_function[target=aten.relu_.default](args = (%x,))", "", "may write"},
  };
  for (const auto& [call, declared, reason] : cases) {
    const Findings findings = find_transformation(kName).find(parse_filled(twice(call, declared)));
    EXPECT_TRUE(findings.sites.empty()) << call;
    ASSERT_FALSE(findings.refusals.empty()) << call;
    const std::string text = to_string(findings.refusals[0].reason);
    EXPECT_NE(text.find(reason), std::string::npos) << call << ": " << text;
  }
}

TEST(MergeEqualNodes, RefusesWrites) {
  for (const char* written : {"x", "a", "b"})
    expect_refused(kName,
                   fmt::format(R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.relu.default](args = (%x,))
    %w1 = call_function[target=aten.mul_.Tensor](args = (%{}, 2.0))
    %b = call_function[target=aten.relu.default](args = (%x,))
    %w2 = call_function[target=aten.mul_.Tensor](args = (%{}, 3.0))
    %z = call_function[target=aten.add.Tensor](args = (%a, %b))
    return z
)",
                               std::string(written) == "b" ? "x" : written, written),
                   "may be written in place");
}

// What is computed of the two differs once one of them was written.
TEST(MergeEqualNodes, RefusesWhatIsComputedOfAWrittenValue) {
  expect_refused(kName, R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.mul.Tensor](args = (%x, 1.5))
    %b = call_function[target=aten.mul.Tensor](args = (%x, 1.5))
    %w = call_function[target=aten.tanh_.default](args = (%a,))
    %c = call_function[target=aten.exp.default](args = (%a,))
    %d = call_function[target=aten.exp.default](args = (%b,))
    %z = call_function[target=aten.add.Tensor](args = (%c, %d))
    return z
)",
                 "may be written in place");
}

TEST(MergeEqualNodes, RefusesToReturnOneTensorTwice) {
  const std::string text = R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.relu.default](args = (%x,))
    %b = call_function[target=aten.relu.default](args = (%x,))
)";
  expect_refused(kName, text + "    return (a, b)\n", "return one tensor twice");
  expect_refused(kName,
                 text + R"(    %c = call_function[target=aten.view.default](args = (%b, [2, 2]))
    return (a, c)
)",
                 "share memory");
}

// Nobody knows what the function between them does to the mode that torch is in.
TEST(MergeEqualNodes, LeavesWhatAnUnknownFunctionStandsBetween) {
  expect_no_match(kName, R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.relu.default](args = (%x,))
    %g = call_function[target=torch._C._set_grad_enabled](args = (False,))
    %b = call_function[target=aten.relu.default](args = (%x,))
    %z = call_function[target=aten.add.Tensor](args = (%a, %b))
    return z
)");
}

}  // namespace
}  // namespace refx::testing
