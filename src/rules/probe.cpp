#include "rules/probe.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <map>

#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"

namespace refx::rules {

TypePtr probed_type(const Node& call, const TypeOfValue& type_of, bool compared) try {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  Builder builder;
  std::map<NodeId, NodeId> inputs;
  std::vector<c10::IValue> values;
  bool known = true;
  c10::Device device = at::kCPU;
  std::map<std::int64_t, Dim> symbols;  // by what they were in the example
  for_each_input(call, [&](NodeId id) {
    const TypePtr type = type_of(id);
    if (!known || inputs.contains(id)) return;
    if (!type) {
      known = false;
      return;
    }
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : type->sizes) {
      if (!dim.known()) {
        if (dim.value < 2 || !compared) known = false;
        if (!symbols.emplace(dim.value, dim).second && symbols[dim.value].expr != dim.expr)
          known = false;
      }
      sizes.push_back(dim.value);
    }
    if (!known) return;
    device = type->device;
    const std::string name = "x" + std::to_string(inputs.size());
    inputs.emplace(id, builder.input(name, type));
    values.emplace_back(at::empty(sizes, at::TensorOptions(type->dtype).device(at::kMeta)));
  });
  if (!known) return nullptr;
  std::function<Arg(const Arg&)> moved = [&](const Arg& arg) -> Arg {
    if (const NodeId* id = arg.get<NodeId>()) return inputs.at(*id);
    const List* list = arg.get<List>();
    if (!list) return arg;
    List items;
    for (const Arg& item : list->items) items.items.push_back(moved(item));
    return items;
  };
  Args args;
  Kwargs kwargs;
  for (const Arg& arg : call.args) args.push_back(moved(arg));
  for (const auto& [key, arg] : call.kwargs) kwargs.emplace_back(key, moved(arg));
  const NodeId result = builder.call(call.target, std::move(args), std::move(kwargs));
  const c10::IValue value = Executor(builder.build(result)).run(values);
  if (!value.isTensor()) return nullptr;
  auto type = std::make_shared<TensorType>(*refx::type_of(value.toTensor()));
  type->strides.clear();
  type->device = device;
  for (Dim& dim : type->sizes)
    if (const auto it = symbols.find(dim.value); it != symbols.end()) dim = it->second;
  return type;
} catch (const std::exception&) {
  return nullptr;  // such arguments do not go together
}

}  // namespace refx::rules
