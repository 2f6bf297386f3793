// SPDX-License-Identifier: Apache-2.0

#include "report/data.h"

#include <ATen/core/TensorBase.h>

#include <algorithm>
#include <filesystem>

#include "archive/archive.h"
#include "ir/content.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/source.h"
#include "refx/text.h"
#include "refx/tune.h"
#include "report/both_graphs.h"
#include "util/json_writer.h"

namespace refx {

namespace {

// Large arrays of numbers, without the blanks that Json writes for people.
template <class Items, class F>
std::string packed(const Items& items, F&& text) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ',';
    out += text(item);
  }
  return out + "]";
}
std::string packed(const std::vector<int>& numbers) {
  return packed(numbers, [](int n) { return std::to_string(n); });
}

std::string member(const char* name, const std::string& json) {
  return "\"" + std::string(name) + "\":" + json;
}

// ---- summary -----------------------------------------------------------------------------------

struct Size {
  explicit Size(const Model& model)
      : nodes(model.graph().size()),
        tensors(model.state().size()),
        bytes(static_cast<std::size_t>(bytes_of(model.state()))) {}
  std::string json() const {
    return "{" + member("nodes", std::to_string(nodes)) + "," +
           member("tensors", std::to_string(tensors)) + "," +
           member("bytes", std::to_string(bytes)) + "}";
  }
  std::size_t nodes, tensors, bytes;
};

// The bytes of the records that only undo needs; 0 if the file does not exist any more.
std::uint64_t history_bytes(const std::string& path) {
  std::uint64_t bytes = 0;
  try {
    const auto archive = Archive::open(path);
    for (const Record& record : archive->records())
      if (record.name.starts_with("refx/")) bytes += record.size;
  } catch (const Error&) {
    return 0;
  }
  return bytes;
}

std::string file_json(const Model& model) {
  if (!model.source()) return "null";
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(model.source()->path(), unknown);
  return "{" + member("name", json_string(file_name(model))) + "," +
         member("bytes", unknown ? "null" : std::to_string(bytes)) + "," +
         member("history", std::to_string(history_bytes(model.source()->path()))) + "}";
}

// ---- history -----------------------------------------------------------------------------------

// The lines of what a step changed: nodes in graph order, then modules, then tensors.
class StepLines {
 public:
  StepLines(const Model& model, const BothGraphs& graphs, const NodeNames& names, Strings& strings)
      : graphs_(graphs), names_(names), strings_(strings) {
    const std::vector<NodeId> places = model.graph().slots();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].value >= order_.size()) order_.resize(places[i].value + 1);
      order_[places[i].value] = i;
    }
  }

  std::string json(const Step& step) {
    std::vector<const Change<Node>*> nodes;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<Node>>(&edit)) nodes.push_back(change);
    std::sort(nodes.begin(), nodes.end(),
              [&](auto* a, auto* b) { return place(a->id) < place(b->id); });

    std::vector<int> drawn, lines;
    for (const auto* change : nodes) {
      if (const int at = graphs_.position(change->id); at >= 0) drawn.push_back(at);
      add(
          *change, [&](const Node& node) { return line_of(node, names_); }, lines);
    }
    each<Module>(step, lines);
    each<StateEntry>(step, lines);

    return "{" + member("id", std::to_string(step.id.value)) + "," +
           member("transformation", std::to_string(strings_.of(step.transformation))) + "," +
           member("signature", std::to_string(strings_.of(step.signature))) + "," +
           member("parameters", to_json(step.parameters)) + "," +
           member("site", json_string(step.site)) + "," +
           member("bytes", std::to_string(step.bytes())) + "," + member("nodes", packed(drawn)) +
           "," + member("lines", packed(lines)) + "}";
  }

 private:
  std::size_t place(NodeId id) const { return id.value < order_.size() ? order_[id.value] : 0; }

  template <class T>
  void each(const Step& step, std::vector<int>& lines) {
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<T>>(&edit))
        add(
            *change, [](const T& value) { return line_of(value); }, lines);
  }

  template <class T, class F>
  void add(const Change<T>& change, F&& line, std::vector<int>& lines) {
    std::string before = change.before ? line(*change.before) : "";
    std::string after = change.after ? line(*change.after) : "";
    if (before == after) {
      if constexpr (std::is_same_v<T, StateEntry>)
        after += "  # new values";
      else
        return;  // only marks or metadata
    }
    lines.push_back(before.empty() ? -1 : strings_.of(std::move(before)));
    lines.push_back(after.empty() ? -1 : strings_.of(std::move(after)));
  }

  const BothGraphs& graphs_;
  const NodeNames& names_;
  Strings& strings_;
  std::vector<std::size_t> order_;
};

// ---- graph -------------------------------------------------------------------------------------

std::string graph_json(const BothGraphs& graphs) {
  const auto column = [&](int DrawnNode::*field) {
    return packed(graphs.nodes(), [&](const DrawnNode& n) { return std::to_string(n.*field); });
  };
  // {"12":[3,4]}: a member for each node that the condition holds for.
  const auto where = [&](auto&& holds, auto&& text) {
    std::string out;
    for (std::size_t i = 0; i < graphs.nodes().size(); ++i)
      if (const DrawnNode& n = graphs.nodes()[i]; holds(n))
        out += (out.empty() ? "" : ",") + member(std::to_string(i).c_str(), text(n));
    return "{" + out + "}";
  };
  return "{" + member("name", column(&DrawnNode::name)) + "," +
         member("op", column(&DrawnNode::op)) + "," + member("path", column(&DrawnNode::path)) +
         "," + member("before", column(&DrawnNode::before)) + "," +
         member("after", column(&DrawnNode::after)) + "," +
         member("inputs",
                packed(graphs.nodes(), [](const DrawnNode& n) { return packed(n.inputs); })) +
         "," +
         member("label", where([](const DrawnNode& n) { return n.label >= 0; },
                               [](const DrawnNode& n) { return std::to_string(n.label); })) +
         "," +
         member("op_before",
                where([](const DrawnNode& n) { return n.before >= 0 && n.op_before != n.op; },
                      [](const DrawnNode& n) { return std::to_string(n.op_before); })) +
         "," +
         member(
             "inputs_before",
             where([](const DrawnNode& n) { return n.before >= 0 && n.inputs_before != n.inputs; },
                   [](const DrawnNode& n) { return packed(n.inputs_before); })) +
         "}";
}

// ---- results -----------------------------------------------------------------------------------

template <class Result>
std::string result_json(const Result* result, const std::string& why_not) {
  if (result) return to_json(*result);
  return "{" + member("missing", json_string(why_not.empty() ? "It was not run." : why_not)) + "}";
}

// Escapes every '<': inside a <script>, "</script>" would end it and "<!--" would start a comment.
// In JSON, '<' occurs only in strings, where an escape means the same.
std::string without_tags(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

}  // namespace

std::string file_name(const Model& model) {
  return model.source() ? std::filesystem::path(model.source()->path()).filename().string() : "";
}

std::string page_data(const Model& model, const ReportOptions& options, const std::string& title) {
  const Model original = original_of(model);
  const NodeNames names(original, model);
  Strings strings;
  const BothGraphs graphs(original, model, names, strings);

  StepLines lines(model, graphs, names, strings);
  std::vector<std::string> steps;
  for (const Step& step : model.history()) steps.push_back(lines.json(step));

  return without_tags(
      "{" + member("title", json_string(title)) + "," +
      member("version", json_string(REFX_VERSION)) + "," + member("file", file_json(model)) +
      ",\n" + member("before", Size(original).json()) + "," + member("after", Size(model).json()) +
      ",\n" + member("verification", result_json(options.verification, options.not_verified)) +
      ",\n" + member("benchmark", result_json(options.benchmark, options.not_benchmarked)) + ",\n" +
      member("sensitivity", options.sensitivity ? to_json(*options.sensitivity) : "null") + ",\n" +
      member("tuning", options.tuning ? to_json(*options.tuning) : "null") + ",\n" +
      member("steps", packed(steps, [](const std::string& step) { return step; })) + ",\n" +
      member("nodes", graph_json(graphs)) + ",\n" +
      member("strings",
             packed(strings.all(), [](const std::string* s) { return json_string(*s); })) +
      "}");
}

}  // namespace refx
