// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph_json/graph_text.h"
#include "graph_json/read_json.h"
#include "refx/editor.h"

namespace c10 {
struct FunctionSchema;
}

namespace refx {

// Reads the "graph" object of a program, or of a subgraph in it, into an empty model: first the
// values, then inputs, nodes and outputs. Remembers in a GraphText which text stands for what.
class GraphReader {
 public:
  GraphReader(JsonDocument& document, GraphText& text, Editor& editor)
      : document_(document), text_(text), editor_(editor) {}

  // What a program's signature says of an input; a subgraph's inputs have none.
  struct InputSpec {
    std::string_view text;
    std::string state;     // bound state entry
    std::string constant;  // name of a constant input
  };

  void values(ondemand::object& graph);
  std::size_t inputs(ondemand::object& graph, const std::vector<InputSpec>& specs = {});
  void nodes(ondemand::object& graph);
  Tuple outputs(ondemand::object& graph);

  // Appends a node whose text this is.
  NodeId add(Node node, std::string_view text, std::string_view spec = {});

 private:
  struct Value {
    TypePtr type;
    std::string_view text;
  };
  struct Output {
    std::string name;           // empty: nothing is made
    std::vector<Output> items;  // of a list
    bool is_list = false;
  };
  enum class How : std::int64_t { unsaid = 0, by_position = 1, by_name = 2 };
  struct Input {
    std::string name;
    Arg arg;
    How how = How::unsaid;
  };

  TypePtr type_of(std::string_view text, ondemand::object meta);
  void remember_expression(ondemand::object object);
  void input(ondemand::object object, std::size_t position, const InputSpec& spec);
  void node(ondemand::object object);
  void getitems(NodeId of, const std::vector<Output>& outputs, const MetaPtr& meta);
  std::string unused_name(std::string_view base);
  std::vector<Output> node_outputs(ondemand::array array);
  std::string value_name(std::string_view name);
  std::vector<Input> node_inputs(ondemand::array array);
  void bind(Node& node, std::vector<Input> inputs);
  void check_names(const Node& node, const c10::FunctionSchema* schema);
  const c10::FunctionSchema* schema_of(const std::string& target);
  static MetaPtr metadata(ondemand::object object);

  JsonDocument& document_;
  GraphText& text_;
  Editor& editor_;
  std::unordered_map<std::string_view, TypePtr> types_;  // by their text
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, const c10::FunctionSchema*> schemas_;
  std::unordered_map<std::string, std::size_t> unused_from_;  // the first number to try, by stem
};

}  // namespace refx
