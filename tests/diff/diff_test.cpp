// SPDX-License-Identifier: Apache-2.0

#include "refx/diff.h"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "diff/align.h"
#include "ir/content.h"
#include "kit.h"
#include "refx/original.h"
#include "writer.h"
#include "zoo.h"

namespace refx::testing {
namespace {

constexpr const char* kModel = R"(parameter block.q.weight : f32[4, 4]
parameter block.k.weight : f32[4, 4]
buffer steps : i64[]
module act : torch.nn.GELU(approximate="none")
mutates steps = output 0
graph():
    %p_q : f32[4, 4] [num_users=1] = placeholder[target=p_q](state=block.q.weight)
    %p_k : f32[4, 4] [num_users=1] = placeholder[target=p_k](state=block.k.weight)
    %b_steps : i64[] [num_users=1] = placeholder[target=b_steps](state=steps)
    %x : f32[s0{2}, 4] [num_users=2] = placeholder[target=x]
    %add : i64[] [num_users=1] = call_function[target=aten.add.Tensor](args = (%b_steps, 1), kwargs = {})
    %q : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q), kwargs = {})  # meta {nn_module_stack: ",block,Block"}
    %k : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_k), kwargs = {})  # meta {nn_module_stack: ",block,Block"}
    %act : [num_users=1] = call_module[target=act](args = (%q,), kwargs = {})
    %mul : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%act, %k), kwargs = {})
    return (%add, %mul)
)";

std::string with(std::string_view from, std::string_view to, std::string text = kModel) {
  const auto at = text.find(from);
  if (at == text.npos) throw std::runtime_error("not in the text: " + std::string(from));
  return text.replace(at, from.size(), to);
}

std::string difference(std::string_view before, std::string_view after) {
  return to_text(diff(parse(before), parse(after)));
}

at::Tensor tensor(const Model& model, const std::string& name) {
  return at::Tensor(model.state().tensor(model.state().find(name)));
}

TEST(Diff, OfTheSameModelIsEmpty) {
  EXPECT_TRUE(diff(parse(kModel), parse(kModel)).empty());
  EXPECT_EQ(difference(kModel, kModel), "");
}

TEST(Diff, ShowsAChangedNodeAsTwoLinesUnderItsModule) {
  EXPECT_EQ(difference(kModel, with("aten.linear.default](args = (%x, %p_k)",
                                    "aten.linear.default](args = (%x, %p_k, None)")),
            R"(nodes: 1 changed
@@ block @@
- %k : f32[s0{2}, 4] = call_function[target=aten.linear.default](args = (%x, %p_k), kwargs = {})
+ %k : f32[s0{2}, 4] = call_function[target=aten.linear.default](args = (%x, %p_k, None), kwargs = {})
)");
}

TEST(Diff, OtherNodesDoNotChangeWithTheNumberOfTheirUsers) {
  std::string text =
      with("[num_users=2] = placeholder[target=x]", "[num_users=3] = placeholder[target=x]");
  text = with("    return",
              "    %relu : [num_users=0] = call_function[target=aten.relu.default](args = (%x,), "
              "kwargs = {})\n    return",
              text);
  EXPECT_EQ(difference(kModel, text), R"(nodes: 1 added
+ %relu : = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
)");
  EXPECT_EQ(difference(text, kModel), R"(nodes: 1 removed
- %relu : = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
)");
}

TEST(Diff, RemovedNodesComeWhereTheyStood) {
  const std::string after = R"(parameter block.q.weight : f32[4, 4]
parameter block.k.weight : f32[4, 4]
buffer steps : i64[]
module act : torch.nn.GELU(approximate="none")
mutates steps = output 0
graph():
    %p_q : f32[4, 4] [num_users=1] = placeholder[target=p_q](state=block.q.weight)
    %p_k : f32[4, 4] [num_users=1] = placeholder[target=p_k](state=block.k.weight)
    %b_steps : i64[] [num_users=1] = placeholder[target=b_steps](state=steps)
    %x : f32[s0{2}, 4] [num_users=2] = placeholder[target=x]
    %add : i64[] [num_users=1] = call_function[target=aten.add.Tensor](args = (%b_steps, 1), kwargs = {})
    %q : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q), kwargs = {})  # meta {nn_module_stack: ",block,Block"}
    %k : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_k), kwargs = {})  # meta {nn_module_stack: ",block,Block"}
    %relu : [num_users=1] = call_function[target=aten.relu.default](args = (%q,), kwargs = {})
    %mul : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%relu, %k), kwargs = {})
    return (%add, %mul)
)";
  EXPECT_EQ(difference(kModel, after), R"(nodes: 1 added, 1 removed, 1 changed
+ %relu : = call_function[target=aten.relu.default](args = (%q,), kwargs = {})
- %act : = call_module[target=act](args = (%q,), kwargs = {})
- %mul : f32[s0{2}, 4] = call_function[target=aten.mul.Tensor](args = (%act, %k), kwargs = {})
+ %mul : f32[s0{2}, 4] = call_function[target=aten.mul.Tensor](args = (%relu, %k), kwargs = {})
)");
}

TEST(Diff, ShowsTheMetadataThatDiffersAndIgnoresMarks) {
  const std::string marked =
      with("kwargs = {})\n    return", "kwargs = {})  # marks [\"merge-linears\"]\n    return");
  EXPECT_EQ(difference(kModel, marked), "");
  const std::string traced = with("kwargs = {})\n    return",
                                  "kwargs = {})  # meta {stack_trace: \"model.py:7\"}\n    return");
  EXPECT_EQ(difference(kModel, traced), R"(nodes: 1 changed
- %mul : f32[s0{2}, 4] = call_function[target=aten.mul.Tensor](args = (%act, %k), kwargs = {})
+ %mul : f32[s0{2}, 4] = call_function[target=aten.mul.Tensor](args = (%act, %k), kwargs = {})  # meta {stack_trace: "model.py:7"}
)");
}

TEST(Diff, FindsTheFewestMovedNodes) {
  std::string text = with("    %x : f32[s0{2}, 4] [num_users=2] = placeholder[target=x]\n", "");
  text = with("graph():\n",
              "graph():\n    %x : f32[s0{2}, 4] [num_users=2] = placeholder[target=x]\n", text);
  EXPECT_EQ(difference(kModel, text), R"(nodes: 1 moved
~ %x : f32[s0{2}, 4] = placeholder[target=x]  (moved)
)");
}

TEST(Diff, ShowsModulesMutationsAndTypes) {
  EXPECT_EQ(difference(kModel, with("\"none\"", "\"tanh\"")), R"(modules: 1 changed
- module act : torch.nn.GELU(approximate="none")
+ module act : torch.nn.GELU(approximate="tanh")
)");
  EXPECT_EQ(difference(kModel, with("output 0", "output 1")), R"(mutations: 1 changed
- mutates steps = output 0
+ mutates steps = output 1
)");
  EXPECT_EQ(difference(kModel, with("%add, %mul", "%mul, %add")), R"(nodes: 1 changed
- return (%add, %mul)
+ return (%mul, %add)
)");
}

TEST(Diff, ShowsTensorsThatCameWentOrAreOfAnotherKind) {
  EXPECT_EQ(difference("parameter a : f32[2]\nparameter b : f32[2]\nbuffer c : f32[2]\ngraph():\n  "
                       "  return None\n",
                       "parameter a : f32[3]\nbuffer c : f32[2] persistent=False\nconstant d : "
                       "i64[]\nparameter e : f32[3] shares=a\ngraph():\n    return None\n"),
            R"(tensors: 2 added, 1 removed, 2 changed
- parameter a : f32[2]
+ parameter a : f32[3]
- parameter b : f32[2]
- buffer c : f32[2]
+ buffer c : f32[2] persistent=False
+ constant d : i64[]
+ parameter e : f32[3] shares=a
)");
}

TEST(Diff, MeasuresValues) {
  const at::NoGradGuard no_grad;
  const Model a = parse(kModel), b = parse(kModel);
  tensor(b, "block.q.weight")[1][2] = -0.25;
  tensor(b, "block.q.weight")[3][3] = 0.125;
  tensor(b, "steps").fill_(7);
  const Difference difference = diff(a, b);
  EXPECT_EQ(to_text(difference), R"(tensors: 2 changed
~ parameter block.q.weight : f32[4, 4]  (2 of 16 values differ, by up to 0.25)
~ buffer steps : i64[]  (1 of 1 values differ, by up to 7)
)");
  ASSERT_EQ(difference.state.size(), 2u);
  EXPECT_EQ(difference.state[0].values->max_abs, 0.25);
}

TEST(Diff, ValuesAreComparedBitForBit) {
  const at::NoGradGuard no_grad;
  const Model a = parse(kModel), b = parse(kModel);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  tensor(a, "block.q.weight").fill_(nan);
  tensor(b, "block.q.weight").fill_(nan);
  EXPECT_TRUE(diff(a, b).empty());
  tensor(b, "block.q.weight")[0][0] = 1;
  tensor(b, "block.q.weight")[0][1] = 2;
  EXPECT_TRUE(std::isnan(diff(a, b).state.at(0).values->max_abs));
  tensor(b, "block.q.weight").fill_(nan);
  tensor(b, "block.k.weight")[0][0] = -0.0;
  EXPECT_EQ(diff(a, b).state.at(0).values->different, 1u);
  EXPECT_EQ(diff(a, b).state.at(0).values->max_abs, 0);
}

// Throws when it is read.
class Unreadable : public Content {
 public:
  void* data() const override { return const_cast<char*>(bytes_.data()); }
  std::size_t size() const override { return bytes_.size(); }

 protected:
  void provide() override { throw Error("read"); }

 private:
  std::vector<char> bytes_ = std::vector<char>(64);
};

TEST(Diff, ReadsNoTensorThatBothModelsShare) {
  at::Tensor weight = at::empty({0}, at::kFloat);
  weight.set_(storage_of(std::make_shared<Unreadable>()), 0, {4, 4}, {4, 1});
  auto model = [&](const at::Tensor& tensor) {
    Builder b;
    return b.build(b.parameter("w", tensor));
  };
  EXPECT_TRUE(diff(model(weight), model(weight)).empty());
  EXPECT_TRUE(diff(model(weight), model(weight.detach())).empty());
  EXPECT_EQ(error_of([&] { diff(model(weight), model(at::zeros({4, 4}))); }), "read");
}

TEST(Diff, OfARewrittenModelAgainstItsOriginal) {
  Writer w(Spelling::aten);
  const NodeId x = w.input({2, 4});
  const NodeId y = w.divide(w.linear(x, "fc", 4), 8);
  Model model = w.build(y);
  ChangeTrueDivToMulByInverse()(model);
  EXPECT_EQ(to_text(diff(original_of(model), model)), R"(nodes: 1 changed
- %div : f32[2, 4] = call_function[target=aten.div.Tensor](args = (%linear, 8), kwargs = {})
+ %div : f32[2, 4] = call_function[target=aten.mul.Tensor](args = (%linear, 0.125), kwargs = {})
)");
  reverse_all(model);
  EXPECT_TRUE(diff(original_of(model), model).empty());
}

TEST(Diff, IsEmptyExactlyWhereTheTextIsTheSame) {
  for (const Specimen& specimen : zoo()) {
    const Model copy = deep_copy(specimen.model);
    EXPECT_EQ(diff(specimen.model, copy).empty(), print(specimen.model) == print(copy))
        << specimen.name;
    for (const auto& transformation : registry()) {
      Model model = specimen.model;
      const bool changed = !(*transformation)(model).steps.empty();
      EXPECT_EQ(diff(specimen.model, model).empty(), !changed)
          << specimen.name << ", " << transformation->name();
    }
  }
}

using Places = std::vector<std::string>;

Places places(const std::vector<std::string_view>& before,
              const std::vector<std::string_view>& after) {
  Places result;
  for (const Aligned& pair : align(before, after))
    result.push_back((!pair.after    ? "-"
                      : !pair.before ? "+"
                      : pair.moved   ? "~"
                                     : "=") +
                     std::string(pair.after ? after[*pair.after] : before[*pair.before]));
  return result;
}

TEST(Align, KeepsTheOrderOfBothWhereItCan) {
  EXPECT_EQ(places({}, {}), Places{});
  EXPECT_EQ(places({"a", "b"}, {"a", "b"}), (Places{"=a", "=b"}));
  EXPECT_EQ(places({"a", "x", "b", "y"}, {"a", "b", "c"}), (Places{"=a", "-x", "=b", "+c", "-y"}));
  EXPECT_EQ(places({"a", "b", "c"}, {"c", "a", "b"}), (Places{"~c", "=a", "=b"}));
  EXPECT_EQ(places({"a", "b", "c", "d"}, {"d", "c", "b", "a"}).size(), 4u);
}

}  // namespace
}  // namespace refx::testing
