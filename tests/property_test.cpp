// SPDX-License-Identifier: Apache-2.0

// Random models under random sequences of rewrites and reversals. REFX_CASES=<n> sets how many.

#include <cstdlib>

#include "kit.h"
#include "random_model.h"
#include "random_moves.h"

namespace refx::testing {
namespace {

int cases() {
  const char* text = std::getenv("REFX_CASES");
  return text ? std::atoi(text) : 4000;
}

// Four parts, so that they can run side by side.
class Property : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Quarter, Property, ::testing::Range(1, 5));

TEST_P(Property, RandomModelsEndWhereTheyStarted) {
  check_property("models end where they started", cases() / 4,
                 static_cast<std::uint64_t>(GetParam()), ends_where_it_started);
}

// The generator must keep reaching every transformation, or the property says nothing. Rules have
// models of their own: see rules/random_test.cpp.
TEST(Property, RandomModelsReachEveryTransformation) {
  for (const auto& transformation : registry()) {
    if (dynamic_cast<const Rule*>(transformation.get())) continue;
    std::size_t sites = 0, refusals = 0;
    // Volumes are rare.
    for (int seed = 0; seed < 2000 && (sites <= 10 || refusals <= 10); ++seed) {
      const Recipe recipe = any_recipe()(rc::Random(seed), rc::kNominalSize).value();
      const Findings findings = transformation->find(make_model(recipe));
      sites += findings.sites.size();
      refusals += findings.refusals.size();
    }
    EXPECT_GT(sites, 10u) << transformation->name();
    EXPECT_GT(refusals, 10u) << transformation->name();
  }
}

}  // namespace
}  // namespace refx::testing
