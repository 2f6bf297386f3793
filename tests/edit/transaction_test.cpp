#include "edit/transaction.h"

#include <ATen/Functions.h>

#include "kit.h"

namespace refx::testing {
namespace {

constexpr const char* kName = "w";

std::shared_ptr<const StateEntry> entry(const std::string& name) {
  return std::make_shared<const StateEntry>(
      StateEntry{name, StateKind::parameter, true, at::ones({2})});
}

TEST(Transaction, RestoresAValueInAnEmptyPlace) {
  Model model;
  Transaction transaction(model);
  const StateId place = transaction.insert_place(StateId{});
  EXPECT_FALSE(model.state().contains(place));
  const auto value = entry(kName);
  transaction.restore(place, value);
  EXPECT_EQ(model.state().pointer(place), value);
  EXPECT_EQ(model.state().find(kName), place);
  EXPECT_EQ(model.state().storage_sharers(place), 1u);
}

TEST(Transaction, WhatIsRestoredIsNoEdit) {
  Model model;
  {
    Transaction transaction(model);
    transaction.restore(transaction.insert_place(StateId{}), entry(kName));
    EXPECT_FALSE(transaction.changed());
  }
  EXPECT_TRUE(model.state().find(kName));  // nothing to take back
}

TEST(Transaction, RestoresOnlyUnderAFreeName) {
  Model model;
  Transaction transaction(model);
  transaction.restore(transaction.insert_place(StateId{}), entry(kName));
  const StateId second = transaction.insert_place(StateId{});
  EXPECT_EQ(error_of([&] { transaction.restore(second, entry(kName)); }),
            "state entry name 'w' is taken");
  EXPECT_FALSE(model.state().contains(second));
}

TEST(Transaction, ARestoredNameIsKeptForWhatWasErased) {
  Model model;
  Transaction transaction(model);
  const StateId erased = transaction.insert_place(StateId{});
  transaction.restore_name(erased, kName);
  EXPECT_TRUE(model.state().name_taken(kName));
  EXPECT_FALSE(model.state().find(kName));
  EXPECT_EQ(model.state().find_erased(kName), erased);
  EXPECT_EQ(model.state().fresh_name(kName), "w_1");
  // What comes under that name takes its place.
  EXPECT_EQ(transaction.insert(StateId{}, *entry(kName)), erased);
}

}  // namespace
}  // namespace refx::testing
