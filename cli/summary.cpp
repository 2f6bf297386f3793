// SPDX-License-Identifier: Apache-2.0

#include "summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace refx::cli {

namespace {

// What a node calls; empty for inputs, outputs and attributes.
std::string called(const Model& model, const Node& node) {
  switch (node.op) {
    case Opcode::call_function:
      return node.target;
    case Opcode::call_method:
      return "Tensor." + node.target;
    case Opcode::call_module: {
      const ModuleId id = model.modules().find(node.target);
      return id ? model.modules()[id].type : std::string(node.target);
    }
    default:
      return {};
  }
}

}  // namespace

Counts operators(const Model& model) {
  Counts counts;
  for (NodeId id : model.graph())
    if (std::string name = called(model, model.graph()[id]); !name.empty()) ++counts[name];
  return counts;
}

std::size_t total(const Counts& counts) {
  std::size_t sum = 0;
  for (const auto& [name, n] : counts) sum += n;
  return sum;
}

Json& write(Json& json, const Counts& counts) {
  json.object();
  for (const auto& [name, n] : counts) json.member(name, n);
  return json.end();
}

void write_refusal(Json& json, const Model& model, const std::string& transformation,
                   const Refusal& refusal) {
  json.object().member("transformation", transformation).member("site", refusal.site.name);
  json.member("code", code(refusal.reason)).member("reason", to_string(refusal.reason));
  json.key("nodes").array();
  for (NodeId id : refusal.nodes())
    if (const Node* node = model.graph().find(id)) json.value(node->name);
  json.end().end();
}

std::string originals(const std::vector<DetachedTensor>& tensors) {
  return fmt::format("{} ({})", count(tensors.size(), "original"),
                     human_bytes(total_bytes(tensors)));
}

std::size_t total_bytes(const std::vector<DetachedTensor>& tensors) {
  std::size_t sum = 0;
  for (const DetachedTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

TextTable changes(const Counts& before, const Counts& after) {
  Counts names = before;
  names.insert(after.begin(), after.end());
  auto of = [](const Counts& counts, const std::string& name) {
    const auto it = counts.find(name);
    return it == counts.end() ? 0 : it->second;
  };
  std::vector<std::tuple<std::string, std::size_t, std::size_t>> rows;
  for (const auto& [name, n] : names)
    if (of(before, name) != of(after, name))
      rows.emplace_back(name, of(before, name), of(after, name));
  rows.emplace_back("all operators", total(before), total(after));

  std::size_t width = 0;
  for (const auto& [name, from, to] : rows) width = std::max(width, std::to_string(from).size());
  TextTable table;
  for (const auto& [name, from, to] : rows)
    table.row({name, fmt::format("{:>{}} -> {}", from, width, to)});
  return table;
}

}  // namespace refx::cli
