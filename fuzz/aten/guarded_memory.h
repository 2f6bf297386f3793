// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace refx::fuzz {

// Lets torch's tensors lie between pages that cannot be touched, so that a kernel that reads or
// writes beside one ends with SIGSEGV, and one that uses freed memory does too. Turn by turn the
// memory of a tensor ends at such a page or begins at one. Allocations of more than a few MiB
// throw.
void use_guarded_memory();

}  // namespace refx::fuzz
