// SPDX-License-Identifier: Apache-2.0

#include "util/columns.h"

#include <gtest/gtest.h>

namespace refx {
namespace {

TEST(TextTable, AlignsColumnsAndEndsWithoutBlanks) {
  TextTable table({TextTable::right, TextTable::left});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text(), "");
  table.row({"1", "linear", "x"});
  table.row({"12", "a"});
  table.row({"3", "", "y"});
  EXPECT_EQ(table.text(), " 1  linear  x\n12  a\n 3          y\n");
  EXPECT_EQ(table.text(1), "  1  linear  x\n 12  a\n  3          y\n");
}

TEST(TextTable, StylesItsHead) {
  TextTable table;
  table.row({"a", "b"});
  table.head({"long", "c"});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.text(0, [](std::string_view line) { return "<" + std::string(line) + ">"; }),
            "<long  c>\na     b\n");
  TextTable only_head;
  only_head.head({"a"});
  EXPECT_TRUE(only_head.empty());
}

TEST(TextTable, CountsTheColumnsOfATerminal) {
  EXPECT_EQ(display_width("größe"), 5u);
  EXPECT_EQ(display_width("層"), 2u);
  EXPECT_EQ(columns({{"größe", "1"}, {"層", "2"}, {"a", "3"}}),
            "  größe  1\n  層     2\n  a      3\n");
}

TEST(TextTable, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(columns({{"a\nb", "\x1b[1m"}}), "  a\\nb  \\x1b[1m\n");
}

}  // namespace
}  // namespace refx
