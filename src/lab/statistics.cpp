#include "lab/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "refx/error.h"

namespace refx {

namespace {

constexpr int kResamples = 2000;

double quantile_in_place(std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto index = static_cast<std::size_t>(position);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  const double part = position - std::floor(position);
  return part == 0 ? *at : *at + part * (*std::min_element(at + 1, values.end()) - *at);
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
  const double tail = (1 - confidence) / 2;
  return {quantile(medians, tail), quantile(medians, 1 - tail)};
}

}  // namespace refx
