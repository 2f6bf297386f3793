// SPDX-License-Identifier: Apache-2.0

// No false alarm: whatever the transformations make of random models passes. REFX_CASES=<n> sets
// how many are tried, REFX_FIRST=<seed> which.

#include <cstdlib>
#include <iostream>

#include "kit.h"
#include "random_model.h"
#include "refx/verify.h"

namespace refx::testing {
namespace {

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

// Some of these models overflow or cancel to nothing. Then verify may not be able to tell, but it
// never calls a right rewrite wrong.
TEST(VerifyProperty, RightRewritesPass) {
  std::size_t rewritten = 0, passed = 0;
  const auto property = [&] {
    const Recipe recipe = *any_recipe();
    Model model = make_model(recipe);
    const auto exact = find_transformations({std::string(kAll)});
    for (const int which : *rc::gen::container<std::vector<int>>(3, any_number()))
      (*exact[static_cast<std::size_t>(which) % exact.size()])(model);
    if (model.history().empty()) return;
    const Verification result =
        verify(model, {.measure = {.inputs = {random_inputs(model, recipe.seed), "random"}}});
    ++rewritten;
    passed += result.passed();
    EXPECT_NE(result.answer(), VerifyVerdict::fail) << to_text(result) << print(model);
  };
  check_property("right rewrites pass", number("REFX_CASES", 600),
                 static_cast<std::uint64_t>(number("REFX_FIRST", 0)), property);
  std::cout << passed << " of " << rewritten << " rewritten models passed\n";
  EXPECT_GE(passed, rewritten - rewritten / 50);
}

}  // namespace
}  // namespace refx::testing
