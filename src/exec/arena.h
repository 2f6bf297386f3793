// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace refx::exec {

// A piece of memory that is needed from one instruction to another, both included.
struct Buffer {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;
  std::size_t offset = 0;  // the answer
};

// Gives every buffer its place in one arena, so that no two overlap in both time and space. Returns
// the arena's size. The largest come first, each at the lowest place that is free.
std::size_t place(std::vector<Buffer>& buffers);

}  // namespace refx::exec
