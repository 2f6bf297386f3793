// SPDX-License-Identifier: Apache-2.0

#include "refx/diff.h"

#include <ATen/core/TensorBase.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "diff/align.h"
#include "diff/compare_values.h"
#include "ops/names.h"
#include "refx/source.h"
#include "refx/text.h"
#include "text/spelling.h"

namespace refx {

namespace {

using Line = Difference::Line;
using Names = std::vector<std::string_view>;

std::string spelled(std::string_view name) {
  std::string out;
  append_name(out, name);
  return out;
}

// Adds a line for every aligned pair that is not the same; `compare(i, j)` gives one for a pair.
template <class Text, class Compare>
std::vector<Line> lines(const Names& before, const Names& after, Text&& text, Compare&& compare) {
  std::vector<Line> result;
  for (const Aligned& pair : align(before, after)) {
    Line line;
    bool differs = true;
    line.name = pair.after ? after[*pair.after] : before[*pair.before];
    line.moved = pair.moved;
    if (pair.before && pair.after) {
      differs = compare(*pair.before, *pair.after, line) || pair.moved;
      if (differs && line.before.empty()) {
        line.before = text(0, *pair.before);
        line.after = text(1, *pair.after);
      }
    } else if (pair.before) {
      line.before = text(0, *pair.before);
    } else {
      line.after = text(1, *pair.after);
    }
    if (differs) result.push_back(std::move(line));
  }
  return result;
}

// ---- lines that are all text -------------------------------------------------------------------

struct Text {
  std::string name, line;
};

std::vector<Line> compare_texts(const std::vector<Text>& a, const std::vector<Text>& b) {
  Names names[2];
  for (const Text& t : a) names[0].push_back(t.name);
  for (const Text& t : b) names[1].push_back(t.name);
  return lines(
      names[0], names[1],
      [&](int side, std::size_t i) { return side == 0 ? a[i].line : b[i].line; },
      [&](std::size_t i, std::size_t j, Line&) { return a[i].line != b[j].line; });
}

std::vector<Text> modules_of(const Model& model) {
  std::vector<Text> texts;
  for (ModuleId id : model.modules()) {
    const Module& module = model.modules()[id];
    std::string line = fmt::format("module {} : {}(", spelled(module.name), spelled(module.type));
    const char* separator = "";
    for (const auto& [key, value] : module.parameters) {
      line += separator + spelled(key) + "=" + print(value, model.graph());
      separator = ", ";
    }
    line += ')';
    if (module.training) line += " training=True";
    if (!module.custom.empty()) {
      line += " custom=";
      append_string(line, module.custom);
    }
    texts.push_back({module.name, std::move(line)});
  }
  return texts;
}

std::vector<Text> mutations_of(const Model& model) {
  std::vector<Text> texts;
  for (const Mutation& m : model.mutations())
    texts.push_back({m.target, fmt::format("mutates {} = output {}", spelled(m.target), m.output)});
  return texts;
}

std::vector<Text> interface_of(const Model& model) {
  std::vector<Text> texts;
  const Source* source = model.source().get();
  if (!source) return texts;
  texts.push_back({"inputs", fmt::format("inputs {}", source->input_spec())});
  texts.push_back({"results", fmt::format("results {}", source->output_spec())});
  for (const auto& [symbol, range] : source->ranges())
    texts.push_back({symbol, fmt::format("range {} : {} to {}", symbol,
                                         range.min ? std::to_string(*range.min) : "-inf",
                                         range.max ? std::to_string(*range.max) : "inf")});
  return texts;
}

// ---- state -------------------------------------------------------------------------------------

// The entries of one model, and whose storage each uses.
struct Entries {
  explicit Entries(const Model& model) {
    std::unordered_map<const void*, const StateEntry*> owners;
    for (StateId id : model.state()) {
      const StateEntry& entry = model.state()[id];
      const bool plain = entry.tensor.has_storage() && entry.tensor.layout() == c10::kStrided;
      const StateEntry* owner =
          plain ? owners.try_emplace(entry.tensor.storage().unsafeGetStorageImpl(), &entry)
                      .first->second
                : &entry;
      all.push_back({&entry, owner});
      names.push_back(entry.name);
    }
  }

  std::string text(std::size_t i) const {
    const auto& [entry, owner] = all[i];
    std::string line = fmt::format("{} {} : {}", to_string(entry->kind), spelled(entry->name),
                                   print(*type_of(entry->tensor)));
    if (!entry->persistent) line += " persistent=False";
    if (owner != entry) line += " shares=" + spelled(owner->name);
    return line;
  }

  std::vector<std::pair<const StateEntry*, const StateEntry*>> all;
  Names names;
};

bool comparable(const at::TensorBase& a, const at::TensorBase& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

std::vector<Line> compare_state(const Model& a, const Model& b) {
  const Entries entries[2] = {Entries(a), Entries(b)};
  return lines(
      entries[0].names, entries[1].names,
      [&](int side, std::size_t i) { return entries[side].text(i); },
      [&](std::size_t i, std::size_t j, Line& line) {
        const at::TensorBase& before = entries[0].all[i].first->tensor;
        const at::TensorBase& after = entries[1].all[j].first->tensor;
        if (comparable(before, after)) line.values = compare_values(before, after);
        return line.values.has_value() || entries[0].text(i) != entries[1].text(j);
      });
}

// ---- nodes -------------------------------------------------------------------------------------

// As print() has it, without what follows from other nodes (num_users, strides of results) and from
// the history (marks).
std::string text_of(const Graph& graph, const Node& node) {
  if (node.op == Opcode::output && node.args.size() == 1 && node.kwargs.empty())
    return "return " + print(node.args[0], graph);
  std::string line = "%" + spelled(node.name) + " : ";
  const bool input = node.op == Opcode::placeholder || node.op == Opcode::get_attr;
  if (node.type) {
    TensorType type = *node.type;
    if (!input) type.strides.clear();
    line += print(type) + " ";
  }
  line += fmt::format("= {}[target={}]", to_string(node.op), spelled(node.target));
  if (!input || !node.args.empty() || !node.kwargs.empty()) {
    line += "(args = " + print(Tuple{node.args}, graph) + ", kwargs = {";
    const char* separator = "";
    for (const auto& [key, value] : node.kwargs) {
      line += separator + spelled(key) + ": " + print(value, graph);
      separator = ", ";
    }
    line += "})";
  }
  if (!node.state.empty()) line += "(state=" + spelled(node.state) + ")";
  return line;
}

// The metadata that the other node does not have, or has with another value.
std::string own_meta(const Node& node, const Node& other) {
  std::string text;
  if (!node.meta) return text;
  const Meta none;
  const Meta& others = other.meta ? *other.meta : none;
  for (const auto& entry : *node.meta) {
    if (std::find(others.begin(), others.end(), entry) != others.end()) continue;
    text += text.empty() ? "  # meta {" : ", ";
    text += spelled(entry.first) + ": ";
    append_string(text, entry.second);
  }
  return text.empty() ? text : text + "}";
}

bool same_meta(const Node& a, const Node& b) {
  if (a.meta == b.meta) return true;
  const Meta none;
  return (a.meta ? *a.meta : none) == (b.meta ? *b.meta : none);
}

std::string path_of(const Node& node) {
  if (const std::string_view state = bound_state(node); state.find('.') != state.npos)
    return std::string(owner_path(state));
  std::string place = node_path(node);
  place.erase(place.size() - node.name.size());
  if (place.ends_with('.')) place.pop_back();
  return place;
}

std::vector<Line> compare_nodes(const Graph& a, const Graph& b) {
  const Graph* graphs[2] = {&a, &b};
  std::vector<NodeId> ids[2];
  Names names[2];
  for (int side : {0, 1})
    for (NodeId id : *graphs[side]) {
      ids[side].push_back(id);
      names[side].push_back((*graphs[side])[id].name);
    }
  std::vector<Line> result = lines(
      names[0], names[1],
      [&](int side, std::size_t i) {
        return text_of(*graphs[side], (*graphs[side])[ids[side][i]]);
      },
      [&](std::size_t i, std::size_t j, Line& line) {
        // One object in two copies of a model: it refers to the same nodes in both.
        if (a.pointer(ids[0][i]) == b.pointer(ids[1][j])) return false;
        const Node &before = a[ids[0][i]], &after = b[ids[1][j]];
        std::string texts[2] = {text_of(a, before), text_of(b, after)};
        const bool meta = !same_meta(before, after);
        if (texts[0] == texts[1] && !meta) return false;
        line.before = std::move(texts[0]);
        line.after = std::move(texts[1]);
        if (meta) {
          line.before += own_meta(before, after);
          line.after += own_meta(after, before);
        }
        return true;
      });
  for (Line& line : result) {
    const Graph& graph = line.after.empty() ? a : b;
    line.path = path_of(graph[graph.find(line.name)]);
  }
  return result;
}

}  // namespace

Difference diff(const Model& a, const Model& b) {
  Difference difference;
  if (a.source() != b.source())
    difference.interface = compare_texts(interface_of(a), interface_of(b));
  difference.state = compare_state(a, b);
  difference.modules = compare_texts(modules_of(a), modules_of(b));
  difference.mutations = compare_texts(mutations_of(a), mutations_of(b));
  difference.nodes = compare_nodes(a.graph(), b.graph());
  return difference;
}

}  // namespace refx
