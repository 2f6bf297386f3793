// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "kit.h"

namespace refx::testing {
namespace {

Node relu(NodeId x) { return {.target = "aten.relu.default", .args = {x}}; }

TEST(UserSet, CountsReferencesOfFewAndOfMany) {
  std::mt19937 random(7);
  for (const std::uint32_t most : {4u, 3000u}) {
    UserSet users;
    std::map<NodeId, std::uint32_t> expected;
    for (int i = 0; i < 30000; ++i) {
      const NodeId user(random() % most * 3);
      // First it grows, then it shrinks.
      if (auto it = expected.find(user); it != expected.end() && (random() % 3 == 0 || i > 20000)) {
        users.remove(user);
        if (--it->second == 0) expected.erase(it);
      } else if (i <= 20000) {
        users.add(user);
        ++expected[user];
      }
    }
    const UserSet copy = users;
    for (const UserSet& set : {users, copy}) {
      std::map<NodeId, std::uint32_t> found;
      for (const UserSet::User& user : set) found[user.id] = user.references;
      EXPECT_EQ(found, expected);
      EXPECT_EQ(set.size(), expected.size());
    }
  }
}

TEST(Graph, KeepsOrderUnderRandomInsertion) {
  Model model;
  Editor editor(model);
  std::mt19937 random(3);
  std::vector<NodeId> expected{
      editor.insert_before({}, {.op = Opcode::placeholder, .name = "x", .target = "x"})};
  for (int i = 0; i < 20000; ++i) {
    // Mostly at one spot: the worst case for labels of an order.
    const std::size_t at = random() % 4 ? expected.size() / 2 : random() % expected.size();
    const NodeId id = editor.insert_before(expected[at], {.op = Opcode::get_attr, .target = "s"});
    expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at), id);
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), model.graph().begin()));
  for (std::size_t i = 1; i < expected.size(); ++i)
    ASSERT_TRUE(model.graph().precedes(expected[i - 1], expected[i]));
}

TEST(Graph, KeepsUsersOfAValueUsedByMany) {
  Model model;
  Editor editor(model);
  const NodeId x =
      editor.insert_before({}, {.op = Opcode::placeholder, .name = "x", .target = "x"});
  std::vector<NodeId> users;
  for (int i = 0; i < 1000; ++i) users.push_back(editor.insert_before({}, relu(x)));
  EXPECT_EQ(model.graph().users(x), users);
  for (std::size_t i = 0; i < users.size(); i += 2) editor.erase_node(users[i]);
  EXPECT_EQ(model.graph().num_users(x), 500u);
  EXPECT_FALSE(model.graph().only_user(x));
  for (std::size_t i = 1; i + 2 < users.size(); i += 2) editor.erase_node(users[i]);
  EXPECT_EQ(model.graph().only_user(x), users.back());
}

TEST(Graph, KeepsReadersAndCallersByName) {
  Model model;
  std::mt19937 random(7);
  auto any_node = [&] {
    const std::string name = std::string("s") + std::to_string(random() % 3);
    const Opcode op = std::array{Opcode::get_attr, Opcode::call_module, Opcode::call_function,
                                 Opcode::placeholder}[random() % 4];
    return Node{.op = op, .target = name, .state = op == Opcode::placeholder ? name : ""};
  };
  auto expect_all_there = [&] {
    for (const char* name : {"s0", "s1", "s2"}) {
      std::vector<NodeId> readers, callers;
      for (NodeId id : model.graph()) {
        const Node& node = model.graph()[id];
        if (bound_state(node) == name) readers.push_back(id);
        if (node.op == Opcode::call_module && node.target == name) callers.push_back(id);
      }
      ASSERT_EQ(model.graph().readers(name), readers);
      ASSERT_EQ(model.graph().callers(name), callers);
      ASSERT_EQ(model.graph().num_readers(name), readers.size());
      ASSERT_EQ(model.graph().num_callers(name), callers.size());
    }
  };
  for (int round = 0; round < 50; ++round) {
    Editor editor(model);
    for (int i = 0; i < 20; ++i) {
      std::vector<NodeId> live(model.graph().begin(), model.graph().end());
      const NodeId some = live.empty() ? NodeId{} : live[random() % live.size()];
      if (!some || random() % 3 == 0)
        editor.insert_before(some, any_node());
      else if (random() % 2)
        editor.set_node(some, any_node());
      else
        editor.erase_node(some);
    }
    expect_all_there();
    if (round % 2) editor.commit_without_step();
  }
  expect_all_there();  // what was not kept is taken back
}

TEST(Graph, NamesNodesAsTorchFxDoes) {
  Model model;
  Editor editor(model);
  const NodeId x =
      editor.insert_before({}, {.op = Opcode::placeholder, .name = "x", .target = "x"});
  auto name = [&](Node node) {
    return model.graph()[editor.insert_before({}, std::move(node))].name;
  };
  EXPECT_EQ(name(relu(x)), "relu");
  EXPECT_EQ(name(relu(x)), "relu_1");
  EXPECT_EQ(name(relu(x)), "relu_2");
  EXPECT_EQ(name({.target = "torch.nn.functional.pad", .args = {x}}), "pad");
  EXPECT_EQ(name({.target = "operator.truediv", .args = {x, 2}}), "truediv");
  EXPECT_EQ(name({.op = Opcode::call_module, .target = "encoder.0"}), "encoder_0");
}

TEST(Arg, ComparesExactly) {
  EXPECT_FALSE(Arg(7) == Arg(7.0));
  EXPECT_FALSE(Arg(0.0) == Arg(-0.0));
  EXPECT_TRUE(Arg(std::nan("")) == Arg(std::nan("")));
  EXPECT_FALSE(Arg(List{{1, 2}}) == Arg(Tuple{{1, 2}}));
  EXPECT_TRUE(Arg(Dict{{{"a", List{{1}}}}}) == Arg(Dict{{{"a", List{{1}}}}}));
}

TEST(Type, MultipliesSymbolicStrides) {
  const auto strides = contiguous_strides({Dim("s0", 2), Dim("s1 + 1", 4), 6});
  EXPECT_EQ(strides[2], Dim(1));
  EXPECT_EQ(strides[1], Dim(6));
  EXPECT_EQ(strides[0], Dim("6*(s1 + 1)", 24));
}

TEST(State, CountsWhoSharesAStorage) {
  const Model model = parse(R"(parameter a : f32[2, 4]
parameter b : f32[4] shares=a offset=4
parameter c : f32[4]
graph():
    %x : f32[2, 4] = placeholder[target=x]
    return x
)");
  EXPECT_EQ(model.state().storage_sharers(model.state().find("a")), 2u);
  EXPECT_EQ(model.state().storage_sharers(model.state().find("b")), 2u);
  EXPECT_EQ(model.state().storage_sharers(model.state().find("c")), 1u);
}

// As `weight.data = other` does in Python.
TEST(State, LetsTorchGiveATensorAnotherStorage) {
  Model model = parse(R"(parameter a : f32[4]
parameter b : f32[4] shares=a
parameter c : f32[4]
graph():
    %x : f32[4] = placeholder[target=x]
    return x
)");
  const State& state = model.state();
  const StateId a = state.find("a"), b = state.find("b"), c = state.find("c");
  const at::Tensor held = at::Tensor(state.tensor(c)).detach();  // its memory is not given again
  at::Tensor(state.tensor(a)).set_data(at::ones({4}));
  at::Tensor(state.tensor(c)).set_data(at::ones({4}));
  {
    Editor editor(model);
    editor.set_state(a, at::zeros({4}));
    EXPECT_EQ(state.storage_sharers(a), 1u);
    EXPECT_EQ(state.storage_sharers(b), 1u);
    editor.set_state(c, state.tensor(a));
    EXPECT_EQ(state.storage_sharers(a), 2u);
    EXPECT_EQ(state.storage_sharers(c), 2u);
    editor.erase_state(b);
  }
  EXPECT_EQ(state.storage_sharers(b), 1u);
  EXPECT_EQ(state.storage_sharers(c), 1u);
}

}  // namespace
}  // namespace refx::testing
