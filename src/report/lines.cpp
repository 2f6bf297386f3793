// SPDX-License-Identifier: Apache-2.0

#include "report/lines.h"

#include <fmt/format.h>

#include "refx/text.h"
#include "text/spelling.h"

namespace refx {

namespace {

// One argument may hold a whole subgraph, and a call thousands of numbers.
constexpr std::size_t kLongestArgument = 200, kLongestLine = 2000;

void shorten(std::string& text, std::size_t longest) {
  if (text.size() <= longest) return;
  // Not in the middle of a character.
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) --longest;
  text.resize(longest);
  text += "...";
}

// What a value is, without how it lies in memory.
std::string brief(TensorType type) {
  type.strides.clear();
  type.requires_grad = false;
  return print(type);
}

class Line {
 public:
  explicit Line(const NodeNames& names) : names_(names) {}

  std::string of(const Node& node) {
    if (node.op == Opcode::output && node.args.size() == 1 && node.kwargs.empty()) {
      text_ = "return ";
      add(node.args[0]);
    } else {
      text_ = "%";
      append_name(text_, node.name);
      if (node.type) text_ += " : " + brief(*node.type);
      text_ += " = ";
      called(node);
    }
    shorten(text_, kLongestLine);
    return std::move(text_);
  }

 private:
  void called(const Node& node) {
    if (node.op == Opcode::call_function) {
      append_name(text_, node.target);
    } else {
      text_ += to_string(node.op);
      if (node.op != Opcode::placeholder) {
        text_ += '[';
        append_name(text_, node.target);
        text_ += ']';
      }
    }
    const bool input = node.op == Opcode::placeholder || node.op == Opcode::get_attr;
    if (input && node.args.empty() && node.kwargs.empty() && node.state.empty()) return;
    text_ += '(';
    const char* separator = "";
    for (const Arg& arg : node.args) {
      text_ += separator;
      add(arg);
      separator = ", ";
    }
    for (const auto& [key, arg] : node.kwargs) {
      text_ += separator;
      append_name(text_, key);
      text_ += '=';
      add(arg);
      separator = ", ";
    }
    if (!node.state.empty()) {
      text_ += separator;
      append_name(text_, node.state);
    }
    text_ += ')';
  }

  void all(std::string_view open, const Args& args, std::string_view close) {
    text_ += open;
    const char* separator = "";
    for (const Arg& arg : args) {
      // The whole line is cut there anyway.
      if (text_.size() > kLongestLine) break;
      text_ += separator;
      add(arg);
      separator = ", ";
    }
    text_ += close;
  }

  void add(const Arg& arg) {
    if (const auto* id = arg.get<NodeId>()) {
      text_ += '%';
      append_name(text_, names_[*id]);
    } else if (const auto* list = arg.get<List>()) {
      all("[", list->items, "]");
    } else if (const auto* tuple = arg.get<Tuple>()) {
      all("(", tuple->items, tuple->items.size() == 1 ? ",)" : ")");
    } else if (const auto* slice = arg.get<Slice>()) {
      all("slice(", slice->parts, ")");
    } else if (const auto* dict = arg.get<Dict>()) {
      text_ += '{';
      const char* separator = "";
      for (const auto& [key, value] : dict->items) {
        text_ += separator;
        add(key);
        text_ += ": ";
        add(value);
        separator = ", ";
      }
      text_ += '}';
    } else {
      std::string text = print(arg, Graph());
      shorten(text, kLongestArgument);
      text_ += text;
    }
  }

  const NodeNames& names_;
  std::string text_;
};

}  // namespace

// ---- names -------------------------------------------------------------------------------------

NodeNames::NodeNames(const Model& original, const Model& current) {
  add(original.graph());
  for (const Step& step : current.history())
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<Node>>(&edit)) {
        if (change->before) add(change->id, *change->before);
        if (change->after) add(change->id, *change->after);
      }
  add(current.graph());
}

void NodeNames::add(const Graph& graph) {
  for (NodeId id : graph) add(id, graph[id]);
}

void NodeNames::add(NodeId id, const Node& node) {
  if (id.value >= names_.size()) names_.resize(id.value + 1);
  names_[id.value] = &node.name;
}

const Name& NodeNames::operator[](NodeId id) const {
  static const Name unknown = "?";
  const bool known = id.value < names_.size() && names_[id.value];
  return known ? *names_[id.value] : unknown;
}

// ---- lines -------------------------------------------------------------------------------------

std::string line_of(const Node& node, const NodeNames& names) { return Line(names).of(node); }

std::string line_of(const StateEntry& entry) {
  std::string line(to_string(entry.kind));
  line += ' ';
  append_name(line, entry.name);
  return line + " : " + print(*type_of(entry.tensor));
}

std::string line_of(const Module& module) {
  std::string line = "module ";
  append_name(line, module.name);
  line += " : ";
  append_name(line, module.type);
  line += '(';
  const char* separator = "";
  for (const auto& [key, value] : module.parameters) {
    line += separator;
    append_name(line, key);
    line += '=' + print(value, Graph());
    separator = ", ";
  }
  line += module.training ? ") training=True" : ")";
  shorten(line, kLongestLine);
  return line;
}

}  // namespace refx
