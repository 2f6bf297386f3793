// SPDX-License-Identifier: Apache-2.0

#include "lab/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "refx/error.h"

namespace refx {

namespace {

// With 4000 medians, 20 of them are above the 99.5th percentile: enough for its second digit.
constexpr int kResamples = 4000;

double quantile_in_place(std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto index = static_cast<std::size_t>(position);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  const double part = position - std::floor(position);
  return part == 0 ? *at : *at + part * (*std::min_element(at + 1, values.end()) - *at);
}

double normal_tail(double z) { return std::erfc(z / std::sqrt(2.0)) / 2; }

// The z such that a standard normal variable is larger with this probability.
double normal_quantile(double tail) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i)
    (normal_tail((low + high) / 2) > tail ? low : high) = (low + high) / 2;
  return low;
}

// With few values, percentile intervals of the bootstrap are too narrow. Hesterberg's expanded
// interval uses wider percentiles, those that would be exact for the mean of normal values: the
// quantile of Student's t, here by the Cornish-Fisher expansion.
double expanded_tail(double tail, std::size_t n) {
  const double z = normal_quantile(tail), df = static_cast<double>(n) - 1;
  const double z3 = z * z * z, z5 = z3 * z * z;
  const double t = z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df * df);
  return normal_tail(std::sqrt((df + 1) / df) * t);
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  REFX_CHECK(!values.empty(), "quantile of nothing");
  return quantile_in_place(values, q);
}

Interval bootstrap_median(const std::vector<double>& values, double confidence,
                          std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::size_t> any(0, values.size() - 1);
  std::vector<double> medians(kResamples), drawn(values.size());
  for (double& m : medians) {
    for (double& value : drawn) value = values[any(random)];
    m = quantile_in_place(drawn, 0.5);
  }
  const double tail = expanded_tail((1 - confidence) / 2, std::max<std::size_t>(2, values.size()));
  return {quantile(medians, tail), quantile(medians, 1 - tail)};
}

}  // namespace refx
