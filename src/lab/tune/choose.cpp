// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace refx {

namespace {

constexpr std::size_t kBins = 2000;  // of the squared budget: each is 0.05 % of it
constexpr double kNear = 1.02;       // the bisection ends at budgets that differ by 2 %
constexpr std::size_t kMany = 300;   // sites: above, the pairs of them are not tried
constexpr double kRounding = 1e-9;   // relative: gains that differ by less are equal

double square(double x) { return x * x; }

const Candidate* taken(const std::vector<Candidate>& all, int position) {
  return position < 0 ? nullptr : &all[static_cast<std::size_t>(position)];
}

class Fitting {
 public:
  Fitting(const std::vector<Candidate>& all, std::size_t sites, const Fit& fit)
      : all_(all), sites_(sites), fit_(fit), best_(sites, -1), of_site_(sites, {-1}) {
    for (std::size_t i = 0; i < all.size(); ++i)
      of_site_[all[i].site].push_back(static_cast<int>(i));
  }

  Choice run() {
    if (take(within_budget(all_, sites_, std::numeric_limits<double>::infinity()))) return best_;
    find_budget();
    while (asked_.size() < fit_.most_asked && improve()) {
    }
    return best_;
  }

 private:
  // Whether it fits. The best that does is kept.
  bool take(const Choice& choice) {
    const auto known = asked_.find(choice);
    if (known != asked_.end()) return known->second;
    if (asked_.size() >= fit_.most_asked) return false;
    const bool fits = fit_.fits(choice);
    asked_.emplace(choice, fits);
    const double gain = gain_of(all_, choice);
    if (fits && gain > gain_of_best_) best_ = choice, gain_of_best_ = gain;
    return fits;
  }

  // How errors that are not independent add up is told by asking.
  void find_budget() {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const Candidate& candidate : all_) {
      if (candidate.error > 0) low = std::min(low, candidate.error);
      if (std::isfinite(candidate.error)) high += square(candidate.error);
    }
    high = std::sqrt(high) * kNear;
    if (high == 0) return;
    low /= kNear;
    take(within_budget(all_, sites_, low));
    double budget = fit_.budget > low && fit_.budget < high ? fit_.budget : std::sqrt(low * high);
    for (; high / low > kNear && asked_.size() < fit_.most_asked; budget = std::sqrt(low * high))
      (take(within_budget(all_, sites_, budget)) ? low : high) = budget;
  }

  // A choice that gains more and fits; those first that should.
  bool improve() {
    std::vector<Move> moves;
    for (std::size_t a = 0; a < sites_; ++a)
      for (int to : of_site_[a]) {
        if (to == best_[a]) continue;
        add(moves, {.a = a, .b = a, .to_a = to, .to_b = to});
        if (sites_ > kMany) continue;
        for (std::size_t b = a + 1; b < sites_; ++b)
          for (int other : of_site_[b])
            if (other != best_[b]) add(moves, {.a = a, .b = b, .to_a = to, .to_b = other});
      }
    std::sort(moves.begin(), moves.end(),
              [](const Move& x, const Move& y) { return x.squares < y.squares; });
    return std::any_of(moves.begin(), moves.end(), [&](const Move& move) {
      if (asked_.size() >= fit_.most_asked) return false;
      Choice choice = best_;
      choice[move.a] = move.to_a;
      choice[move.b] = move.to_b;
      return !asked_.contains(choice) && take(choice);
    });
  }

  // One site otherwise, or two of them.
  struct Move {
    std::size_t a, b;
    int to_a, to_b;
    double squares = 0;  // what it adds
  };
  void add(std::vector<Move>& moves, Move move) const {
    double gain = 0;
    const auto count = [&](int position, double sign) {
      const Candidate* candidate = taken(all_, position);
      if (!candidate) return;
      gain += sign * candidate->gain;
      move.squares += sign * square(candidate->error);
    };
    count(best_[move.a], -1);
    count(move.to_a, 1);
    if (move.a != move.b) count(best_[move.b], -1), count(move.to_b, 1);
    if (gain > kRounding * gain_of_best_ && std::isfinite(move.squares)) moves.push_back(move);
  }

  const std::vector<Candidate>& all_;
  const std::size_t sites_;
  const Fit& fit_;
  Choice best_;
  double gain_of_best_ = 0;
  std::vector<std::vector<int>> of_site_;  // -1 first
  std::map<Choice, bool> asked_;
};

}  // namespace

double gain_of(const std::vector<Candidate>& candidates, const Choice& choice) {
  double sum = 0;
  for (int position : choice)
    if (const Candidate* candidate = taken(candidates, position)) sum += candidate->gain;
  return sum;
}

int worst_of(const std::vector<Candidate>& candidates, const Choice& choice) {
  int worst = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int position : choice) {
    const Candidate* candidate = taken(candidates, position);
    if (!candidate || candidate->error == 0) continue;
    const double worth = candidate->gain / square(candidate->error);
    if (worth < least) worst = position, least = worth;
  }
  return worst;
}

Choice best_that_fits(const std::vector<Candidate>& candidates, std::size_t sites, const Fit& fit) {
  return Fitting(candidates, sites, fit).run();
}

// A knapsack with one of several things from each site, by the number of bins that are filled.
Choice within_budget(const std::vector<Candidate>& candidates, std::size_t sites, double budget) {
  std::vector<double> best(kBins + 1, 0);
  std::vector<std::vector<int>> how(sites, std::vector<int>(kBins + 1, -1));
  const auto bins_of = [&](const Candidate& candidate) -> std::size_t {
    const double part =
        std::isinf(budget) && std::isfinite(candidate.error) ? 0 : square(candidate.error / budget);
    return part <= 1 ? static_cast<std::size_t>(std::ceil(part * kBins)) : kBins + 1;
  };
  std::vector<std::vector<int>> of_site(sites);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    of_site[candidates[i].site].push_back(static_cast<int>(i));
  for (std::size_t site = 0; site < sites; ++site) {
    std::vector<double> next = best;
    for (int position : of_site[site]) {
      const Candidate& candidate = candidates[static_cast<std::size_t>(position)];
      for (std::size_t used = bins_of(candidate), bin = used; bin <= kBins; ++bin)
        if (best[bin - used] + candidate.gain > next[bin]) {
          next[bin] = best[bin - used] + candidate.gain;
          how[site][bin] = position;
        }
    }
    best = std::move(next);
  }
  Choice choice(sites, -1);
  std::size_t bin = kBins;
  for (std::size_t site = sites; site-- > 0;) {
    const int position = choice[site] = how[site][bin];
    if (position >= 0) bin -= bins_of(candidates[static_cast<std::size_t>(position)]);
  }
  return choice;
}

}  // namespace refx
