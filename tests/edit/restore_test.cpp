// SPDX-License-Identifier: Apache-2.0

#include "refx/restore.h"

#include <ATen/Functions.h>

#include "edit/transaction.h"
#include "kit.h"

namespace refx::testing {
namespace {

constexpr const char* kName = "w";

std::shared_ptr<const StateEntry> entry(const std::string& name) {
  return std::make_shared<const StateEntry>(
      StateEntry{name, StateKind::parameter, true, at::ones({2})});
}

Step step_of(std::uint32_t id, std::vector<Edit> edits) {
  Step step;
  step.id = StepId(id);
  step.stamps = stamps_of(edits);
  step.edits = std::move(edits);
  return step;
}

TEST(Restorer, PutsAValueInAnEmptyPlace) {
  Model model;
  Restorer restorer(model);
  const StateId place = restorer.add_slot<StateEntry>();
  EXPECT_FALSE(model.state().contains(place));
  const auto value = entry(kName);
  restorer.put(place, value);
  EXPECT_EQ(model.state().pointer(place), value);
  EXPECT_EQ(model.state().find(kName), place);
  EXPECT_EQ(model.state().storage_sharers(place), 1u);
}

TEST(Restorer, RestoringIsNotAnEdit) {
  Model model;
  {
    Transaction transaction(model);
    Restorer restorer(model);
    restorer.put(restorer.add_slot<StateEntry>(), entry(kName));
    EXPECT_FALSE(transaction.changed());
  }
  EXPECT_TRUE(model.state().find(kName));  // nothing to take back
}

TEST(Restorer, PutsOnlyUnderAFreeName) {
  Model model;
  Restorer restorer(model);
  restorer.put(restorer.add_slot<StateEntry>(), entry(kName));
  const StateId second = restorer.add_slot<StateEntry>();
  EXPECT_EQ(error_of([&] { restorer.put(second, entry(kName)); }), "state entry name 'w' is taken");
  EXPECT_FALSE(model.state().contains(second));
}

TEST(Restorer, WhatARecordedStepErasedKeepsItsName) {
  Model model;
  Restorer restorer(model);
  const StateId erased = restorer.add_slot<StateEntry>();
  restorer.record(step_of(1, {Change<StateEntry>{erased, entry(kName), nullptr}}));
  EXPECT_TRUE(model.state().name_taken(kName));
  EXPECT_FALSE(model.state().find(kName));
  EXPECT_EQ(model.state().find_erased(kName), erased);
  EXPECT_EQ(model.state().fresh_name(kName), "w_1");
  // What comes under that name takes its place.
  Editor editor(model);
  EXPECT_EQ(editor.add_state(*entry(kName)), erased);
}

TEST(Restorer, AnAppliedStepFindsWhatItReplaces) {
  Model model;
  Restorer restorer(model);
  const StateId place = restorer.add_slot<StateEntry>();
  const auto before = entry(kName), after = entry(kName);
  restorer.put(place, before);
  restorer.apply(step_of(3, {Change<StateEntry>{place, nullptr, after}}));
  restorer.set_next_step(7);
  EXPECT_EQ(model.state().pointer(place), after);
  EXPECT_EQ(std::get<Change<StateEntry>>(model.history()[StepId(3)].edits[0]).before, before);
  reverse_all(model);
  EXPECT_EQ(model.state().pointer(place), before);
}

TEST(Restorer, TheNextStepComesAfterAllOthers) {
  Model model;
  Restorer restorer(model);
  const StateId place = restorer.add_slot<StateEntry>();
  restorer.apply(step_of(5, {Change<StateEntry>{place, nullptr, entry(kName)}}));
  for (std::uint32_t next : {0u, 1u, 5u, StepId::kNone})
    EXPECT_NE(error_of([&] { restorer.set_next_step(next); }), "");
  restorer.set_next_step(6);
  const NodeId last = restorer.add_slot<Node>();
  restorer.put(last, std::make_shared<const Node>(Node{.op = Opcode::output, .name = "output"}));
  Editor editor(model);
  editor.set_state(place, at::zeros({2}));
  EXPECT_EQ(editor.commit({"my-pass", "my-pass", "here", {}}), StepId(6));
}

TEST(Restorer, RecordsWhatLedToTheModelNewestFirst) {
  Model model;
  Restorer restorer(model);
  const StateId place = restorer.add_slot<StateEntry>();
  const auto first = entry(kName), second = entry(kName);
  restorer.put(place, second);
  restorer.record(step_of(2, {Change<StateEntry>{place, first, second}}));
  EXPECT_EQ(error_of([&] {
              restorer.record(step_of(3, {Change<StateEntry>{place, nullptr, first}}));
            }),
            "step 3 stands before step 2");
  restorer.record(step_of(1, {Change<StateEntry>{place, nullptr, first}}));
  EXPECT_EQ(model.state().pointer(place), second);
  reverse(model, StepId(2));
  EXPECT_EQ(model.state().pointer(place), first);
  reverse_all(model);
  EXPECT_TRUE(model.state().empty());
}

TEST(Restorer, RecordsNothingThatDidNotHappen) {
  auto refusal = [](const Edit& edit) {
    Model model;
    Restorer restorer(model);
    restorer.put(restorer.add_slot<StateEntry>(), entry(kName));
    return error_of([&] { restorer.record(step_of(1, {edit})); });
  };
  using State = Change<StateEntry>;
  EXPECT_EQ(refusal(State{StateId(0), entry(kName), nullptr}),
            "step 1 did not leave 'w' as it was found");
  EXPECT_EQ(refusal(State{StateId(0), entry("v"), entry(kName)}), "step 1 renames 'v' to 'w'");
  EXPECT_EQ(refusal(State{StateId(0), nullptr, entry("v")}),
            "step 1 did not leave 'v' as it was found");
  EXPECT_EQ(refusal(State{StateId(1), nullptr, entry("v")}),
            "step 1 has an edit of an object that there is not");
  EXPECT_EQ(refusal(State{StateId(0), nullptr, nullptr}),
            "step 1 has an edit of something that never was there");
}

TEST(Restorer, PutsANodeAfterWhatItRefersTo) {
  Model model;
  Restorer restorer(model);
  const NodeId place = restorer.add_slot<Node>();
  auto put = [&](const Node& node) { restorer.put(place, std::make_shared<const Node>(node)); };
  const Node call{.target = "torch.relu", .args = {NodeId(7)}};
  EXPECT_EQ(error_of([&] { put(call); }), "something has no name");
  EXPECT_EQ(error_of([&] { put({.name = "a", .target = "torch.relu", .args = {NodeId(7)}}); }),
            "node 'a' uses a node that there is not");
  EXPECT_EQ(error_of([&] { put({.op = Opcode::get_attr, .name = "a", .target = "w"}); }),
            "node 'a' reads state entry 'w', which does not exist");
}

}  // namespace
}  // namespace refx::testing
