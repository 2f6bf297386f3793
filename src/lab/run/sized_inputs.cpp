// SPDX-License-Identifier: Apache-2.0

#include "lab/run/sized_inputs.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "io/placeholders.h"
#include "lab/run/run_once.h"
#include "refx/error.h"
#include "refx/text.h"

namespace refx {

namespace {

Inputs first_inputs(const Model& model, const Measure& measure) {
  const std::int64_t batch = measure.batch;
  const std::uint64_t seed = measure.seed;
  if (batch > 0 && !measure.inputs.values.empty())
    throw Error("give inputs or a batch size, not both");
  if (!measure.inputs.values.empty()) return measure.inputs;
  if (batch > 0)
    return {generated_inputs(model, seed, 0, batch),
            fmt::format("generated with seed {}, batch {}", seed, batch)};
  return inputs_for(model, "", seed);
}

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

void require_valid(const Measure& measure) {
  if (measure.steps < 0)
    throw Error(fmt::format("the number of steps must be 0 or more, not {}", measure.steps));
  if (measure.batch < 0)
    throw Error(fmt::format("the batch size must be 1 or more, not {}", measure.batch));
  if (!(measure.seconds > 0) || std::isinf(measure.seconds))
    throw Error(
        fmt::format("the seconds must be a finite number greater than 0, not {}", measure.seconds));
  require_threads(measure.threads.value_or(0));
}

Inputs sized_inputs(const Model& model, const Measure& measure) {
  require_valid(measure);
  return with_steps(model, first_inputs(model, measure), measure.steps, measure.seed);
}

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
  const std::string calls = inputs.next.empty() ? "" : fmt::format(", {} calls", inputs.calls());
  return fmt::format("{}{}, {}", inputs.origin, calls, fmt::join(types, ", "));
}

std::int64_t count_tokens(const Model& model, const Inputs& inputs) {
  const std::vector<NodeId> placeholders = user_placeholders(model);
  const std::vector<InputRole> roles = input_roles(model);
  std::int64_t tokens = 0;
  for (const auto& call : inputs.next)
    for (std::size_t i = 0; i < call.size() && i < roles.size(); ++i) {
      const TypePtr& type = model.graph()[placeholders[i]].type;
      if (roles[i] == InputRole::fresh && call[i].isTensor() &&
          c10::isIntegralType(type->dtype, /*includeBool=*/false))
        tokens = std::max(tokens, call[i].toTensor().numel());
    }
  return tokens * static_cast<std::int64_t>(inputs.next.size());
}

}  // namespace refx
