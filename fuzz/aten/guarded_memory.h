// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace refx::fuzz {

// Allocates torch's tensors between inaccessible pages, so that a kernel that reads or writes out
// of bounds or uses freed memory ends with SIGSEGV. Alternately, the memory of a tensor ends at
// such a page or begins at one. Allocations of more than a few MiB throw.
void use_guarded_memory();

}  // namespace refx::fuzz
