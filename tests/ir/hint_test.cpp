// SPDX-License-Identifier: Apache-2.0

#include "refx/hint.h"

#include <gtest/gtest.h>

namespace refx {
namespace {

constexpr Hint kHints[] = {
#define REFX_HINT(id, library, program, python) Hint::id,
#include "refx/hints.def"
#undef REFX_HINT
};

TEST(Hint, HasAWordingForEachFace) {
  for (const Hint hint : kHints) {
    EXPECT_FALSE(to_string(hint).empty());
    EXPECT_FALSE(hint_as_flag(hint).empty());
    EXPECT_FALSE(hint_as_argument(hint).empty());
    // Only the program has flags and commands.
    for (const std::string& text : {to_string(hint), hint_as_argument(hint)}) {
      EXPECT_EQ(text.find("--"), text.npos) << text;
      EXPECT_EQ(text.find("`refx "), text.npos) << text;
    }
  }
}

TEST(Hint, EndsTheMessageOfAnError) {
  const HintedError error("no such model", Hint::resume);
  EXPECT_STREQ(error.what(), "no such model; start again and resume from the file of trials");
  EXPECT_EQ(error.message(hint_as_flag), "no such model; start again with --resume");
  EXPECT_EQ(error.message(hint_as_argument),
            "no such model; start again with resume= and the file of trials");
  EXPECT_EQ(error.problem(), "no such model");
}

}  // namespace
}  // namespace refx
