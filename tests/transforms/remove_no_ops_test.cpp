// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kit.h"

namespace refx::testing {
namespace {

const std::string kName = "remove-no-ops";

// relu(x), one more node on it, and a third that reads that.
std::string between(const std::string& node) {
  return fmt::format(R"(
module drop : torch.nn.Dropout(p=0.1)
graph():
    %x : f32[2, 3, 4] = placeholder[target=x]
    %a : f32[2, 3, 4] = call_function[target=aten.relu.default](args = (%x,))
    %y {}
    %z : f32[2, 3, 4] = call_function[target=aten.tanh.default](args = (%y,))
    return z
)",
                     node);
}

const std::string kGone = R"(graph():
    %x : f32[2, 3, 4] = placeholder[target=x]
    %a : f32[2, 3, 4] = call_function[target=aten.relu.default](args = (%x,))
    %z : f32[2, 3, 4] = call_function[target=aten.tanh.default](args = (%a,))  # marks ["remove-no-ops"]
    return z
)";
const std::string kGoneButModule = "module drop : torch.nn.Dropout(p=0.1)\n" + kGone;

TEST(RemoveNoOps, LetsReadersReadWhatWasHandedOn) {
  for (const char* node : {
           "= call_function[target=aten.dropout.default](args = (%a, 0.1, False))",
           ": f32[2, 3, 4] = call_function[target=aten.clone.default](args = (%a,))",
           ": f32[2, 3, 4] = call_function[target=aten.to.dtype](args = (%a, torch.float32))",
           ": f32[2, 3, 4] = call_function[target=aten.view.default](args = (%a, [2, 3, 4]))",
           ": f32[2, 3, 4] = call_function[target=aten.mul.Tensor](args = (%a, 1))",
           ": f32[2, 3, 4] = call_function[target=aten.contiguous.default](args = (%a,))",
           "= call_function[target=aten.slice.Tensor](args = (%a, 1, 0, 9223372036854775807))",
       })
    expect_rewritten(kName, between(node), kGoneButModule);
}

TEST(RemoveNoOps, DropsTheModuleThatNobodyCalls) {
  expect_rewritten(kName, between("= call_module[target=drop](args = (%a,))"), kGone);
}

TEST(RemoveNoOps, DropsBothTranspositions) {
  expect_rewritten(kName, R"(graph():
    %x : f32[2, 3, 4] = placeholder[target=x]
    %a : f32[2, 3, 4] = call_function[target=aten.relu.default](args = (%x,))
    %t = call_function[target=aten.transpose.int](args = (%a, 1, 2))
    %y = call_function[target=aten.transpose.int](args = (%t, 2, 1))
    %z : f32[2, 3, 4] = call_function[target=aten.tanh.default](args = (%y,))
    return z
)",
                   kGone);
}

TEST(RemoveNoOps, KeepsATranspositionThatIsRead) {
  expect_rewritten(kName, R"(graph():
    %x : f32[3, 4] = placeholder[target=x]
    %t = call_function[target=aten.t.default](args = (%x,))
    %y = call_function[target=aten.t.default](args = (%t,))
    %z = call_function[target=aten.mm.default](args = (%y, %t))
    return z
)",
                   R"(graph():
    %x : f32[3, 4] = placeholder[target=x]
    %t = call_function[target=aten.t.default](args = (%x,))
    %z = call_function[target=aten.mm.default](args = (%x, %t))  # marks ["remove-no-ops"]
    return z
)");
}

TEST(RemoveNoOps, ReturnsWhatWasCopied) {
  expect_rewritten(kName, R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.relu.default](args = (%x,))
    %y : f32[4] = call_function[target=aten.clone.default](args = (%a,))
    return y
)",
                   R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.relu.default](args = (%x,))  # marks ["remove-no-ops"]
    return a
)");
}

// As torch.export has it for torch.tensor(2.0).
TEST(RemoveNoOps, ReadsALiftedConstant) {
  expect_rewritten(kName, R"(
constant two : f32[]
graph():
    %c_two : f32[] = placeholder[target=c_two](state=two)
    %x : f32[4] = placeholder[target=x]
    %a : f32[] = call_function[target=aten.lift_fresh_copy.default](args = (%c_two,))
    %b : f32[] = call_function[target=aten.detach_.default](args = (%a,))
    %y : f32[4] = call_function[target=aten.mul.Tensor](args = (%x, %b))
    return y
)",
                   R"(
constant two : f32[]
graph():
    %c_two : f32[] = placeholder[target=c_two](state=two)
    %x : f32[4] = placeholder[target=x]
    %y : f32[4] = call_function[target=aten.mul.Tensor](args = (%x, %c_two))  # marks ["remove-no-ops"]
    return y
)");
}

TEST(RemoveNoOps, RemovesALongChain) {
  std::string text = "graph():\n    %x : f32[4] = placeholder[target=x]\n";
  std::string last = "x";
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("    %d{} = call_method[target=clone](args = (%{},))\n", i, last);
    text.replace(text.rfind("call_method[target=clone]"), 25,
                 "call_function[target=aten.alias.default]");
    last = fmt::format("d{}", i);
  }
  text += fmt::format("    %z = call_method[target=relu](args = (%{},))\n    return z\n", last);
  expect_rewritten(kName, text, R"(graph():
    %x : f32[4] = placeholder[target=x]
    %z = call_method[target=relu](args = (%x,))  # marks ["remove-no-ops"]
    return z
)");
}

// ---- refusals ----------------------------------------------------------------------------------

// x, a = relu(x), b = relu(a) and what follows.
std::string graph(const std::string& rest) {
  return "graph():\n    %x : f32[4] = placeholder[target=x]\n"
         "    %a : f32[4] = call_function[target=aten.relu.default](args = (%x,))\n" +
         rest;
}

TEST(RemoveNoOps, RefusesWhatIsWritten) {
  const std::string copy =
      "    %y : f32[4] = call_function[target=aten.clone.default](args = (%a,))\n";
  for (const char* value : {"y", "a"})
    expect_refused(kName,
                   graph(copy + fmt::format("    %w = call_function[target=aten.mul_.Tensor](args "
                                            "= (%{}, 2.0))\n    %z = call_function[target=aten.add."
                                            "Tensor](args = (%a, %y))\n    return z\n",
                                            value)),
                   "its memory may be written in place");
}

TEST(RemoveNoOps, RefusesToReturnAnInputOrOneTensorTwice) {
  auto copy_of = [](const char* value) {
    return fmt::format(
        "    %y : f32[4] = call_function[target=aten.clone.default](args = (%{},))\n", value);
  };
  expect_refused(kName, graph(copy_of("x") + "    return (y, a)\n"),
                 "the model would return its input itself");
  expect_refused(kName, graph(copy_of("a") + "    return (y, a)\n"),
                 "the model would return one tensor twice");
  const std::string view =
      "    %v : f32[2, 2] = call_function[target=aten.view.default](args = (%y, [2, 2]))\n";
  expect_refused(kName, graph(copy_of("x") + view + "    return (v,)\n"),
                 "share memory with an input");
  expect_refused(kName, graph(copy_of("a") + view + "    return (v, a)\n"),
                 "two results of the model would share memory");
  expect_refused(kName, R"(
buffer b : f32[4]
graph():
    %b = get_attr[target=b]
    %y = call_function[target=aten.alias.default](args = (%b,))
    return y
)",
                 "the model would return its stored tensor itself");
}

// Each of the two copies may go, but not both: v would share memory with x.
TEST(RemoveNoOps, KeepsOneCopyBetweenAnInputAndAResult) {
  Model model = parse_filled(R"(graph():
    %x : f32[4] = placeholder[target=x]
    %c : f32[4] = call_function[target=aten.clone.default](args = (%x,))
    %v : f32[2, 2] = call_function[target=aten.view.default](args = (%c, [2, 2]))
    %d : f32[2, 2] = call_function[target=aten.clone.default](args = (%v,))
    %y : f32[4] = call_function[target=aten.view.default](args = (%d, [4]))
    return y
)");
  find_transformation(kName)(model);
  at::Tensor x = at::ones({4});
  model.forward({x}).toTensor().fill_(7);
  EXPECT_TRUE(at::equal(x, at::ones({4})));
}

TEST(RemoveNoOps, RefusesOtherStrides) {
  expect_refused(kName, R"(graph():
    %x : f32[4, 4] = placeholder[target=x]
    %t : f32[4, 4] strides=(1, 4) = call_function[target=aten.t.default](args = (%x,))
    %c : f32[4, 4] = call_function[target=aten.contiguous.default](args = (%t,))
    %y : f32[16] = call_function[target=aten.view.default](args = (%c, [16]))
    return y
)",
                 "its strides may differ from its input's");
  expect_refused(kName, R"(graph():
    %x = placeholder[target=x]
    %c = call_method[target=contiguous](args = (%x,))
    %y = call_method[target=view](args = (%c, -1))
    return y
)",
                 "its strides may differ from its input's");
}

TEST(RemoveNoOps, RefusesTheBoundaryOfAModuleThatKeepsItsCalls) {
  Model model = parse_filled(
      R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.relu.default](args = (%x,))  # meta {nn_module_stack: "k,inner,T"}
    %y = call_function[target=aten.alias.default](args = (%a,))  # meta {nn_module_stack: "k,inner,T"}
    %z = call_function[target=aten.tanh.default](args = (%y,))
    return z
)");
  Editor editor(model);
  editor.commit_as_origin(nullptr, {}, {{"inner"}});
  expect_refused(
      kName, model,
      "the value crosses the boundary of 'inner', a module whose call must be preserved");
}

TEST(RemoveNoOps, LeavesTrainingAlone) {
  expect_no_match(kName, R"(
module drop : torch.nn.Dropout(p=0.1) training=True
graph():
    %x : f32[4] = placeholder[target=x]
    %y = call_module[target=drop](args = (%x,))
    %z = call_method[target=relu](args = (%y,))
    return z
)");
}

}  // namespace
}  // namespace refx::testing
