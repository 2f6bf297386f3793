// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/choose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace refx {
namespace {

using Vector = std::vector<double>;

// Errors are vectors with directions, so they may add up or cancel.
struct Case {
  std::vector<Candidate> candidates;
  std::vector<Vector> errors;
  std::size_t places = 0;
  double budget = 0;

  double error_of(const Choice& choice) const {
    Vector sum(errors[0].size());
    for (int position : choice)
      for (std::size_t i = 0; position >= 0 && i < sum.size(); ++i)
        sum[i] += errors[static_cast<std::size_t>(position)][i];
    return length(sum);
  }
  static double length(const Vector& v) {
    double squares = 0;
    for (double x : v) squares += x * x;
    return std::sqrt(squares);
  }
};

Case random_case(std::mt19937_64& random, std::size_t ways) {
  std::normal_distribution<double> normal;
  Case c;
  c.places = 1 + random() % 12;
  const std::size_t dims = 64;
  for (std::size_t place = 0; place < c.places; ++place)
    for (std::size_t way = 0; way < 1 + random() % ways; ++way) {
      Vector error(dims);
      const double size = std::exp(normal(random)) / std::sqrt(dims);
      for (double& x : error) x = size * normal(random);
      c.candidates.push_back({place, std::exp(0.5 * normal(random)), Case::length(error)});
      c.errors.push_back(std::move(error));
    }
  double squares = 0;
  for (const Candidate& candidate : c.candidates) squares += candidate.error * candidate.error;
  c.budget = std::sqrt(squares) * std::uniform_real_distribution<>(0.05, 1.1)(random);
  return c;
}

double best_of_all(const Case& c) {
  std::vector<Choice> all = {Choice(c.places, -1)};
  for (std::size_t i = 0; i < c.candidates.size(); ++i)
    for (std::size_t k = 0, size = all.size(); k < size; ++k)
      if (all[k][c.candidates[i].site] < 0) {
        all.push_back(all[k]);
        all.back()[c.candidates[i].site] = static_cast<int>(i);
      }
  double best = 0;
  for (const Choice& choice : all)
    if (c.error_of(choice) <= c.budget) best = std::max(best, gain_of(c.candidates, choice));
  return best;
}

TEST(Choose, ComesNearTheBestOfAllChoices) {
  std::mt19937_64 random(7);
  std::size_t most = 0;
  int far = 0;
  for (int i = 0; i < 1000; ++i) {
    const Case c = random_case(random, i % 3 ? 1 : 2);
    std::size_t asked = 0;
    const auto fits = [&](const Choice& choice) {
      ++asked;
      return c.error_of(choice) <= c.budget;
    };
    const Choice choice =
        best_that_fits(c.candidates, c.places, {fits, c.budget, 128 + 4 * c.places});
    EXPECT_LE(c.error_of(choice), c.budget) << i;
    const double gain = gain_of(c.candidates, choice), best = best_of_all(c);
    EXPECT_GE(gain, 0.85 * best) << i;
    far += gain < 0.95 * best;
    most = std::max(most, asked);
  }
  EXPECT_LE(far, 5);
  EXPECT_LE(most, 128u + 4 * 12);
}

TEST(Choose, TakesAllThatCostsNothingAndNothingThatIsInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Candidate> all = {{0, 1, 0}, {1, 9, inf}, {2, 2, 0.1}, {2, 3, 0.4}};
  const auto fits = [&](const Choice& choice) { return choice[1] < 0 && choice[2] != 3; };
  EXPECT_EQ(best_that_fits(all, 3, {fits, 0.2, 50}), (Choice{0, -1, 2}));
  EXPECT_EQ(within_budget(all, 3, 0.2), (Choice{0, -1, 2}));
  EXPECT_EQ(within_budget(all, 3, 1), (Choice{0, -1, 3}));
  EXPECT_EQ(worst_of(all, {0, -1, 3}), 3);
  EXPECT_EQ(worst_of(all, {0, -1, -1}), -1);
}

TEST(Choose, AsksAboutHundredsOfPlacesAFewTimesEach) {
  std::mt19937_64 random(3);
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < 200; ++i)
    all.push_back({i, 1, std::exp(std::normal_distribution<>()(random))});
  std::size_t asked = 0;
  const Choice choice = best_that_fits(all, 200,
                                       {[&](const Choice& c) {
                                          ++asked;
                                          double sum = 0;
                                          for (int i : c)
                                            if (i >= 0) sum += all[std::size_t(i)].error;
                                          return sum <= 40;
                                        },
                                        4, 500});
  EXPECT_LE(asked, 500u);
  std::vector<double> errors;
  for (const Candidate& c : all) errors.push_back(c.error);
  std::sort(errors.begin(), errors.end());
  double sum = 0, best = 0;
  for (double e : errors)
    if ((sum += e) <= 40) ++best;
  EXPECT_GE(gain_of(all, choice), 0.95 * best);
}

}  // namespace
}  // namespace refx
