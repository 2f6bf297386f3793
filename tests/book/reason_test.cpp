// SPDX-License-Identifier: Apache-2.0

#include "refx/reason.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include "refx/name.h"

namespace refx {
namespace {

std::set<std::string> released() {
  std::ifstream file("tests/book/released_reasons.txt");
  std::set<std::string> codes;
  for (std::string code; std::getline(file, code);) codes.insert(code);
  return codes;
}

// A script may rely on a released code, so none may disappear.
TEST(Reason, ReleasedCodesAreKeptAndNewOnesAreListed) {
  std::set<std::string> codes;
  for (const ReasonInfo& reason : all_reasons()) codes.insert(reason.code);
  EXPECT_EQ(codes.size(), all_reasons().size()) << "two reasons have one code";
  const std::set<std::string> known = released();
  ASSERT_FALSE(known.empty());
  for (const std::string& code : known)
    EXPECT_TRUE(codes.contains(code)) << code << " was removed from refx/reasons.def";
  for (const std::string& code : codes)
    EXPECT_TRUE(known.contains(code)) << "add " << code << " to tests/book/released_reasons.txt";
}

TEST(Reason, EveryRowIsComplete) {
  std::set<std::string_view> texts, sections;
  for (const ReasonSection& section : reason_sections()) {
    EXPECT_TRUE(sections.insert(section.id).second) << section.id;
    for (const auto text : {section.title, section.meaning, section.example, section.advice})
      EXPECT_FALSE(text.empty()) << section.id;
  }
  for (const ReasonInfo& reason : all_reasons()) {
    EXPECT_TRUE(texts.insert(reason.text).second) << reason.text;
    ASSERT_TRUE(sections.contains(reason.section)) << reason.code;
    EXPECT_EQ(section_of(reason).id, reason.section);
    EXPECT_EQ(find_reason(reason.code), &reason);
    EXPECT_EQ(std::ranges::count(reason.text, '{'), std::ranges::count(reason.text, '}'));
    for (char c : reason.code) EXPECT_TRUE(std::islower(c) || std::isdigit(c) || c == '-') << c;
  }
  EXPECT_EQ(find_reason("no-such-reason"), nullptr);
}

TEST(Reason, TakesItsArgumentsInTheOrderOfThePlaceholders) {
  const Reason reason =
      because<ReasonId::also_used_by>("relu", Name("add")).about({NodeId(3), NodeId(5)});
  EXPECT_EQ(code(reason), "also-used-by");
  EXPECT_EQ(to_string(reason), "'relu' is also used by 'add'");
  EXPECT_EQ(reason.nodes, (std::vector<NodeId>{NodeId(3), NodeId(5)}));
  EXPECT_EQ(to_string(because<ReasonId::activation_rank>(3)),
            "the activation has 3 dimensions: its channels are not the last dimension");
  EXPECT_EQ(because<ReasonId::branch_or_loop>(), because<ReasonId::branch_or_loop>());
  EXPECT_NE(because<ReasonId::quantized>("a"), because<ReasonId::quantized>("b"));
}

template <ReasonId id, class... Args>
constexpr bool kCompiles = requires(const Args&... arguments) {
  because<id>(arguments...);
};

TEST(Reason, TheCompilerCountsTheArguments) {
  EXPECT_TRUE((kCompiles<ReasonId::quantized, std::string>));
  EXPECT_FALSE((kCompiles<ReasonId::quantized>));
  EXPECT_FALSE((kCompiles<ReasonId::quantized, std::string, std::string>));
  EXPECT_FALSE((kCompiles<ReasonId::branch_or_loop, std::string>));
}

TEST(Reason, ArgumentsMayContainBraces) {
  EXPECT_EQ(to_string(because<ReasonId::also_used_by>("{a}", "{b}")),
            "'{a}' is also used by '{b}'");
}

TEST(Reason, OfAUsersTransformation) {
  const Reason reason = custom_reason("the {rank} is too high");
  EXPECT_EQ(code(reason), "custom");
  EXPECT_EQ(to_string(reason), "the {rank} is too high");
}

}  // namespace
}  // namespace refx
