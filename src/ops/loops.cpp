#include "ops/loops.h"

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

__attribute__((always_inline)) inline bool scale_each(const float* in, double factor, float* out,
                                                      std::int64_t size) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff, kOneMoreInExponent = 0x00800000;
  std::uint32_t all = 0;  // its first bit is set by infinity and nan alone: their exponent is full
  for (std::int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<float>(in[i] * factor);
    all |= (std::bit_cast<std::uint32_t>(out[i]) & kMagnitude) + kOneMoreInExponent;
  }
  return all <= kMagnitude;
}

#ifdef __x86_64__
// The same products, four at a time.
__attribute__((target("avx2"))) bool scale_wide(const float* in, double factor, float* out,
                                                std::int64_t size) {
  return scale_each(in, factor, out, size);
}
#endif

}  // namespace

bool scale(const float* in, double factor, float* out, std::int64_t size) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return scale_wide(in, factor, out, size);
#endif
  return scale_each(in, factor, out, size);
}

std::uint32_t largest_bits(const float* data, std::int64_t size) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < size; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(data[i]) & 0x7fffffffu);
  return most;
}

}  // namespace refx
