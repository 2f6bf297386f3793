// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/ones.h>

#include "kit.h"

namespace refx::testing {
namespace {

constexpr const char* kText = R"(parameter w : f32[3, 4]
graph():
    %p_w : f32[3, 4] = placeholder[target=p_w](state=w)
    %x : f32[2, 4] = placeholder[target=x]
    %y : f32[2, 3] = call_function[target=aten.linear.default](args = (%x, %p_w), kwargs = {})
    %z : f32[2, 3] = call_function[target=aten.relu.default](args = (%y,), kwargs = {})
    return z
)";

struct Fixture {
  Model model = parse_filled(kText);
  std::string before = snapshot(model);
  NodeId node(const char* name) const { return model.graph().find(name); }
  void expect_unchanged() const { EXPECT_EQ(snapshot(model), before); }
};

TEST(Editor, TakesEverythingBackWithoutCommit) {
  Fixture f;
  {
    Editor editor(f.model);
    const NodeId n =
        editor.insert_after(f.node("y"), {.target = "aten.tanh.default", .args = {f.node("y")}});
    editor.set_arg(f.node("z"), 0, n);
    editor.set_state(f.model.state().find("w"), at::ones({3, 4}));
    editor.add_state({"extra", StateKind::buffer, true, at::ones({1})});
    editor.add_module({.name = "m", .type = "torch.nn.ReLU", .parameters = {}, .custom = ""});
    EXPECT_NE(snapshot(f.model), f.before);
  }
  f.expect_unchanged();
  EXPECT_FALSE(f.model.state().name_taken("extra"));
  EXPECT_FALSE(f.model.graph().name_taken("tanh"));
}

TEST(Editor, SetsKeywordArguments) {
  Fixture f;
  {
    Editor editor(f.model);
    editor.set_kwarg(f.node("z"), "scale", f.node("y"));
    editor.set_kwarg(f.node("z"), "mode", "fast");
    EXPECT_EQ(f.model.graph().num_uses(f.node("y")), 2u);
    editor.set_kwarg(f.node("z"), "scale", 2);
    EXPECT_EQ(f.model.graph().num_uses(f.node("y")), 1u);
    EXPECT_EQ(f.model.graph()[f.node("z")].kwargs, (Kwargs{{"scale", 2}, {"mode", "fast"}}));
    EXPECT_NE(error_of([&] { editor.set_kwarg(f.node("z"), "scale", NodeId(99)); }), "no error");
  }
  f.expect_unchanged();
}

TEST(Editor, NamesTheUsersOfANodeThatCannotBeErased) {
  Fixture f;
  EXPECT_EQ(error_of([&] { Editor(f.model).erase_node(f.node("y")); }),
            "erase: node 'y' still has users: 'z'");
  f.expect_unchanged();
}

TEST(Editor, NamesTheReadersOfAStateEntryThatCannotBeErased) {
  Fixture f;
  EXPECT_EQ(error_of([&] { Editor(f.model).erase_state(f.model.state().find("w")); }),
            "erase: state entry 'w' is still read by 'p_w'");
  f.expect_unchanged();
}

TEST(Editor, RefusesANodeOfAnotherModel) {
  Fixture f;
  EXPECT_EQ(
      error_of([&] { Editor(f.model).set_arg(f.node("z"), 0, NodeId(99)); }),
      "node 'z' (aten.relu.default) refers to node id 99, which is not a live node of this model");
  EXPECT_EQ(error_of([&] { Editor(f.model).erase_node(NodeId(99)); }),
            "this model has no live node with id 99");
  f.expect_unchanged();
}

TEST(Editor, RefusesANameThatIsTaken) {
  Fixture f;
  EXPECT_EQ(error_of([&] {
              Editor(f.model).add_state({"w", StateKind::buffer, true, at::ones({1})});
            }),
            "the name 'w' is taken");
  f.expect_unchanged();
}

TEST(Editor, RefusesAStateEntryWithoutATensor) {
  Fixture f;
  EXPECT_EQ(error_of([&] {
              Editor(f.model).add_state({"v", StateKind::buffer, true, {}});
            }),
            "state entry 'v' has no tensor");
  f.expect_unchanged();
}

TEST(Editor, RefusesAnArgumentThatIsNotThere) {
  Fixture f;
  EXPECT_EQ(error_of([&] { Editor(f.model).set_arg(f.node("z"), 3, 1); }),
            "set_arg: node 'z' has 1 arguments, there is no argument 3");
  f.expect_unchanged();
}

TEST(Editor, NamesTheStepThatBrokeTheModel) {
  Fixture f;
  Editor editor(f.model);
  const NodeId late =
      editor.insert_after(f.node("z"), {.target = "aten.tanh.default", .args = {f.node("y")}});
  editor.set_arg(f.node("z"), 0, late);
  try {
    editor.commit({"my-pass", "my-pass", "here", {}});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "my-pass at here broke the model: node 'z' uses 'tanh' before it is defined");
  }
  f.expect_unchanged();
}

TEST(Editor, NamesAWrongDtype) {
  Fixture f;
  Editor editor(f.model);
  editor.set_state(f.model.state().find("w"), at::ones({3, 4}, at::kDouble));
  EXPECT_THROW(editor.commit({"my-pass", "my-pass", "here", {}}), InternalError);
  f.expect_unchanged();
}

TEST(Editor, ReplacesUsesEverywhere) {
  Fixture f;
  Editor editor(f.model);
  editor.replace_uses(f.node("y"), f.node("x"));
  EXPECT_EQ(f.model.graph()[f.node("z")].args[0], Arg(f.node("x")));
  EXPECT_EQ(f.model.graph().num_users(f.node("y")), 0u);
}

TEST(Editor, AnEmptyStepIsNotRecorded) {
  Fixture f;
  Editor editor(f.model);
  const NodeId n =
      editor.insert_after(f.node("y"), {.target = "aten.tanh.default", .args = {f.node("y")}});
  editor.erase_node(n);
  EXPECT_FALSE(editor.changed());
  EXPECT_FALSE(editor.commit({"my-pass", "my-pass", "here", {}}));
  f.expect_unchanged();
}

TEST(Editor, AnErasedEntryReturnsToItsPlaceUnderItsName) {
  Model model = parse_filled(R"(buffer a : f32[1]
buffer b : f32[1]
buffer c : f32[1]
graph():
    %x : f32[2, 4] = placeholder[target=x]
    return x
)");
  const std::string before = snapshot(model);
  const StateId b = model.state().find("b");
  {
    Editor editor(model);
    editor.erase_state(b);
    editor.commit({"erase", "erase", "b", {}});
  }
  {
    Editor editor(model);
    EXPECT_EQ(editor.add_state({"b", StateKind::buffer, true, at::ones({1})}), b);
    editor.commit({"revive", "revive", "b", {}});
  }
  EXPECT_EQ(model.state().next(model.state().find("a")), b);
  // Reversing the second alone, then applying something new, must not lose what the first needs.
  reverse(model, StepId(2));
  {
    Editor editor(model);
    editor.add_state({"d", StateKind::buffer, true, at::ones({1})});
    editor.commit({"add", "add", "d", {}});
  }
  reverse(model, StepId(1));
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Validate, FindsAMissingOutput) {
  Model model;
  EXPECT_NE(error_of([&] { validate(model); }).find("does not end with an output"),
            std::string::npos);
}

}  // namespace
}  // namespace refx::testing
