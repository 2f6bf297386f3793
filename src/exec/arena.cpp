// SPDX-License-Identifier: Apache-2.0

#include "exec/arena.h"

#include <algorithm>
#include <numeric>

namespace refx::exec {
namespace {

constexpr std::size_t kAlignment = 64;  // torch's own

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool meet(const Buffer& a, const Buffer& b) { return a.first <= b.last && b.first <= a.last; }

// `placed` is sorted by offset.
std::size_t lowest_gap(const Buffer& buffer, const std::vector<const Buffer*>& placed) {
  std::size_t at = 0;
  for (const Buffer* other : placed) {
    // Buffers that are not alive at the same time may have the same memory.
    if (!meet(buffer, *other)) continue;
    if (at + aligned(buffer.bytes) <= other->offset) break;
    at = std::max(at, other->offset + aligned(other->bytes));
  }
  return at;
}

}  // namespace

std::size_t place(std::vector<Buffer>& buffers) {
  // Largest first: small buffers then fill the gaps between large ones.
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<const Buffer*> placed;
  std::size_t size = 0;
  for (std::size_t i : order) {
    Buffer& buffer = buffers[i];
    buffer.offset = lowest_gap(buffer, placed);
    size = std::max(size, buffer.offset + aligned(buffer.bytes));
    auto at = std::upper_bound(placed.begin(), placed.end(), &buffer,
                               [](auto* a, auto* b) { return a->offset < b->offset; });
    placed.insert(at, &buffer);
  }
  return size;
}

}  // namespace refx::exec
