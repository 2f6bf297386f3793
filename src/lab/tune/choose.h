// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace refx {

// Which places to rewrite, and how, within a budget of errors.

// One way to rewrite one place: what it gains, and the error that it makes by itself.
struct Candidate {
  std::size_t place = 0;
  double gain = 0, error = 0;
};

// For each place the position of its candidate; -1: it is left alone.
using Choice = std::vector<int>;

// The choice of the largest gain whose errors, as if they had nothing to do with each other (so
// their squares add up), are within the budget; near enough.
Choice within_budget(const std::vector<Candidate>& candidates, std::size_t places, double budget);

// The choice of the largest gain that really fits, as far as it is found: asked as few times as it
// takes to find a budget whose choice just fits, then about choices that gain more. `budget` is the
// one to begin with. Leaving all alone fits.
struct Fit {
  std::function<bool(const Choice&)> fits;
  double budget = 0;           // 0: not known
  std::size_t most_asked = 0;  // times
};
Choice best_that_fits(const std::vector<Candidate>& candidates, std::size_t places, const Fit& fit);

double gain_of(const std::vector<Candidate>& candidates, const Choice& choice);

// The one to take back first: it gains the least for its squared error. -1: there is none that
// errs.
int worst_of(const std::vector<Candidate>& candidates, const Choice& choice);

}  // namespace refx
