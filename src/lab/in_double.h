#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "refx/model.h"

namespace refx {

// The model in fp64, without history: its floating-point tensors, and every dtype that its graph
// asks for. Integers stay. It is to be run under DoubleByDefault. Throws Error for a model that
// depends on the bits of a narrower type.
Model in_double(const Model& model);
std::vector<c10::IValue> in_double(const std::vector<c10::IValue>& inputs);

// What `exact` would be if every tensor of the model, and every input, had been rounded once more
// in the dtype that it has in `narrow`: each number is off by up to that, at random.
Model jittered(const Model& exact, const Model& narrow, std::uint64_t seed);
std::vector<c10::IValue> jittered(const std::vector<c10::IValue>& exact,
                                  const std::vector<c10::IValue>& narrow, std::uint64_t seed);

// What one rounding may do to a number of this type, as a part of it: half of epsilon.
double rounding(c10::ScalarType dtype);

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
