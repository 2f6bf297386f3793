#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "refx/model.h"

namespace refx {

// The model in fp64, without history: its floating-point tensors, and every dtype that its graph
// asks for. Integers stay. It is to be run under DoubleByDefault. Throws Error for a model that
// depends on the bits of a narrower type.
Model in_double(const Model& model);
std::vector<c10::IValue> in_double(const std::vector<c10::IValue>& inputs);

// Operators that make new floats make doubles while this lives.
class DoubleByDefault {
 public:
  DoubleByDefault();
  ~DoubleByDefault();
  DoubleByDefault(const DoubleByDefault&) = delete;
  DoubleByDefault& operator=(const DoubleByDefault&) = delete;

 private:
  c10::ScalarType before_;
};

}  // namespace refx
