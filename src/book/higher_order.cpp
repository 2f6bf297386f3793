// SPDX-License-Identifier: Apache-2.0

#include "book/higher_order.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <string_view>

namespace refx::book {

namespace {

constexpr std::string_view kSpace = "higher_order.";

std::optional<Args> items(const Arg& arg) {
  if (const auto* list = arg.get<List>()) return list->items;
  if (const auto* tuple = arg.get<Tuple>()) return tuple->items;
  return std::nullopt;
}

Args rest(const Args& args, std::size_t from) {
  return from < args.size() ? Args(args.begin() + static_cast<std::ptrdiff_t>(from), args.end())
                            : Args{};
}

std::optional<Autocast> autocast_of(const Args& args) {
  const auto* device = args[0].get<std::string>();
  const auto* enabled = args[2].get<bool>();
  if (!device || !enabled) return std::nullopt;
  Autocast out{.enabled = *enabled};
  try {
    out.device = c10::Device(*device).type();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  if (const auto* dtype = args[1].get<c10::ScalarType>()) out.dtype = *dtype;
  // No dtype means the default of the device.
  else if (!args[1].is<None>())
    return std::nullopt;
  return out;
}

}  // namespace

bool is_higher_order(const Node& node) {
  return node.op == Opcode::call_function && node.target.starts_with(kSpace);
}

std::optional<HigherOrder> higher_order(const Node& node) {
  using Construct = HigherOrder::Construct;
  if (!is_higher_order(node)) return std::nullopt;
  const std::string_view name = std::string_view(node.target).substr(kSpace.size());
  const Args& args = node.args;
  // The subgraph at `at`, called with what follows it.
  const auto wrap = [&](std::size_t at, std::size_t first) -> std::optional<HigherOrder> {
    if (args.size() < first) return std::nullopt;
    return HigherOrder{.kind = Construct::wrap, .subgraphs = {at}, .fixed = rest(args, first)};
  };
  const auto lists = [&](std::size_t from, std::vector<Args*> into) {
    if (args.size() != from + into.size()) return false;
    for (std::size_t i = 0; i < into.size(); ++i) {
      auto given = items(args[from + i]);
      if (!given) return false;
      *into[i] = std::move(*given);
    }
    return true;
  };
  HigherOrder out;
  // Arguments: enabled, the subgraph, its inputs. Runs are without gradients in any case.
  if (name == "wrap_with_set_grad_enabled") return wrap(1, 2);
  if (name == "wrap_with_autocast") {
    // Arguments: device, dtype, enabled, cache_enabled, the subgraph, its inputs.
    auto region = wrap(4, 5);
    if (!region || !(region->autocast = autocast_of(args))) return std::nullopt;
    return region;
  }
  if (name == "wrap" || name == "wrap_activation_checkpoint" || name == "tag_activation_checkpoint")
    return node.kwargs.empty() ? wrap(0, 1) : std::nullopt;
  // Arguments: the subgraph, its identifier, its inputs.
  if (name == "invoke_subgraph") return wrap(0, 2);
  if (name == "strict_mode") {
    out.subgraphs = {0};
    return lists(1, {&out.fixed}) ? std::optional(out) : std::nullopt;
  }
  if (name == "cond") {
    // Arguments: the condition, two subgraphs, and the inputs of both.
    out = {.kind = Construct::cond, .subgraphs = {1, 2}};
    return lists(3, {&out.fixed}) ? std::optional(out) : std::nullopt;
  }
  if (name == "while_loop") {
    out = {.kind = Construct::while_loop, .subgraphs = {0, 1}};
    return lists(2, {&out.carried, &out.fixed}) ? std::optional(out) : std::nullopt;
  }
  if (name == "scan") {
    // Arguments: the body, initial values, the tensors to iterate over, further inputs.
    out = {.kind = Construct::scan, .subgraphs = {0}};
    return lists(1, {&out.carried, &out.sliced, &out.fixed}) ? std::optional(out) : std::nullopt;
  }
  if (name == "map_impl" || name == "map") {
    out = {.kind = Construct::map, .subgraphs = {0}};
    return lists(1, {&out.sliced, &out.fixed}) ? std::optional(out) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace refx::book
