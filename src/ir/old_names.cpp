// SPDX-License-Identifier: Apache-2.0

#include "refx/old_names.h"

#include <algorithm>
#include <iterator>

namespace refx {

namespace {

// Sorted by the old name. Entries are only ever added: each of these names is in somebody's files.
constexpr OldName kOldNames[] = {
    {"attention-mask-of-windows", "reshape-attention-window-mask"},
    {"attention-with-repeated-heads", "fuse-attention-repeated-heads"},
    {"attention-written-out", "fuse-attention"},
    {"attention-written-out-biased", "fuse-attention-scaled-bias"},
    {"attention-written-out-filled", "fuse-attention-masked-fill"},
    {"attention-written-out-masked", "fuse-attention-where"},
    {"baddbmm-written-out", "split-baddbmm"},
    {"batch-norm-in-conv-1d", "fuse-batch-norm-in-conv-1d"},
    {"batch-norm-in-conv-3d", "fuse-batch-norm-in-conv-3d"},
    {"batch-norm-in-conv-transpose-1d", "fuse-batch-norm-in-conv-transpose-1d"},
    {"batch-norm-in-conv-transpose-3d", "fuse-batch-norm-in-conv-transpose-3d"},
    {"conv-2d-in-bf16", "compute-conv-2d-bf16"},
    {"frozen-batch-norm-in-conv-2d", "fuse-frozen-batch-norm-in-conv-2d"},
    {"gelu-tanh-written-out", "fuse-gelu-tanh"},
    {"gelu-written-out", "fuse-gelu"},
    {"layer-norm-in-parts", "fuse-native-layer-norm"},
    {"layer-norm-written-out", "fuse-layer-norm"},
    {"linear-after-linear", "fuse-consecutive-linears"},
    {"linear-after-linear-without-bias", "fuse-consecutive-linears-without-bias"},
    {"linear-between-reshapes", "remove-reshapes-around-linear"},
    {"linear-in-bf16", "compute-linear-bf16"},
    {"linear-written-out", "fuse-linear"},
    {"linear-written-out-turned", "fuse-linear-transposed"},
    {"matmul-written-out", "fuse-matmul"},
    {"rms-norm-written-out", "fuse-rms-norm"},
    {"silu-written-out", "fuse-silu"},
};
static_assert(std::is_sorted(std::begin(kOldNames), std::end(kOldNames),
                             [](const OldName& a, const OldName& b) { return a.old < b.old; }));

}  // namespace

std::span<const OldName> old_names() { return kOldNames; }

std::string_view current_name(std::string_view name) {
  const auto* const found =
      std::lower_bound(std::begin(kOldNames), std::end(kOldNames), name,
                       [](const OldName& known, std::string_view one) { return known.old < one; });
  return found != std::end(kOldNames) && found->old == name ? found->current : name;
}

bool same_transformation(std::string_view a, std::string_view b) {
  return a == b || current_name(a) == current_name(b);
}

std::vector<std::string> all_names(std::string_view name) {
  const std::string_view current = current_name(name);
  std::vector<std::string> names = {std::string(current)};
  for (const OldName& known : kOldNames)
    if (known.current == current) names.emplace_back(known.old);
  return names;
}

}  // namespace refx
