// SPDX-License-Identifier: Apache-2.0

#include "lab/bisect/delta.h"

#include <algorithm>
#include <optional>

namespace refx {

namespace {

using Position = std::ptrdiff_t;

Steps joined(const Steps& a, const Steps& b) {
  Steps all(a);
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  return all;
}

// The last step of the shortest prefix that fails together with `required`, by binary search; none
// if a test is skipped. All steps together fail, `required` alone passes.
std::optional<Position> shortest_prefix(const Steps& steps, const Steps& required,
                                        const TestSteps& test) {
  Position passes = 0, fails = static_cast<Position>(steps.size());
  while (fails - passes > 1) {
    const Position middle = passes + (fails - passes) / 2;
    const BisectVerdict verdict = test(joined({steps.begin(), steps.begin() + middle}, required));
    if (verdict == BisectVerdict::skip) return std::nullopt;
    (verdict == BisectVerdict::bad ? fails : passes) = middle;
  }
  return fails - 1;
}

// Zeller's ddmin: tests ever smaller parts, and what remains without each of them. It needs a
// number of tests that is quadratic in the worst case, but it makes progress even if tests are
// skipped.
Steps ddmin(Steps steps, const TestSteps& test) {
  for (std::size_t parts = 2; steps.size() > 1;) {
    const std::size_t n = steps.size();
    const auto at = [&](std::size_t part) {
      return steps.begin() + static_cast<Position>(part * n / parts);
    };
    std::optional<Steps> smaller;
    std::size_t next = parts;
    for (std::size_t i = 0; i < parts && !smaller; ++i) {
      Steps part(at(i), at(i + 1));
      if (test(part) == BisectVerdict::bad) smaller = std::move(part), next = 2;
    }
    for (std::size_t i = 0; i < parts && !smaller && parts > 2; ++i) {
      Steps rest(steps.begin(), at(i));
      rest.insert(rest.end(), at(i + 1), steps.end());
      if (test(rest) == BisectVerdict::bad) smaller = std::move(rest), next = parts - 1;
    }
    if (!smaller && parts >= n) break;
    parts = smaller ? next : std::min(n, 2 * parts);
    if (smaller) steps = std::move(*smaller);
    parts = std::min(parts, std::max<std::size_t>(2, steps.size()));
  }
  return steps;
}

}  // namespace

Steps minimize(const Steps& failing, const TestSteps& test) {
  // Usually adding steps does not make a failing model pass. Then each needed step is found by one
  // binary search, log2(n) tests. The result need not be minimal if that assumption is wrong, so
  // ddmin checks it, and does the whole search if tests are skipped.
  Steps candidates = failing, required;
  while (required.empty() || test(required) != BisectVerdict::bad) {
    if (candidates.empty()) return ddmin(failing, test);
    const auto last = shortest_prefix(candidates, required, test);
    if (!last) return ddmin(joined(candidates, required), test);
    required = joined(required, {candidates[static_cast<std::size_t>(*last)]});
    candidates.erase(candidates.begin() + *last, candidates.end());
  }
  return ddmin(required, test);
}

}  // namespace refx
