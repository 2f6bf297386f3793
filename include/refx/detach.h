// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/undo.h"

namespace refx {

// Original tensors may be removed from a model and its file, and attached again later. The history
// keeps the name, size and dtype of each, and a hash that identifies it.

struct DetachedTensor {
  std::string name;
  c10::ScalarType dtype;
  std::size_t bytes;  // of its storage, which tied tensors share
};

// Removes the originals from the history and returns them. It keeps those that take no space: the
// ones that the model still uses, and the ones that are slices of a tensor that stays. It also
// keeps tensors that one step made and another replaced. A step without its originals cannot be
// reversed: an Error names what is missing, until it is attached again.
REFX_API std::vector<DetachedTensor> detach(Model& model);

// The detached originals of a model, or of one step.
REFX_API std::vector<DetachedTensor> detached(const Model& model);
REFX_API std::vector<DetachedTensor> detached(const Step& step);

// Restores detached originals from a copy: the .pt2 file that was transformed, a .pt2 file with the
// same history, a .safetensors file, or a folder of these. Throws Error, and changes nothing, if
// the bytes of one differ from those that were detached.
REFX_API void attach(Model& model, const std::string& base);
// The same for the originals that the reversal needs.
REFX_API void attach(Model& model, const ReversalPlan& plan, const std::string& base);

}  // namespace refx
