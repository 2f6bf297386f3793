// SPDX-License-Identifier: Apache-2.0

#include "util/printable.h"

#include <gtest/gtest.h>

#include "util/json_writer.h"

namespace refx {
namespace {

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "encoder.layers.0", "a b", "'\\'", "größe", "層", "\U0001f600"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_lines(text), text);
  }
}

TEST(Printable, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\nb\\tc\\rd\\x7f");
  EXPECT_EQ(printable("\u0080\u009b\u009f\u00a0"), "\\u0080\\u009b\\u009f\u00a0");
  EXPECT_EQ(printable("\u2028\u2029\u202a\u202e\u202f"), "\\u2028\\u2029\\u202a\\u202e\u202f");
  EXPECT_EQ(printable("\u2065\u2066\u2069\u206a"), "\u2065\\u2066\\u2069\u206a");
  EXPECT_EQ(printable("\x9b\xff\xe2\x80"), "\\x9b\\xff\\xe2\\x80");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable_lines("a\nb\x1b\n"), "a\nb\\x1b\n");
}

TEST(Printable, JsonEscapesTheSameAndStaysExact) {
  EXPECT_EQ(json_string("\x1b\x7f\u009b\u202eé"), "\"\\u001b\\u007f\\u009b\\u202eé\"");
}

}  // namespace
}  // namespace refx
