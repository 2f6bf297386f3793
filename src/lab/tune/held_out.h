// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/measure.h"

namespace refx {

// The inputs of the choice, and others to check the choice on.
struct HeldOut {
  std::vector<Inputs> choosing, proof;
  std::string note;  // where there are no others
};

// Of several sets a third is held out. Where there is one, the others are generated, of the same
// sizes; those on which the model does not run are left out.
HeldOut hold_out(const Model& model, const Inputs& first, const std::vector<Inputs>& more,
                 const Measure& measure);

std::string describe(const std::vector<Inputs>& sets);

}  // namespace refx
