#include "rules/probe.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <map>

#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"

namespace refx::rules {

namespace {

// What symbols are taken for: sizes that nothing else has, so that they are known again.
constexpr std::array<std::int64_t, 8> kSizes = {10007, 10009, 10037, 10039,
                                                10061, 10067, 10069, 10079};

}  // namespace

TypePtr probed_type(const Node& call, const TypeOfValue& type_of) try {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  Builder builder;
  std::map<NodeId, NodeId> inputs;
  std::vector<c10::IValue> values;
  bool known = true;
  c10::Device device = at::kCPU;
  std::vector<Dim> symbols;
  for_each_input(call, [&](NodeId id) {
    const TypePtr type = type_of(id);
    if (!known || inputs.contains(id)) return;
    if (!type) {
      known = false;
      return;
    }
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : type->sizes) {
      if (dim.known()) {
        sizes.push_back(dim.value);
        continue;
      }
      const auto same = [&](const Dim& other) { return other.expr == dim.expr; };
      const auto it = std::find_if(symbols.begin(), symbols.end(), same);
      const auto at = static_cast<std::size_t>(it - symbols.begin());
      // An expression of symbols is no symbol of its own.
      const bool plain = dim.expr.find_first_of(" +-*/()") == dim.expr.npos;
      if (!plain || at == kSizes.size()) {
        known = false;
        return;
      }
      if (it == symbols.end()) symbols.push_back(dim);
      sizes.push_back(kSizes[at]);
    }
    if (!known) return;
    device = type->device;
    const std::string name = "x" + std::to_string(inputs.size());
    inputs.emplace(id, builder.input(name));
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
  Executor executor(builder.build(result));
  executor.use_plans(false);  // which look at numbers, and there are none
  const c10::IValue value = executor.run(values);
  if (!value.isTensor()) return nullptr;
  auto type = std::make_shared<TensorType>(*refx::type_of(value.toTensor()));
  type->strides.clear();
  type->device = device;
  for (Dim& dim : type->sizes) {
    if (symbols.empty() || dim.value < kSizes[0]) continue;
    const auto it = std::find(kSizes.begin(), kSizes.end(), dim.value);
    const auto at = static_cast<std::size_t>(it - kSizes.begin());
    if (at >= symbols.size()) return nullptr;  // computed from symbols
    dim = symbols[at];
  }
  return type;
} catch (const std::bad_alloc&) {  // says nothing about them
  throw;
} catch (const std::exception&) {
  return nullptr;  // such arguments do not go together
}

}  // namespace refx::rules
