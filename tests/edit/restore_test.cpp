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

TEST(Restorer, WhatIsPutIsNoEdit) {
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
  Step step;
  step.id = StepId(1);
  step.edits.push_back(Change<StateEntry>{erased, entry(kName), nullptr});
  restorer.record(std::move(step));
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
  Step step;
  step.id = StepId(3);
  step.edits.push_back(Change<StateEntry>{place, nullptr, after});
  restorer.apply(std::move(step));
  restorer.set_next_step(7);
  EXPECT_EQ(model.state().pointer(place), after);
  EXPECT_EQ(std::get<Change<StateEntry>>(model.history()[StepId(3)].edits[0]).before, before);
  reverse_all(model);
  EXPECT_EQ(model.state().pointer(place), before);
}

}  // namespace
}  // namespace refx::testing
