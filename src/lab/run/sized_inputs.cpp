#include "lab/run/sized_inputs.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/placeholders.h"
#include "lab/run/run_once.h"
#include "refx/error.h"
#include "refx/text.h"

namespace refx {

Inputs sized_inputs(const Model& model, const Measure& measure) {
  const std::int64_t batch = measure.batch;
  const std::uint64_t seed = measure.seed;
  if (batch > 0 && !measure.inputs.values.empty())
    throw Error("give inputs or the size of a batch, not both");
  if (!measure.inputs.values.empty()) return measure.inputs;
  if (batch > 0)
    return {generated_inputs(model, seed, 0, batch),
            fmt::format("generated with seed {}, batch {}", seed, batch)};
  return inputs_for(model, "", seed);
}

namespace {

bool fits(const TensorType& type, const at::Tensor& tensor) {
  if (type.dtype != tensor.scalar_type() ||
      type.sizes.size() != static_cast<std::size_t>(tensor.dim()))
    return false;
  for (std::size_t i = 0; i < type.sizes.size(); ++i)
    if (type.sizes[i].known() && type.sizes[i].value != tensor.size(static_cast<std::int64_t>(i)))
      return false;
  return true;
}

}  // namespace

void check_inputs_fit(const Model& model, const std::vector<c10::IValue>& inputs,
                      const std::string& name) {
  const std::vector<NodeId> placeholders = user_placeholders(model);
  if (placeholders.size() != inputs.size())
    throw Error(
        fmt::format("{} takes {} inputs, not {}", name, placeholders.size(), inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = model.graph()[placeholders[i]];
    if (node.type && inputs[i].isTensor() && !fits(*node.type, inputs[i].toTensor()))
      throw Error(fmt::format("{} takes {} as '{}', not {}", name, print(*node.type), node.name,
                              type_of_value(inputs[i])));
  }
}

std::string describe_inputs(const Inputs& inputs) {
  std::vector<std::string> types;
  for (const c10::IValue& value : inputs.values) types.push_back(type_of_value(value));
  return fmt::format("{}: {}", inputs.origin, fmt::join(types, ", "));
}

}  // namespace refx
