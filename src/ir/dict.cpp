// SPDX-License-Identifier: Apache-2.0

#include "ir/dict.h"

#include <ATen/core/Dict.h>

#include <algorithm>
#include <bit>

#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

// Whether the keys find their places in a table of 2^bits slots: ska_ordered's, which puts a key
// into one of the slots after that of its hash, as many of them as the table has bits. The hashes
// are multiplied as it does, and sorted; which of the keys comes first makes no difference.
bool fits(const std::vector<std::uint64_t>& hashes, int bits) {
  const auto reach = static_cast<std::uint64_t>(std::max(4, bits));
  std::uint64_t next = 0;
  for (std::uint64_t hash : hashes) {
    const std::uint64_t wanted = hash >> (64 - bits);
    next = std::max(next, wanted);
    if (next - wanted >= reach) return false;
    ++next;
  }
  return true;
}

void check_growth(const std::vector<c10::IValue>& flat) {
  constexpr std::uint64_t kFibonacci = 11400714819323198485ull;
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < flat.size(); i += 2)
    hashes.push_back(kFibonacci * c10::detail::DictKeyHash()(flat[i]));
  std::sort(hashes.begin(), hashes.end());
  int bits = std::bit_width(2 * hashes.size());
  const int most = std::bit_width(limits::kDictSlots * hashes.size());
  while (!fits(hashes, bits))
    if (++bits > most)
      throw Error("a dict has keys that collide in torch's table of hashes; use other keys");
}

}  // namespace

c10::impl::GenericDict make_dict(c10::TypePtr key, c10::TypePtr value,
                                 const std::vector<c10::IValue>& flat) {
  check_growth(flat);
  c10::impl::GenericDict dict(std::move(key), std::move(value));
  for (std::size_t i = 0; i < flat.size(); i += 2) dict.insert_or_assign(flat[i], flat[i + 1]);
  return dict;
}

}  // namespace refx
