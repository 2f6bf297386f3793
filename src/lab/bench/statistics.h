// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace refx {

// Linear between the values; q from 0 to 1. There must be one.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

struct Interval {
  double low = 0, high = 0;
  bool holds(double value) const { return low <= value && value <= high; }
};

// Where the median of what the values were drawn from lies, with this confidence: by bootstrap,
// percentiles of the medians of resampled values.
Interval bootstrap_median(const std::vector<double>& values, double confidence, std::uint64_t seed);

}  // namespace refx
