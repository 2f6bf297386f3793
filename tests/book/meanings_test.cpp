// SPDX-License-Identifier: Apache-2.0

#include "book/meanings.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "book/schemas.h"

namespace refx::book {
namespace {

bool has(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Meanings, AnOperatorIsFoundUnderItsOtherNames) {
  const auto matmul = names_of_meaning("matmul");
  EXPECT_EQ(matmul.at(0), "matmul");
  EXPECT_TRUE(has(matmul, "mm"));
  EXPECT_TRUE(has(matmul, "bmm"));
  EXPECT_TRUE(has(names_of_meaning("transpose"), "permute"));
  EXPECT_TRUE(has(names_of_meaning("reshape"), "view"));
  EXPECT_EQ(names_of_meaning("gelu"), std::vector<std::string_view>{"gelu"});
}

// matmul is no mm: it takes any number of dimensions.
TEST(Meanings, GoOneWay) { EXPECT_FALSE(has(names_of_meaning("mm"), "matmul")); }

TEST(Meanings, PatternsAreReadByTheirMeaningWhereItIsTheSame) {
  for (const char* name : {"t", "permute", "transpose", "view", "_unsafe_view", "square"})
    EXPECT_TRUE(is_read_by_meaning(name)) << name;
  for (const char* name : {"mm", "bmm", "rsub", "div", "matmul", "reshape", "softmax"})
    EXPECT_FALSE(is_read_by_meaning(name)) << name;
}

TEST(Meanings, SumsAndProductsCommute) {
  EXPECT_TRUE(is_commutative("add"));
  EXPECT_TRUE(is_commutative("mul"));
  EXPECT_FALSE(is_commutative("sub"));
  EXPECT_FALSE(is_commutative("matmul"));
}

// A misspelled argument would make a row that never matches.
TEST(Meanings, ArgumentsAreThoseOfTheOperators) {
  const auto takes = [](std::string_view op, std::string_view argument) {
    const auto& all = overloads(op);
    return std::any_of(all.begin(), all.end(), [&](const c10::OperatorHandle& overload) {
      return overload.schema().argumentIndexWithName(argument).has_value();
    });
  };
  for (const Meaning& row : meanings()) {
    EXPECT_FALSE(overloads(row.means).empty()) << row.means;
    for (const auto& [from, to] : row.arguments) {
      if (from.empty()) continue;
      EXPECT_TRUE(takes(row.means, to)) << row.means << " " << to;
      if (row.form != Meaning::Form::renamed) continue;
      EXPECT_TRUE(takes(row.name, from)) << row.name << " " << from;
    }
  }
}

}  // namespace
}  // namespace refx::book
