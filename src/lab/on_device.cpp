#include "lab/on_device.h"

#include "lab/converted.h"

namespace refx {

Model on_device(const Model& model, c10::Device device) {
  const auto move = [&](const Arg& arg) { return arg.is<c10::Device>() ? Arg(device) : arg; };
  return converted(
      model, [&](const at::Tensor& tensor) { return tensor.detach().to(device); },
      [&](Node& node) { map_arguments(node, move); });
}

std::vector<c10::IValue> on_device(const std::vector<c10::IValue>& inputs, c10::Device device) {
  std::vector<c10::IValue> moved;
  for (const c10::IValue& input : inputs)
    moved.push_back(input.isTensor() ? c10::IValue(input.toTensor().to(device)) : input);
  return moved;
}

}  // namespace refx
