#include "lab/sized_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/compare.h"
#include "refx/error.h"

namespace refx {

Inputs sized_inputs(const Model& model, const Inputs& given, std::int64_t batch,
                    std::uint64_t seed) {
  if (batch > 0 && !given.values.empty())
    throw Error("give inputs or the size of a batch, not both");
  if (!given.values.empty()) return given;
  if (batch > 0)
    return {generated_inputs(model, seed, 0, batch),
            fmt::format("generated with seed {}, batch {}", seed, batch)};
  return inputs_for(model, "", seed);
}

std::string describe_inputs(const Inputs& inputs) {
  std::vector<std::string> types;
  for (const c10::IValue& value : inputs.values)
    types.push_back(type_of_value(value));
  return fmt::format("{}: {}", inputs.origin, fmt::join(types, ", "));
}

}  // namespace refx
