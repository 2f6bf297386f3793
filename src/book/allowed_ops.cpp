// SPDX-License-Identifier: Apache-2.0

#include "book/allowed_ops.h"

#include <algorithm>

#include "util/glob.h"

namespace refx::book {

namespace {

constexpr std::string_view kFile = "it can read and write any file";
constexpr std::string_view kMemory = "it replaces or resizes the memory of a tensor";
constexpr std::string_view kStrides = "it does not check that strides stay in the tensor's memory";
constexpr std::string_view kIndices = "it does not check indices and lengths in its arguments";
constexpr std::string_view kGradient =
    "it does not check indices and shapes that come from the forward call";
constexpr std::string_view kBackend = "it belongs to one backend and does not check shapes itself";
constexpr std::string_view kPacked = "it does not check the contents of a packed weight";
constexpr std::string_view kNested = "it does not check sizes and offsets of a nested tensor";
constexpr std::string_view kOutside = "it has effects besides its results";

// The first row that fits holds.
constexpr RefusedOps kRefused[] = {
    {"from_file", kFile},
    {"_print", kOutside},
    {"_cufft_*", kOutside},
    {"record_stream", kOutside},
    {"pin_memory", kOutside},
    {"_pin_memory", kOutside},
    {"set", kMemory},
    {"set_", kMemory},
    {"set_data", kMemory},
    {"resize*", kMemory},
    {"_resize_*", kMemory},
    {"_copy_from_and_resize", kMemory},
    {"sparse_resize*", kMemory},
    {"as_strided_", kStrides},
    {"_reshape_alias*", kStrides},
    {"*_tensor_unsafe", kIndices},
    {"sparse_*_tensor", kIndices},
    {"_sparse_*_tensor_with_dims*", kIndices},
    {"_coalesced*", kIndices},
    {"_index_put_impl*", kIndices},
    {"segment_reduce", kIndices},
    {"ctc_loss", kIndices},
    {"_ctc_loss", kIndices},
    {"_pad_packed_sequence", kIndices},
    {"_foreach_copy", kIndices},
    {"*nested*", kNested},
    {"*jagged*", kNested},
    {"*_backward*", kGradient},
    {"fbgemm_*", kPacked},
    {"quantized_*", kPacked},
    {"*_prepack*", kPacked},
    {"*pack_mm*", kPacked},
    {"cudnn_*", kBackend},
    {"_cudnn_*", kBackend},
    {"miopen_*", kBackend},
    {"mkldnn_*", kBackend},
    {"_mkldnn_*", kBackend},
};

struct AllowedOps {
  std::string_view name;
  std::string_view overloads;  // separated by spaces; "default" is the one without a name
};
constexpr AllowedOps kAllowed[] = {
#include "book/allowed_ops.def"
};

// Calls f(overload) for each; stops where it returns true, which is returned.
template <class F>
bool any_overload(const AllowedOps& row, const F& f) {
  for (std::string_view rest = row.overloads; !rest.empty();) {
    const auto end = std::min(rest.find(' '), rest.size());
    const std::string_view overload = rest.substr(0, end);
    if (f(overload == "default" ? std::string_view() : overload)) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

bool is_allowed(std::string_view name, std::optional<std::string_view> overload) {
  const auto row = std::lower_bound(
      std::begin(kAllowed), std::end(kAllowed), name,
      [](const AllowedOps& ops, std::string_view wanted) { return ops.name < wanted; });
  if (row == std::end(kAllowed) || row->name != name) return false;
  return !overload || any_overload(*row, [&](std::string_view one) { return one == *overload; });
}

std::vector<std::string> allowed_ops() {
  std::vector<std::string> all;
  for (const AllowedOps& row : kAllowed)
    any_overload(row, [&](std::string_view overload) {
      all.push_back("aten::" + std::string(row.name) + (overload.empty() ? "" : ".") +
                    std::string(overload));
      return false;
    });
  return all;
}

std::span<const RefusedOps> refused_ops() { return kRefused; }

std::string_view why_refused(std::string_view name) {
  for (const RefusedOps& row : kRefused)
    if (glob_match(row.names, name)) return row.reason;
  return {};
}

bool is_built_in(std::string_view space, std::string_view name) {
  // The executor has its own code for it, see exec/grouped_mm.h.
  return space == "transformers" && name == "grouped_mm_fallback";
}

}  // namespace refx::book
