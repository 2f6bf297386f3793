// SPDX-License-Identifier: Apache-2.0

#include "ops/loops.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>

namespace refx {

void affine(const Statistics& norm, double* scale, double* shift, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    scale[i] = norm.weight[i] / std::sqrt(norm.var[i] + norm.eps);
    shift[i] = norm.bias[i] - norm.mean[i] * scale[i];
  }
}

namespace {

// With one more in the exponent, infinity and nan alone reach the first bit: theirs is full.
constexpr std::uint32_t kMagnitude = 0x7fffffff, kOneMore = 0x00800000;

bool scale(const float* in, double factor, float* out, std::int64_t size) {
  std::uint32_t all = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<float>(in[i] * factor);
    all |= (std::bit_cast<std::uint32_t>(out[i]) & kMagnitude) + kOneMore;
  }
  return all <= kMagnitude;
}

#ifdef __x86_64__
// The same products, eight at a time. What is to come, here and there, is asked for ahead: then it
// is nearly as fast as a copy.
__attribute__((target("avx2"))) bool scale_wide(const float* in, double factor, float* out,
                                                std::int64_t size) {
  constexpr std::int64_t kWidth = 8, kAhead = 512;
  const std::int64_t last = size / kWidth * kWidth;
  const __m256d factors = _mm256_set1_pd(factor);
  const __m256i magnitude = _mm256_set1_epi32(kMagnitude), more = _mm256_set1_epi32(kOneMore);
  __m256i all = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < last; i += kWidth) {
    __builtin_prefetch(in + i + kAhead);
    __builtin_prefetch(out + i + kAhead, /*for writing=*/1);
    const __m256d low = _mm256_cvtps_pd(_mm_loadu_ps(in + i));
    const __m256d high = _mm256_cvtps_pd(_mm_loadu_ps(in + i + kWidth / 2));
    const __m256 products = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_mul_pd(high, factors)),
                                            _mm256_cvtpd_ps(_mm256_mul_pd(low, factors)));
    _mm256_storeu_ps(out + i, products);
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(products), magnitude);
    all = _mm256_or_si256(all, _mm256_add_epi32(bits, more));
  }
  const bool end = scale(in + last, factor, out + last, size - last);
  return end && _mm256_movemask_ps(_mm256_castsi256_ps(all)) == 0;
}
#endif

}  // namespace

bool scale_rows(const float* in, const double* factors, float* out, std::int64_t rows,
                std::int64_t width) {
  bool finite = true;
  auto each = [&](auto scale_row) {
    for (std::int64_t row = 0; row < rows; ++row)
      finite &= scale_row(in + row * width, factors[row], out + row * width, width);
    return finite;
  };
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return each(scale_wide);
#endif
  return each(scale);
}

std::uint32_t largest_bits(const float* data, std::int64_t size) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < size; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(data[i]) & 0x7fffffffu);
  return most;
}

}  // namespace refx
