// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace refx {

// Chooses which sites to rewrite, and how, within an error budget.

// One way to rewrite one site: what it gains, and the error that it makes by itself.
struct Candidate {
  std::size_t site = 0;
  double gain = 0, error = 0;
};

// For each site the position of its candidate; -1: it is left alone.
using Choice = std::vector<int>;

// The choice of the largest gain within the budget, assuming that errors are independent, so that
// their squares add up. An approximation: the squared budget is divided into bins.
Choice within_budget(const std::vector<Candidate>& candidates, std::size_t sites, double budget);

// Searches the choice of the largest gain for which `fits` holds. First bisects for the largest
// assumed budget whose choice fits, beginning with `budget`, then tries nearby choices that gain
// more. Leaving all sites alone always fits.
struct Fit {
  std::function<bool(const Choice&)> fits;
  double budget = 0;           // 0: not known
  std::size_t most_asked = 0;  // calls of `fits`
};
Choice best_that_fits(const std::vector<Candidate>& candidates, std::size_t sites, const Fit& fit);

double gain_of(const std::vector<Candidate>& candidates, const Choice& choice);

// The candidate to undo first: the one with the least gain for its squared error. -1: none has an
// error.
int worst_of(const std::vector<Candidate>& candidates, const Choice& choice);

}  // namespace refx
