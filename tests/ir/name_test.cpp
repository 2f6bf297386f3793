// SPDX-License-Identifier: Apache-2.0

#include "refx/name.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <unordered_set>

namespace refx::testing {
namespace {

TEST(Name, IsEqualToWhatHasItsText) {
  const Name name = "encoder.query", same = std::string("encoder.") + "query";
  EXPECT_EQ(name, same);
  EXPECT_EQ(name.hash(), same.hash());
  EXPECT_EQ(name, "encoder.query");
  EXPECT_EQ(std::string("encoder.query"), name);
  EXPECT_NE(name, Name("encoder.key"));
  EXPECT_NE(name, "encoder.quer");
  EXPECT_LT(Name("a"), name);
  EXPECT_LT(name, "f");
}

TEST(Name, ACopyIsTheSameText) {
  Name name = "encoder.query";
  const Name copy = name;
  EXPECT_EQ(name.view().data(), copy.view().data());
  name = "encoder.key";
  EXPECT_EQ(copy, "encoder.query");
  const Name moved = std::move(name);
  EXPECT_EQ(moved, "encoder.key");
}

TEST(Name, MayBeEmpty) {
  const Name none, empty = "";
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none, empty);
  EXPECT_EQ(none, "");
  EXPECT_NE(none, Name("a"));
  EXPECT_EQ(none.hash(), hash_of(""));
  EXPECT_EQ(std::string(none), "");
}

TEST(Name, IsWrittenLikeAText) {
  const Name name = "query";
  EXPECT_EQ(name + ".weight", "query.weight");
  EXPECT_EQ("encoder." + name, "encoder.query");
  EXPECT_EQ(fmt::format("'{}'", name), "'query'");
  EXPECT_EQ((std::ostringstream() << name).str(), "query");
  EXPECT_EQ(name.substr(1, 3), "uer");
  EXPECT_EQ(name.find('e'), 2u);
}

TEST(Name, MayHaveAnyCharacters) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(Name(text).size(), 3u);
  EXPECT_EQ(std::string(Name(text)), text);
  EXPECT_NE(Name(text), Name("a"));
}

TEST(NameKey, FindsANameByItselfAndByItsText) {
  const Name name = "query", none;
  EXPECT_TRUE(NameKey(name).is(name));
  EXPECT_TRUE(NameKey(name).is(Name("query")));
  EXPECT_TRUE(NameKey("query").is(name));
  EXPECT_FALSE(NameKey(name.view().substr(0, 4)).is(name));
  EXPECT_FALSE(NameKey(name).is(none));
  EXPECT_FALSE(NameKey(none).is(name));
  EXPECT_TRUE(NameKey("").is(none));
  EXPECT_EQ(NameKey("query").hash(), name.hash());
}

TEST(Name, IsHashedByItsText) {
  std::unordered_set<Name> names = {"a", "b", "a"};
  EXPECT_EQ(names.size(), 2u);
  EXPECT_TRUE(names.contains(std::string("b")));
}

}  // namespace
}  // namespace refx::testing
