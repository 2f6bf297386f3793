// SPDX-License-Identifier: Apache-2.0

#include "lab/run/on_device.h"

#include <algorithm>

#include "ir/map_arg.h"
#include "lab/run/converted.h"

namespace refx {

namespace {

// A tensor that refx carries but cannot open is nowhere.
bool stays(const at::TensorBase& tensor, c10::Device device) {
  return tensor.device() == device || tensor.is_meta();
}

}  // namespace

Model on_device(const Model& model, c10::Device device) {
  const State& state = model.state();
  if (std::all_of(state.begin(), state.end(),
                  [&](StateId id) { return stays(state.tensor(id), device); }))
    return model;
  const auto move = [&](const Arg& arg) { return arg.is<c10::Device>() ? Arg(device) : arg; };
  return converted(
      model,
      [&](const at::Tensor& tensor) {
        return stays(tensor, device) ? tensor : tensor.detach().to(device);
      },
      [&](Node& node) { map_arguments(node, move); });
}

std::vector<c10::IValue> on_device(const std::vector<c10::IValue>& inputs, c10::Device device) {
  std::vector<c10::IValue> moved;
  for (const c10::IValue& input : inputs)
    moved.push_back(input.isTensor() ? c10::IValue(input.toTensor().to(device)) : input);
  return moved;
}

Inputs on_device(Inputs inputs, c10::Device device) {
  inputs.values = on_device(inputs.values, device);
  for (auto& call : inputs.next) call = on_device(call, device);
  return inputs;
}

}  // namespace refx
