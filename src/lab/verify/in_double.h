// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "refx/inputs.h"
#include "refx/model.h"

namespace refx {

// The model in fp64, without history: its floating-point tensors, and every dtype that its graph
// asks for. Integers stay. It is to be run under DoubleByDefault. Throws Error for a model that
// depends on the bits of a narrower type.
Model in_double(const Model& model);
// The same, where `keep` gives the tensor in fp64 for one that it has seen before.
using Widen = std::function<at::Tensor(const at::Tensor&)>;
Model in_double(const Model& model,
                const std::function<at::Tensor(const at::Tensor&, const Widen&)>& keep);
std::vector<c10::IValue> in_double(const std::vector<c10::IValue>& inputs);
Inputs in_double(Inputs inputs);

// From 1 - part to 1 + part, one for each element.
at::Tensor random_factors(const at::Tensor& like, double part, at::Generator& generator);

// What rounding may do to an entry of a state.
struct EntryRounding {
  double part = 0;  // of each number
  // If defined, how far each number is off already: as much is added, and those that are exact
  // (masks, counters) are not rounded.
  at::Tensor off = {};
};
using Roundings = std::map<StateId, EntryRounding>;

// `exact` with these entries of its state off by up to `times` their roundings, at random.
Model jittered(const Model& exact, const Roundings& entries, double times, std::uint64_t seed);

bool is_approximate(c10::ScalarType dtype);  // floating-point or complex

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
