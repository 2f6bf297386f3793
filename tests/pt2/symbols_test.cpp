// SPDX-License-Identifier: Apache-2.0

#include "graph_json/symbols.h"

#include <gtest/gtest.h>

#include "kit.h"

namespace refx {
namespace {

const std::string kS = "Symbol('s0', positive=True, integer=True)";
const std::string kT = "Symbol('s1', positive=True, integer=True)";

TEST(Symbols, AreReadable) {
  Symbols symbols;
  EXPECT_EQ(symbols.readable(kS), "s0");
  EXPECT_EQ(symbols.readable("Mul(Integer(2), " + kS + ")"), "2*s0");
  EXPECT_EQ(symbols.readable("Add(Mul(Integer(2), " + kS + "), Integer(1))"), "2*s0 + 1");
  EXPECT_EQ(symbols.readable("Mul(Integer(3), Add(" + kS + ", " + kT + "))"), "3*(s0 + s1)");
  EXPECT_EQ(symbols.readable("FloorDiv(" + kS + ", Integer(2))"), "s0//2");
  EXPECT_EQ(symbols.readable("Pow(" + kS + ", Integer(2))"), "s0**2");
}

TEST(Symbols, WhatWasReadIsWrittenAsItWas) {
  Symbols symbols;
  for (const std::string& stored :
       {kS, "Mul(Integer(2), " + kS + ")", "Max(Integer(1), FloorDiv(" + kS + ", Integer(2)))",
        std::string("something(that, is(not, 'sympy'")})
    EXPECT_EQ(symbols.stored(symbols.readable(stored)), stored);
}

TEST(Symbols, ProductsOfWhatIsKnownCanBeWritten) {
  Symbols symbols;
  symbols.readable("Add(" + kS + ", Integer(1))");
  symbols.readable(kT);
  EXPECT_EQ(symbols.stored("9*s1"), "Mul(Integer(9), " + kT + ")");
  EXPECT_EQ(symbols.stored("9*s1*(s0 + 1)"),
            "Mul(Integer(9), " + kT + ", Add(" + kS + ", Integer(1)))");
}

TEST(Symbols, AnUnknownSymbolIsAnError) {
  EXPECT_EQ(testing::error_of([] { Symbols().stored("u7"); }),
            "the symbolic size 'u7' is not made of sizes of this model");
}

TEST(Symbols, LengthHasALimit) {
  Symbols symbols;
  const std::string longest = "s" + std::string(limits::kExpressionLength - 1, '0');
  EXPECT_EQ(symbols.stored(symbols.readable(longest)), longest);
  EXPECT_EQ(testing::error_of([&] { symbols.readable(longest + "0"); }),
            "a symbolic size of 10001 characters, and refx takes 10000");
  EXPECT_EQ(testing::error_of([&] { symbols.stored(std::string(100'000, '(')); }),
            "a symbolic size of 100000 characters, and refx takes 10000");
}

// Every part of a deep expression is nearly as long as the whole.
TEST(Symbols, PartsTakeNoMoreRoomThanThereIs) {
  Symbols symbols;
  std::string last;
  for (int i = 0; i < 200; ++i) {
    last = "s" + std::to_string(i) + std::string(9000, 'x');
    for (int depth = 0; depth < 50; ++depth) last = "Abs(" + last + ")";
    EXPECT_EQ(symbols.stored(symbols.readable(last)), last);
  }
  EXPECT_LT(symbols.bytes(), 2 * limits::kExpressionParts);
}

}  // namespace
}  // namespace refx
