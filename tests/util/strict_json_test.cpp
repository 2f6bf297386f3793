#include "util/strict_json.h"

#include <gtest/gtest.h>

#include "kit.h"
#include "util/limits.h"

namespace refx::testing {
namespace {

std::string fault(std::string_view text) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(text);
  try {
    parse_strict(parser, padded);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(StrictJson, WhatAllReadersReadAlikeIsRead) {
  for (const char* text :
       {R"({"a": 1, "b": {"a": 2, "c": {}}, "c": [{"a": 1}, {"a": 1}]})",
        R"({"a": [1, -2.5e3, true, null, "\u00e9\ud83d\ude00 \ud7ff"], "A": "\n"})", " [] \n"})
    EXPECT_EQ(fault(text), "") << text;
}

TEST(StrictJson, EqualKeysAreRefused) {
  EXPECT_EQ(fault(R"({"a": 1, "b": 2, "a": 1})"), "the key 'a' stands twice in one object");
  EXPECT_EQ(fault(R"([{"b": {"a": 1, "\u0061": 2}}])"), "the key 'a' stands twice in one object");
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"" + std::to_string(i * 7919 % 5000) + "\": {},";
  EXPECT_EQ(fault(many + "\"x\": 1}"), "");
  EXPECT_EQ(fault(many + "\"4999\": 1}"), "the key '4999' stands twice in one object");
}

TEST(StrictJson, WhatOnlySomeReadersReadIsRefused) {
  for (const char* text : {"",
                           "{",
                           R"({"a" 1})",
                           R"({"a": 1,})",
                           R"({"a": NaN})",
                           R"([Infinity])",
                           R"([-Infinity])",
                           "[1e400]",
                           "[-1e400]",
                           "[123456789012345678901234567890]",
                           "[01]",
                           "[1.]",
                           "{} {}",
                           "[1] x",
                           "\xef\xbb\xbf{}",
                           "[\"\xff\"]",
                           "[\"\xed\xa0\x80\"]",
                           R"(["\ud800"])",
                           R"(["\udc00"])",
                           R"(["\udc00\ud800"])",
                           R"({"\udfff": 1})",
                           "[\"a\nb\"]",
                           "['a']",
                           "[1] // no"})
    EXPECT_NE(fault(text), "") << text;
  EXPECT_NE(fault(std::string_view("{}\0", 3)), "");
}

TEST(StrictJson, DepthHasALimit) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(fault(nested(limits::kJsonDepth - 1)), "");
  EXPECT_EQ(fault(nested(limits::kJsonDepth + 1)), "it is nested more than 500 levels deep");
  EXPECT_EQ(fault(nested(1000000)), "it is nested more than 500 levels deep");
}

}  // namespace
}  // namespace refx::testing
