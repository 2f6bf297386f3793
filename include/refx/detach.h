// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/undo.h"

namespace refx {

// Originals that leave a model and its file, and come back. What stays of each is its name, its
// length, its dtype and a hash, by which the right one is known again.

struct DetachedTensor {
  std::string name;
  c10::ScalarType dtype;
  std::size_t bytes;  // of its storage; those of tied tensors once
};

// Takes the originals that the history keeps out of it, and says which. Those that cost nothing
// stay: what the model itself still uses, and what is a part of a tensor that stays. So do tensors
// that one step made and another replaced. A step without its originals cannot be reversed, and
// whoever asks for them gets an Error that names them, until they are attached again.
REFX_API std::vector<DetachedTensor> detach(Model& model);

// What is detached, of a model or of one step.
REFX_API std::vector<DetachedTensor> detached(const Model& model);
REFX_API std::vector<DetachedTensor> detached(const Step& step);

// Brings detached originals back from where they still are: the .pt2 file that was transformed or
// any that has its history, a .safetensors file, or a folder of these. Each must have the bytes
// that it had, or Error names it and nothing is changed.
REFX_API void attach(Model& model, const std::string& base);
// Those alone that the reversal needs.
REFX_API void attach(Model& model, const ReversalPlan& plan, const std::string& base);

}  // namespace refx
