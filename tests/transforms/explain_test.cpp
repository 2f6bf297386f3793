// SPDX-License-Identifier: Apache-2.0

#include "refx/explain.h"

#include <gtest/gtest.h>

#include "refx/error.h"
#include "refx/registry.h"
#include "refx/rule.h"

namespace refx {
namespace {

TEST(Explain, EveryTransformationSaysWhatItDoes) {
  for (const TransformationPtr& transformation : registry()) {
    const std::string text = explain(transformation->name());
    EXPECT_TRUE(text.starts_with(transformation->name() + ": " + transformation->summary()))
        << text;
    if (const auto* rule = dynamic_cast<const Rule*>(transformation.get())) {
      EXPECT_NE(text.find(rule->text()), text.npos) << text;
    }
  }
#define REFX_TRANSFORMATION(type, name, ...) name,
  for (const char* name : {
#include "refx/registry.def"
       }) {
    const std::string text = explain(name);
    for (const char* part : {"\nBefore:   ", "\nAfter:    ", "\nRefuses:  ", "\nNumerics: "})
      EXPECT_NE(text.find(part), text.npos) << part << " is missing:\n" << text;
    EXPECT_EQ(text.find("//"), text.npos) << text;
  }
#undef REFX_TRANSFORMATION
}

TEST(Explain, SaysIt) {
  EXPECT_EQ(explain("change-true-div-to-mul-by-inverse"),
            R"(change-true-div-to-mul-by-inverse: x / c with a constant c -> x * (1/c)
reversible, results stay the same up to rounding

Before:   y = x / c                      c a finite, non-zero constant
After:    y = x * (1/c)
Refuses:  integer x; a c that is zero, not finite, trainable or changed by the model; a c whose
          inverse is not a normal number in the dtype of the computation; a rounding mode;
          division in place
Numerics: 1/c is rounded, too: results differ by at most 1 ulp
)");
  EXPECT_NE(explain("store-linear-int8").find("\nreversible, lossy\n"), std::string::npos);
}

TEST(Explain, AReasonAsItWasGivenOrInPart) {
  const std::string whole = explain("'embedding.weight' is used in more than one place");
  EXPECT_TRUE(
      whole.starts_with("used-elsewhere: '{tensor}' is used in more than one place\n\n"
                        "A tensor with other users\n\n"))
      << whole;
  EXPECT_NE(whole.find("\nExample: "), whole.npos) << whole;
  EXPECT_NE(whole.find("\nWhat to do: "), whole.npos) << whole;
  EXPECT_EQ(explain("used-elsewhere"), whole);
  const std::string several = explain("More Than One place");
  for (const char* code : {"used-elsewhere: ", "module-used-elsewhere: "})
    EXPECT_NE(several.find(code), several.npos) << several;
  EXPECT_NE(explain("size(W, 1) <= 133144 does not hold").find("where"), std::string::npos);
}

TEST(Explain, EveryReasonByItsCodeAndByItsText) {
  for (const ReasonInfo& reason : all_reasons()) {
    const std::string by_code = explain(reason.code);
    EXPECT_TRUE(by_code.starts_with(reason.code + ": ")) << by_code;
    if (reason.id != ReasonId::custom) {
      EXPECT_EQ(explain(reason.text), by_code);
    }
  }
}

TEST(Explain, AnythingElseIsAnError) {
  try {
    explain("merge-linear");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'merge-linear' is neither a transformation nor a reason that refx gives; did you "
                 "mean 'merge-linears'?");
  }
  for (const char* what : {"", "is", "*", "\x1b[31m"}) EXPECT_THROW(explain(what), Error) << what;
}

}  // namespace
}  // namespace refx
