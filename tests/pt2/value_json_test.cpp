// SPDX-License-Identifier: Apache-2.0

#include "pt2/value_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <clocale>
#include <limits>

#include "graph_json/json.h"
#include "refx/error.h"

namespace refx {
namespace {

Arg there_and_back(const Arg& arg) {
  std::string text;
  std::string name;
  append_value(text, arg,
               [&](NodeId id) { return std::string_view(name = "n" + std::to_string(id.value)); });
  simdjson::dom::parser parser;
  return read_value(parser.parse(text), [](std::string_view name) {
    return NodeId(static_cast<std::uint32_t>(std::stoul(std::string(name.substr(1)))));
  });
}

TEST(ValueJson, EveryByteIsEscapedAtEveryPosition) {
  for (int byte = 0; byte < 256; ++byte)
    for (std::size_t at = 0; at < 20; ++at) {
      std::string text(20, 'x'), expected = "\"";
      text[at] = static_cast<char>(byte);
      for (const char c : text) {
        constexpr std::string_view kShort = "\"\\\n\r\t", kShown = "\"\\nrt";
        if (const auto place = kShort.find(c); place != kShort.npos)
          expected.append(1, '\\').append(1, kShown[place]);
        else if (byte < 0x20 && c == static_cast<char>(byte))
          expected += fmt::format("\\u{:04x}", byte);
        else
          expected += c;
      }
      EXPECT_EQ(json_quoted(text), expected + '"');
    }
}

TEST(ValueJson, IsExactForEveryKindOfArgument) {
  const double inf = std::numeric_limits<double>::infinity();
  const Args all = {None{},
                    true,
                    std::numeric_limits<std::int64_t>::min(),
                    std::numeric_limits<std::int64_t>::max(),
                    7,
                    7.0,
                    -0.0,
                    0.1,
                    5e-324,
                    inf,
                    -inf,
                    std::numeric_limits<double>::quiet_NaN(),
                    std::complex<double>(0.1, -inf),
                    "text with \"quotes\", \n and \x01",
                    c10::kBFloat16,
                    c10::Device("cuda:1"),
                    c10::kSparse,
                    c10::MemoryFormat::ChannelsLast,
                    NodeId(12),
                    SymInt{"2*s0"},
                    Ellipsis{},
                    Raw{R"({"as_graph": {}})"},
                    List{},
                    Tuple{{1, List{{NodeId(3), None{}}}}},
                    Slice{{1, None{}, 2}},
                    Dict{{{"key", Tuple{}}, {1, 2.5}}}};
  for (const Arg& arg : all) EXPECT_EQ(there_and_back(arg), arg);
  EXPECT_EQ(there_and_back(List{all}), Arg(List{all}));
}

TEST(ValueJson, IsTheSameWhereADecimalPointIsAComma) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  const char* comma = std::setlocale(LC_NUMERIC, "de_DE.UTF-8");
  const Arg back = there_and_back(0.25);
  std::setlocale(LC_NUMERIC, before.c_str());
  if (!comma) GTEST_SKIP() << "there is no such locale here";
  EXPECT_EQ(back, Arg(0.25));
}

TEST(ValueJson, RefusesWhatItDoesNotKnow) {
  simdjson::dom::parser parser;
  const FindNode none = [](std::string_view) { return NodeId(); };
  EXPECT_THROW(read_value(parser.parse(std::string(R"({"surprise": 1})")), none), Error);
  EXPECT_THROW(read_value(parser.parse(std::string("{}")), none), Error);
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_THROW(read_value(parser.parse(deep), none), Error);
}

}  // namespace
}  // namespace refx
