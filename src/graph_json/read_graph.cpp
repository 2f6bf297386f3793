// SPDX-License-Identifier: Apache-2.0

#include "graph_json/read_graph.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include <algorithm>

#include "book/schemas.h"
#include "graph_json/read_arg.h"
#include "graph_json/tensor_meta.h"

namespace refx {

namespace {

std::string name_in(ondemand::value value, std::string_view key) {
  ondemand::object object = value.get_object();
  auto name = find_field(object, key);
  return name ? string_in(*name) : "";
}

}  // namespace

// ---- values -------------------------------------------------------------------------------------

void GraphReader::values(ondemand::object& graph) {
  {
    const Trail::Step in(document_.trail, "tensor_values");
    ondemand::object tensors = graph["tensor_values"].get_object();
    text_.parts.tensor_values = slice(tensors);
    Value last;
    for (auto field : tensors) {
      std::string name(field.unescaped_key().value());
      const Trail::Step at(document_.trail, name);
      ondemand::object meta = field.value().get_object();
      Value value;
      value.text = slice(meta);
      value.type = value.text == last.text ? last.type : type_of(value.text, meta);
      last = value;
      if (!values_.emplace(name, value).second)
        document_.fail(fmt::format("'{}' appears twice", name));
    }
  }
  for (const char* kind : {"sym_int", "sym_float", "sym_bool"}) {
    const std::string key = fmt::format("{}_values", kind);
    const Trail::Step in(document_.trail, kind);
    auto stored = find_field(graph, key);
    if (!stored) continue;
    ondemand::object all = stored->get_object();
    text_.symbolic_parts[kind] = slice(all);
    for (auto field : all) {
      std::string name(field.unescaped_key().value());
      ondemand::object value = field.value().get_object();
      text_.symbolic_texts[name] = slice(value);
      if (kind == std::string_view("sym_int")) remember_expression(value);
      if (values_.count(name) || !text_.symbolic.emplace(name, kind).second)
        document_.fail(fmt::format("'{}' appears twice", name));
    }
  }
}

TypePtr GraphReader::type_of(std::string_view text, ondemand::object meta) {
  TypePtr& type = types_[text];
  if (!type)
    type =
        std::make_shared<const TensorType>(read_tensor_meta(document_, meta, text_.symbols).type);
  return type;
}

void GraphReader::remember_expression(ondemand::object object) {
  if (auto expr = find_field(object, "as_expr"))
    read_expression(document_, expr->get_object(), text_.symbols);
}

// ---- inputs, nodes, outputs ---------------------------------------------------------------------

std::size_t GraphReader::inputs(ondemand::object& graph, const std::vector<InputSpec>& specs) {
  const Trail::Step in(document_.trail, "inputs");
  ondemand::array array = graph["inputs"].get_array();
  text_.parts.inputs = slice(array);
  std::size_t position = 0;
  for (ondemand::value item : array) {
    const Trail::Step at(document_.trail, position);
    if (!specs.empty() && position >= specs.size()) document_.fail("has no entry in input_specs");
    input(item.get_object(), position, specs.empty() ? InputSpec{} : specs[position]);
    ++position;
  }
  return position;
}

void GraphReader::nodes(ondemand::object& graph) {
  const Trail::Step in(document_.trail, "nodes");
  ondemand::array array = graph["nodes"].get_array();
  text_.parts.nodes = slice(array);
  std::size_t position = 0;
  for (ondemand::value item : array) {
    const Trail::Step at(document_.trail, position++);
    node(item.get_object());
  }
}

Tuple GraphReader::outputs(ondemand::object& graph) {
  const Trail::Step in(document_.trail, "outputs");
  ondemand::array array = graph["outputs"].get_array();
  text_.parts.outputs = slice(array);
  Tuple outputs;
  for (ondemand::value item : array) {
    const Trail::Step at(document_.trail, outputs.items.size());
    outputs.items.push_back(read_arg(document_, item.get_object(), editor_.graph()));
  }
  return outputs;
}

NodeId GraphReader::add(Node node, std::string_view text, std::string_view spec) {
  std::string_view meta;
  if (auto it = values_.find(node.name); it != values_.end()) {
    node.type = it->second.type;
    meta = it->second.text;
  }
  if (editor_.graph().name_taken(node.name))
    document_.fail(fmt::format("two values are named '{}'", node.name));
  const NodeId id = editor_.insert_before({}, std::move(node));
  text_.nodes.resize(id.value + 1);
  text_.nodes[id.value] = {editor_.graph().pointer(id), text, spec, meta};
  return id;
}

void GraphReader::input(ondemand::object object, std::size_t position, const InputSpec& spec) {
  const std::string_view text = slice(object);
  Node node{.op = Opcode::placeholder};
  bool constant = false;
  for (auto field : object) {
    const std::string_view kind = field.unescaped_key();
    ondemand::value value = field.value();
    const Trail::Step step(document_.trail, kind);
    if (kind == "as_tensor" || kind == "as_custom_obj")
      node.name = std::string(value.get_object()["name"].get_string().value());
    else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
      node.name = std::string(value.get_object()["as_name"].get_string().value());
    else {
      node.name = spec.constant.empty() ? fmt::format("arg{}", position) : spec.constant;
      constant = true;
    }
    if (kind == "as_tensor" && !values_.count(node.name))
      document_.fail(fmt::format("'{}' has no entry in tensor_values", node.name));
  }
  if (constant) {
    object.reset();
    node.args = {read_arg(document_, object, editor_.graph())};
  }
  if (node.name.empty()) document_.fail("an input without a name");
  node.target = node.name;
  node.state = spec.state;
  add(std::move(node), text, spec.text);
}

void GraphReader::node(ondemand::object object) {
  const std::string_view text = slice(object);
  Node node;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::string_view outputs_text, single_return;
  bool single_in_tuple = false;  // a higher-order operator that returns a tuple of one
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    const Trail::Step step(document_.trail, key);
    if (key == "target")
      node.target = book::target_from_file(value.get_string().value());
    else if (key == "inputs")
      inputs = node_inputs(value.get_array());
    else if (key == "outputs") {
      ondemand::array array = value.get_array();
      outputs_text = slice(array);
      outputs = node_outputs(array);
    } else if (key == "metadata")
      node.meta = metadata(value.get_object());
    else if (key == "name" && !value.is_null())
      node.name = string_in(value);
    else if (key == "is_hop_single_tensor_return" && !value.is_null()) {
      single_in_tuple = !value.get_bool().value();
      single_return = single_in_tuple ? "false" : "true";
    }
  }
  if (node.target.empty()) document_.fail("a node without a target");
  bind(node, std::move(inputs));
  auto add_call = [&] {
    const NodeId id = add(std::move(node), text);
    text_.nodes[id.value].outputs = outputs_text;
    text_.nodes[id.value].single_return = single_return;
    return id;
  };
  const bool one = outputs.size() == 1 && !outputs[0].is_list && !outputs[0].name.empty();
  if (one && !(single_in_tuple && node.target.starts_with("higher_order."))) {
    node.name = outputs[0].name;
    add_call();
    return;
  }
  if (node.name.empty() || values_.count(node.name) || text_.symbolic.count(node.name))
    node.name = unused_name(node.name.empty() ? node.target : node.name);
  const MetaPtr meta = node.meta;
  const bool list = outputs.size() == 1 && outputs[0].is_list;
  getitems(add_call(), list ? outputs[0].items : outputs, meta);
}

void GraphReader::getitems(NodeId of, const std::vector<Output>& outputs, const MetaPtr& meta) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (!output.is_list && output.name.empty()) continue;
    Node item{.name = output.name, .target = "operator.getitem"};
    item.args = {of, static_cast<std::int64_t>(i)};
    item.meta = meta;
    if (output.is_list) item.name = unused_name(editor_.graph()[of].name);
    const NodeId id = add(std::move(item), {});
    if (output.is_list) getitems(id, output.items, meta);
  }
}

// A name for a node whose value has none in the file.
std::string GraphReader::unused_name(std::string_view base) {
  std::string stem;
  for (char c : base) stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  for (std::size_t& n = unused_from_[stem];; ++n) {
    std::string name = n == 0 ? stem + "_outputs" : fmt::format("{}_outputs_{}", stem, n);
    if (!values_.count(name) && !text_.symbolic.count(name) && !editor_.graph().name_taken(name))
      return name;
  }
}

std::vector<GraphReader::Output> GraphReader::node_outputs(ondemand::array array) {
  std::vector<Output> out;
  for (ondemand::value item : array) {
    const Trail::Step at(document_.trail, out.size());
    Output output;
    for (auto field : item.get_object()) {
      const std::string_view kind = field.unescaped_key();
      ondemand::value value = field.value();
      if (kind == "as_tensor") {
        output.name = value_name(value.get_object()["name"].get_string().value());
      } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
        output.name = name_in(value, "as_name");
      } else if (kind == "as_tensors" || kind == "as_sym_ints" || kind == "as_sym_floats" ||
                 kind == "as_sym_bools") {
        output.is_list = true;
        const char* key = kind == "as_tensors" ? "name" : "as_name";
        for (ondemand::value element : value.get_array())
          output.items.emplace_back().name = name_in(element, key);
      } else if (kind == "as_optional_tensors") {
        output.is_list = true;
        for (ondemand::value element : value.get_array()) {
          Output& inner = output.items.emplace_back();
          ondemand::object object = element.get_object();
          if (auto tensor = find_field(object, "as_tensor"))
            inner.name = std::string(tensor->get_object()["name"].get_string().value());
        }
      }
    }
    out.push_back(std::move(output));
  }
  return out;
}

std::string GraphReader::value_name(std::string_view name) {
  std::string text(name);
  if (!values_.count(text)) document_.fail(fmt::format("'{}' has no entry in tensor_values", name));
  return text;
}

std::vector<GraphReader::Input> GraphReader::node_inputs(ondemand::array array) {
  std::vector<Input> out;
  for (ondemand::value item : array) {
    const Trail::Step at(document_.trail, out.size());
    Input& input = out.emplace_back();
    for (auto field : item.get_object()) {
      const std::string_view key = field.unescaped_key();
      ondemand::value value = field.value();
      if (key == "name") {
        input.name = string_in(value);
      } else if (key == "arg") {
        input.arg = read_arg(document_, value.get_object(), editor_.graph());
      } else if (key == "kind" && !value.is_null()) {
        const std::int64_t kind = value.get_int64();
        if (kind < 0 || kind > 2) document_.fail(fmt::format("unknown kind {}", kind));
        input.how = static_cast<How>(kind);
      }
    }
  }
  return out;
}

// PyTorch gives each argument to its name, and refx to its place: both must be the same.
void GraphReader::bind(Node& node, std::vector<Input> inputs) {
  const Trail::Step step(document_.trail, "inputs");
  const c10::FunctionSchema* schema = schema_of(node.target);
  const bool higher_order = node.target.starts_with("higher_order.");
  for (Input& input : inputs) {
    const std::size_t place = node.args.size();
    bool positional = input.how != How::by_name;
    if (schema) {
      const auto& formals = schema->arguments();
      const bool fits = place < formals.size() && !formals[place].kwarg_only() &&
                        formals[place].name() == input.name;
      if (input.how == How::by_position && !fits)
        document_.fail(fmt::format("argument '{}' stands where torch takes {}", input.name,
                                   place < formals.size() && !formals[place].kwarg_only()
                                       ? "'" + formals[place].name() + "'"
                                       : "none"));
      positional = positional && fits;
    } else if (higher_order) {
      positional = input.how == How::by_position || input.name.empty();
    }
    if (positional)
      node.args.push_back(std::move(input.arg));
    else
      node.kwargs.emplace_back(std::move(input.name), std::move(input.arg));
  }
  check_names(node, schema);
}

void GraphReader::check_names(const Node& node, const c10::FunctionSchema* schema) {
  if (node.kwargs.empty()) return;
  std::vector<std::string_view> names;
  for (const auto& [name, arg] : node.kwargs) names.push_back(name);
  if (schema)
    for (std::size_t i = 0; i < node.args.size(); ++i)
      names.push_back(schema->arguments()[i].name());
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) document_.fail(fmt::format("argument '{}' is given twice", *twice));
}

const c10::FunctionSchema* GraphReader::schema_of(const std::string& target) {
  auto [it, is_new] = schemas_.try_emplace(target);
  if (is_new) it->second = book::find_schema(book::parse_target(target));
  return it->second;
}

MetaPtr GraphReader::metadata(ondemand::object object) {
  auto meta = std::make_shared<Meta>();
  for (auto field : object) {
    std::string key(field.unescaped_key().value());
    ondemand::value value = field.value();
    if (value.type() == ondemand::json_type::string)
      meta->emplace_back(std::move(key), string_in(value));
  }
  return meta->empty() ? nullptr : meta;
}

}  // namespace refx
