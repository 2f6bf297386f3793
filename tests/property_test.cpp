// Random models under random sequences of rewrites and reversals. Every case is made from one seed,
// which a failure prints; REFX_SEED=<seed> runs that case alone, REFX_CASES=<n> sets how many.

#include <cstdlib>
#include <random>

#include "kit.h"
#include "random_model.h"

namespace refx::testing {
namespace {

// Rewrites and reverses at random; the results must never change and the end must be the start.
void check(std::uint64_t seed) {
  const Model original = RandomModel(seed).make();
  const std::string start = snapshot(original);
  const auto inputs = random_inputs(original, seed);
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15);
  Model model = original;
  for (int i = 0; i < 6; ++i) {
    if (random() % 3 == 0 && !model.history().empty()) {
      const auto live = model.history().ids();
      const auto policy = random() % 2 ? Dependents::reapply : Dependents::cascade;
      reverse(model, live[random() % live.size()], {.dependents = policy, .discard_changes = false});
      if (random() % 4 == 0) redo(model);
    } else {
      (*registry()[random() % registry().size()])(model);
    }
    validate(model);
  }
  expect_same_results(original, model, inputs);
  while (!model.history().empty()) {
    const auto live = model.history().ids();
    const auto policy = random() % 2 ? Dependents::reapply : Dependents::cascade;
    reverse(model, live[random() % live.size()], {.dependents = policy, .discard_changes = false});
    validate(model);
  }
  EXPECT_EQ(snapshot(model), start);
}

void check_all(std::uint64_t first, std::uint64_t count) {
  if (const char* seed = std::getenv("REFX_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("REFX_SEED=" + std::to_string(seed));
    try {
      check(seed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << print(RandomModel(seed).make());
    }
    if (::testing::Test::HasFailure()) return;
  }
}

std::uint64_t cases() {
  const char* text = std::getenv("REFX_CASES");
  return text ? std::strtoull(text, nullptr, 10) : 4000;
}

// Four parts, so that they can run side by side.
TEST(Property, RandomModelsFirstQuarter) { check_all(0, cases() / 4); }
TEST(Property, RandomModelsSecondQuarter) { check_all(cases() / 4, cases() / 4); }
TEST(Property, RandomModelsThirdQuarter) { check_all(cases() / 2, cases() / 4); }
TEST(Property, RandomModelsLastQuarter) { check_all(cases() * 3 / 4, cases() / 4); }

// The generator must keep reaching every transformation, or the property says nothing.
TEST(Property, RandomModelsReachEveryTransformation) {
  for (const auto& transformation : registry()) {
    std::size_t sites = 0, refusals = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const Findings findings = transformation->find(RandomModel(seed).make());
      sites += findings.sites.size();
      refusals += findings.refusals.size();
    }
    EXPECT_GT(sites, 10u) << transformation->name();
    EXPECT_GT(refusals, 10u) << transformation->name();
  }
}

}  // namespace
}  // namespace refx::testing
