#pragma once

#include "exec/program.h"

namespace refx::exec {

// torch.nn.functional.interpolate; its operands in this order.
inline constexpr const char* kInterpolate =
    "input size=None scale_factor=None mode='nearest' align_corners=None "
    "recompute_scale_factor=None antialias=False";
c10::IValue interpolate(const Call& call);

}  // namespace refx::exec
