// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace refx {

// Loops over numbers, which round as torch's own do.

// What a batch norm is: y = scale * x + shift, per channel.
struct Statistics {
  const double *mean, *var, *weight, *bias;
  double eps;
};
void affine(const Statistics& norm, double* scale, double* shift, std::size_t size);

// Rows, each times its factor: products in fp64, rounded once. Whether all of them are finite.
bool scale_rows(const float* in, const double* factors, float* out, std::int64_t rows,
                std::int64_t width);

// The bits of the largest magnitude. Without its sign a float is the larger the larger its bits
// are, infinity and nan last.
std::uint32_t largest_bits(const float* data, std::int64_t size);

}  // namespace refx
