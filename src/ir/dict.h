// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace refx {

// A dict of torch from keys and values in turn, in their order. Torch's table keeps keys whose
// hashes collide apart by growing until they fall apart, so that a few chosen integers would fill
// the memory: such keys are an Error.
c10::impl::GenericDict make_dict(c10::TypePtr key, c10::TypePtr value,
                                 const std::vector<c10::IValue>& flat);

}  // namespace refx
