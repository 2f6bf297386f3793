// No false alarm: whatever the transformations make of random models passes. REFX_SEED=<seed> runs
// one case alone, REFX_CASES=<n> sets how many, REFX_FIRST=<seed> where to begin.

#include <cstdlib>

#include "kit.h"
#include "random_model.h"
#include "refx/verify.h"

namespace refx::testing {
namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Some of these models overflow or cancel to nothing. Then verify may not be able to tell, but it
// never calls a right rewrite wrong.
TEST(VerifyProperty, RightRewritesPass) {
  const std::uint64_t first = number("REFX_SEED", number("REFX_FIRST", 0));
  const std::uint64_t count = std::getenv("REFX_SEED") ? 1 : number("REFX_CASES", 600);
  std::size_t rewritten = 0, passed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("REFX_SEED=" + std::to_string(seed));
    Model model = RandomModel(seed).make();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 3; ++i) (*registry()[random() % registry().size()])(model);
    if (model.history().empty()) continue;
    const Verification result = verify(model, {.measure = {.inputs = {random_inputs(model, seed), "random"}}});
    ++rewritten;
    passed += result.passed();
    EXPECT_NE(result.answer(), Answer::fail) << to_text(result) << print(model);
    if (::testing::Test::HasFailure()) return;
  }
  std::cout << passed << " of " << rewritten << " rewritten models passed\n";
  EXPECT_GE(passed, rewritten - rewritten / 50);
}

}  // namespace
}  // namespace refx::testing
