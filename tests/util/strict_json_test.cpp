// SPDX-License-Identifier: Apache-2.0

#include "util/strict_json.h"

#include <gtest/gtest.h>

#include <random>

#include "kit.h"
#include "util/limits.h"

namespace refx::testing {
namespace {

// What each of the two finds wrong; "" if nothing.
std::string fault_as_a_whole(std::string_view text) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(text);
  try {
    parse_strict(parser, padded);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string fault_on_demand(std::string_view text) {
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(text);
  try {
    simdjson::ondemand::document document = parser.iterate(padded);
    check_strict(document, padded);
    simdjson::ondemand::object root = document.get_object();  // from its beginning
    root.count_fields().value();
    return "";
  } catch (const Error& error) {
    return error.what();
  } catch (const simdjson::simdjson_error& error) {
    return error.what();
  }
}

std::string fault(std::string_view text) {
  const std::string found = fault_as_a_whole(text);
  const std::string object = "{\"in\": " + std::string(text) + "}";
  const std::string found_on_demand = fault_on_demand(object);
  EXPECT_EQ(found_on_demand.empty(), fault_as_a_whole(object).empty()) << object.substr(0, 200);
  return found;
}

TEST(StrictJson, WhatAllReadersReadAlikeIsRead) {
  for (const char* text :
       {R"({"a": 1, "b": {"a": 2, "c": {}}, "c": [{"a": 1}, {"a": 1}]})",
        R"({"a": [1, -2.5e3, true, null, "\u00e9\ud83d\ude00 \ud7ff"], "A": "\n"})", " [] \n"})
    EXPECT_EQ(fault(text), "") << text;
}

TEST(StrictJson, EqualKeysAreRefused) {
  EXPECT_EQ(fault(R"({"a": 1, "b": 2, "a": 1})"), "the key 'a' appears twice in one object");
  EXPECT_EQ(fault(R"([{"b": {"a": 1, "\u0061": 2}}])"), "the key 'a' appears twice in one object");
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"" + std::to_string(i * 7919 % 5000) + "\": {},";
  EXPECT_EQ(fault(many + "\"x\": 1}"), "");
  EXPECT_EQ(fault(many + "\"4999\": 1}"), "the key '4999' appears twice in one object");
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

// A text that only nearly is JSON: both must agree on it, and neither may fall over it.
TEST(StrictJson, BothReadersAgree) {
  const std::string good =
      R"({"a": [1, -2.5e3, true, null, {"x\u00e9\"": "\ud83d\ude00"}], "b": {"c": {}, "d": []}, )"
      R"("e": "f\\", "g": [[[]]], "h": false, "i": 18446744073709551615, "\u0061a": ""})";
  ASSERT_EQ(fault_on_demand(good), "");
  ASSERT_EQ(fault_as_a_whole(good), "");
  const std::string_view bytes = "{}[],:\"\\ \n\t0123456789+-.eEtrufalsn\x01\x80\xed\xa0";
  std::minstd_rand random(1);
  int faults = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      const char byte = bytes[random() % bytes.size()];
      switch (random() % 5) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        case 2:
          text.erase(at, 1 + random() % 3);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
        default:
          text.resize(at);
      }
      if (text.empty()) text = " ";
    }
    const bool is_object = text.find_first_not_of(" \n\t") != text.npos &&
                           text[text.find_first_not_of(" \n\t")] == '{';
    const bool whole = fault_as_a_whole(text).empty();
    ASSERT_EQ(fault_on_demand(text).empty(), whole && is_object) << text;
    faults += !whole;
  }
  EXPECT_GT(faults, 50'000);
}

}  // namespace
}  // namespace refx::testing
