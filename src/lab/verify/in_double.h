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

// Converts a model to fp64, without its history: the floating-point tensors, and every dtype that
// the graph names. Integers stay. Run the result under DoubleByDefault. Throws Error for a model
// that reinterprets the bits of its numbers.
Model in_double(const Model& model);
// The same, with a cache: `keep` returns the fp64 version of a tensor, and may call the given
// function to create it.
using Widen = std::function<at::Tensor(const at::Tensor&)>;
Model in_double(const Model& model,
                const std::function<at::Tensor(const at::Tensor&, const Widen&)>& keep);
std::vector<c10::IValue> in_double(const std::vector<c10::IValue>& inputs);
Inputs in_double(Inputs inputs);

// Uniform random numbers between 1 - part and 1 + part, one for each element.
at::Tensor random_factors(const at::Tensor& like, double part, at::Generator& generator);

// The possible rounding error of an entry of the state.
struct EntryRounding {
  double part = 0;  // relative to each number
  // If defined: the error that each number already has. It is added to the possible error; numbers
  // without an error (masks, counters) are not rounded.
  at::Tensor off = {};
};
using Roundings = std::map<StateId, EntryRounding>;

// A copy of `exact` whose entries are perturbed at random, by up to `times` their roundings.
Model jittered(const Model& exact, const Roundings& entries, double times, std::uint64_t seed);

bool is_approximate(c10::ScalarType dtype);  // floating-point or complex

// The largest relative error of one rounding to this dtype: half of its epsilon.
double rounding(c10::ScalarType dtype);

// Makes fp64 the default dtype of torch during its lifetime, for operators that create tensors.
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
