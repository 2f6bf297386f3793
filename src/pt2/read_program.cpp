#include "pt2/read_program.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include <algorithm>

#include "book/schemas.h"
#include "pt2/read_arg.h"
#include "pt2/read_state.h"
#include "pt2/schema.h"
#include "pt2/tensor_meta.h"
#include "refx/error.h"

namespace refx {

namespace {

struct Value {
  TypePtr type;
  std::string_view text;
};

class ProgramReader {
 public:
  ProgramReader(Pt2Source& source, Editor& editor)
      : source_(source),
        editor_(editor),
        document_(source.path(), source.place_of(kModelRecord), source.model_text) {}

  void read() {
    document_.read([&](ondemand::object& root) {
      check_version(root);
      ranges(root);
      const Trail::Step step(document_.trail, "graph_module");
      ondemand::object module = root["graph_module"].get_object();
      specs(module);
      values(module);
      graph(module);
      module_calls(module);
    });
  }

 private:
  void check_version(ondemand::object& root) {
    const Trail::Step step(document_.trail, "schema_version");
    const std::int64_t major = root["schema_version"].get_object()["major"].get_int64();
    if (major != kSchemaMajor)
      throw Error(fmt::format(
          "{}: record '{}': schema_version {} is not one that refx reads ({}: torch 2.11 to "
          "2.13); save the model again with such a torch",
          source_.path(), kModelRecord, major, kSchemaMajor));
  }

  void ranges(ondemand::object& root) {
    const Trail::Step step(document_.trail, "range_constraints");
    auto stored = find_field(root, "range_constraints");
    if (!stored) return;
    for (auto field : stored->get_object()) {
      std::string symbol(field.unescaped_key().value());
      Source::Range range;
      for (auto bound : field.value().get_object()) {
        const std::string_view key = bound.unescaped_key();
        ondemand::value value = bound.value();
        if (key == "min_val")
          range.min = bound_in(value);
        else if (key == "max_val")
          range.max = bound_in(value);
      }
      source_.symbol_ranges.emplace(std::move(symbol), range);
    }
  }

  static std::optional<std::int64_t> bound_in(ondemand::value value) {
    if (value.is_null() || value.type() == ondemand::json_type::string) return {};  // an infinity
    return value.get_int64().value();
  }

  // ---- what the inputs and outputs are ----------------------------------------------------------

  struct InputSpec {
    std::string_view text;
    std::string state;     // bound state entry
    std::string constant;  // name of a constant input
  };

  void specs(ondemand::object& module) {
    const Trail::Step step(document_.trail, "signature");
    ondemand::object signature = module["signature"].get_object();
    {
      const Trail::Step in(document_.trail, "input_specs");
      ondemand::array array = signature["input_specs"].get_array();
      source_.parts.input_specs = slice(array);
      for (ondemand::value item : array) {
        const Trail::Step at(document_.trail, input_specs_.size());
        input_specs_.push_back(input_spec(item.get_object()));
      }
    }
    const Trail::Step out(document_.trail, "output_specs");
    ondemand::array array = signature["output_specs"].get_array();
    source_.parts.output_specs = slice(array);
    std::size_t position = 0;
    for (ondemand::value item : array) {
      const Trail::Step at(document_.trail, position);
      for (auto field : item.get_object()) {
        const std::string_view kind = field.unescaped_key();
        ondemand::object spec = field.value().get_object();
        const char* target = kind == "buffer_mutation"       ? "buffer_name"
                             : kind == "parameter_mutation"  ? "parameter_name"
                             : kind == "user_input_mutation" ? "user_input_name"
                                                             : nullptr;
        if (target)
          source_.mutations.push_back({position, std::string(spec[target].get_string().value())});
      }
      ++position;
    }
    outputs_expected_ = position;
  }

  InputSpec input_spec(ondemand::object object) {
    InputSpec spec;
    spec.text = slice(object);
    for (auto field : object) {
      const std::string_view kind = field.unescaped_key();
      ondemand::object inner = field.value().get_object();
      const char* name = kind == "parameter"         ? "parameter_name"
                         : kind == "buffer"          ? "buffer_name"
                         : kind == "tensor_constant" ? "tensor_constant_name"
                         : kind == "custom_obj"      ? "custom_obj_name"
                                                     : nullptr;
      if (name) {
        spec.state = std::string(inner[name].get_string().value());
        if (kind == "buffer" && !inner["persistent"].get_bool().value())
          roles_[spec.state] = StateRole::other_buffer;
        else
          roles_[spec.state] = kind == "parameter" ? StateRole::parameter
                               : kind == "buffer"  ? StateRole::buffer
                                                   : StateRole::constant;
      } else if (kind == "constant_input") {
        spec.constant = std::string(inner["name"].get_string().value());
      }
    }
    return spec;
  }

  // ---- values -----------------------------------------------------------------------------------

  void values(ondemand::object& module) {
    const Trail::Step step(document_.trail, "graph");
    ondemand::object graph = module["graph"].get_object();
    {
      const Trail::Step in(document_.trail, "tensor_values");
      ondemand::object tensors = graph["tensor_values"].get_object();
      source_.parts.tensor_values = slice(tensors);
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
          document_.fail(fmt::format("'{}' stands twice", name));
      }
    }
    for (const char* kind : {"sym_int", "sym_float", "sym_bool"}) {
      const std::string key = fmt::format("{}_values", kind);
      const Trail::Step in(document_.trail, kind);
      auto stored = find_field(graph, key);
      if (!stored) continue;
      for (auto field : stored->get_object()) {
        std::string name(field.unescaped_key().value());
        if (kind == std::string_view("sym_int")) remember_expression(field.value());
        if (values_.count(name) || !source_.symbolic.emplace(name, kind).second)
          document_.fail(fmt::format("'{}' stands twice", name));
      }
    }
    module.reset();
  }

  TypePtr type_of(std::string_view text, ondemand::object meta) {
    TypePtr& type = types_[text];
    if (!type)
      type = std::make_shared<const TensorType>(
          read_tensor_meta(document_, meta, source_.symbols).type);
    return type;
  }

  void remember_expression(ondemand::value value) {
    ondemand::object object = value.get_object();
    if (auto expr = find_field(object, "as_expr"))
      read_expression(document_, expr->get_object(), source_.symbols);
  }

  // ---- the graph --------------------------------------------------------------------------------

  void graph(ondemand::object& module) {
    const Trail::Step step(document_.trail, "graph");
    ondemand::object graph = module["graph"].get_object();
    {
      const Trail::Step in(document_.trail, "inputs");
      ondemand::array array = graph["inputs"].get_array();
      source_.parts.inputs = slice(array);
      std::size_t position = 0;
      for (ondemand::value item : array) {
        const Trail::Step at(document_.trail, position);
        input(item.get_object(), position++);
      }
      if (position != input_specs_.size())
        document_.fail(fmt::format("{} inputs, but {} input_specs", position, input_specs_.size()));
    }
    read_state(source_, editor_, roles_);
    {
      const Trail::Step in(document_.trail, "nodes");
      ondemand::array array = graph["nodes"].get_array();
      source_.parts.nodes = slice(array);
      std::size_t position = 0;
      for (ondemand::value item : array) {
        const Trail::Step at(document_.trail, position++);
        node(item.get_object());
      }
    }
    const Trail::Step in(document_.trail, "outputs");
    ondemand::array array = graph["outputs"].get_array();
    source_.parts.outputs = slice(array);
    Tuple outputs;
    for (ondemand::value item : array) {
      const Trail::Step at(document_.trail, outputs.items.size());
      outputs.items.push_back(read_arg(document_, item.get_object(), editor_.graph()));
    }
    if (outputs.items.size() != outputs_expected_)
      document_.fail(
          fmt::format("{} outputs, but {} output_specs", outputs.items.size(), outputs_expected_));
    returned_ = std::move(outputs);
    module.reset();
  }

  void add(Node node, std::string_view text, std::string_view spec = {}) {
    std::string_view meta;
    if (auto it = values_.find(node.name); it != values_.end()) {
      node.type = it->second.type;
      meta = it->second.text;
    }
    if (editor_.graph().name_taken(node.name))
      document_.fail(fmt::format("two values are named '{}'", node.name));
    const NodeId id = editor_.insert_before({}, std::move(node));
    source_.nodes.resize(id.value + 1);
    source_.nodes[id.value] = {editor_.graph().pointer(id), text, spec, meta};
  }

  void input(ondemand::object object, std::size_t position) {
    if (position >= input_specs_.size()) document_.fail("has no entry in input_specs");
    const InputSpec& spec = input_specs_[position];
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

  struct Output {
    std::string name;           // empty: nothing is made
    std::vector<Output> items;  // of a list
    bool is_list = false;
  };

  void node(ondemand::object object) {
    const std::string_view text = slice(object);
    Node node;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    bool single_in_tuple = false;  // a higher-order operator that returns a tuple of one
    for (auto field : object) {
      const std::string_view key = field.unescaped_key();
      ondemand::value value = field.value();
      const Trail::Step step(document_.trail, key);
      if (key == "target")
        node.target = book::target_from_file(value.get_string().value());
      else if (key == "inputs")
        inputs = this->inputs(value.get_array());
      else if (key == "outputs")
        outputs = this->outputs(value.get_array());
      else if (key == "metadata")
        node.meta = metadata(value.get_object());
      else if (key == "name" && !value.is_null())
        node.name = string_in(value);
      else if (key == "is_hop_single_tensor_return" && !value.is_null())
        single_in_tuple = !value.get_bool().value();
    }
    if (node.target.empty()) document_.fail("a node without a target");
    bind(node, std::move(inputs));
    const bool one = outputs.size() == 1 && !outputs[0].is_list && !outputs[0].name.empty();
    if (one && !(single_in_tuple && node.target.starts_with("higher_order."))) {
      node.name = outputs[0].name;
      add(std::move(node), text);
      return;
    }
    if (node.name.empty() || values_.count(node.name) || source_.symbolic.count(node.name))
      node.name = unused_name(node.name.empty() ? node.target : node.name);
    const MetaPtr meta = node.meta;
    const std::string name = node.name;
    add(std::move(node), text);
    const bool list = outputs.size() == 1 && outputs[0].is_list;
    getitems(editor_.graph().find(name), list ? outputs[0].items : outputs, meta);
  }

  void getitems(NodeId of, const std::vector<Output>& outputs, const MetaPtr& meta) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = outputs[i];
      if (!output.is_list && output.name.empty()) continue;
      Node item{.name = output.name, .target = "operator.getitem"};
      item.args = {of, static_cast<std::int64_t>(i)};
      item.meta = meta;
      if (output.is_list) item.name = unused_name(editor_.graph()[of].name);
      const std::string name = item.name;
      add(std::move(item), {});
      if (output.is_list) getitems(editor_.graph().find(name), output.items, meta);
    }
  }

  // A name for a node whose value has none in the file.
  std::string unused_name(std::string_view base) {
    std::string stem;
    for (char c : base) stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    for (std::size_t& n = unused_from_[stem];; ++n) {
      std::string name = n == 0 ? stem + "_outputs" : fmt::format("{}_outputs_{}", stem, n);
      if (!values_.count(name) && !source_.symbolic.count(name) &&
          !editor_.graph().name_taken(name))
        return name;
    }
  }

  std::vector<Output> outputs(ondemand::array array) {
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

  static std::string name_in(ondemand::value value, std::string_view key) {
    ondemand::object object = value.get_object();
    auto name = find_field(object, key);
    return name ? string_in(*name) : "";
  }

  std::string value_name(std::string_view name) {
    std::string text(name);
    if (!values_.count(text))
      document_.fail(fmt::format("'{}' has no entry in tensor_values", name));
    return text;
  }

  enum class How : std::int64_t { unsaid = 0, by_position = 1, by_name = 2 };
  struct Input {
    std::string name;
    Arg arg;
    How how = How::unsaid;
  };

  std::vector<Input> inputs(ondemand::array array) {
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
  void bind(Node& node, std::vector<Input> inputs) {
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

  void check_names(const Node& node, const c10::FunctionSchema* schema) {
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

  const c10::FunctionSchema* schema_of(const std::string& target) {
    auto [it, is_new] = schemas_.try_emplace(target);
    if (is_new) it->second = book::find_schema(book::parse_target(target));
    return it->second;
  }

  MetaPtr metadata(ondemand::object object) {
    auto meta = std::make_shared<Meta>();
    for (auto field : object) {
      std::string key(field.unescaped_key().value());
      ondemand::value value = field.value();
      if (value.type() == ondemand::json_type::string)
        meta->emplace_back(std::move(key), string_in(value));
    }
    return meta->empty() ? nullptr : meta;
  }

  // ---- modules whose calls are kept ------------------------------------------------------------

  void module_calls(ondemand::object& module) {
    const Trail::Step step(document_.trail, "module_call_graph");
    Node output{.op = Opcode::output, .name = "output", .target = "output"};
    output.args = {std::move(returned_)};
    List kept;
    std::vector<std::string> kept_modules;
    std::size_t position = 0;
    if (auto stored = find_field(module, "module_call_graph"))
      for (ondemand::value item : stored->get_array()) {
        const Trail::Step at(document_.trail, position++);
        ondemand::object entry = item.get_object();
        const std::string name(entry["fqn"].get_string().value());
        auto value = find_field(entry, "signature");
        if (!value || value->is_null()) continue;
        ondemand::object signature = value->get_object();
        if (name.empty()) {
          source_.in_spec = std::string(signature["in_spec"].get_string().value());
          source_.out_spec = std::string(signature["out_spec"].get_string().value());
          continue;
        }
        kept_modules.push_back(name);
        for (const char* side : {"inputs", "outputs"})
          for (ondemand::value arg : signature[side].get_array()) {
            const Arg read = read_arg(document_, arg.get_object(), editor_.graph());
            for_each_node(read, [&](NodeId id) {
              if (editor_.graph()[id].op != Opcode::placeholder) kept.items.push_back(id);
            });
          }
      }
    editor_.set_kept_modules(std::move(kept_modules));
    // Values that a module's call signature names must stay.
    if (!kept.items.empty()) output.kwargs = {{"kept", std::move(kept)}};
    while (editor_.graph().name_taken(output.name)) output.name = output.name + "_";
    add(std::move(output), {});
  }

  Pt2Source& source_;
  Editor& editor_;
  JsonDocument document_;
  std::unordered_map<std::string_view, TypePtr> types_;  // by their text
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, const c10::FunctionSchema*> schemas_;
  std::unordered_map<std::string, std::size_t> unused_from_;  // the first number to try, by stem
  std::vector<InputSpec> input_specs_;
  StateRoles roles_;
  std::size_t outputs_expected_ = 0;
  Tuple returned_;
};

}  // namespace

void read_program(Pt2Source& source, Editor& editor) {
  source.model_text = source.text(kModelRecord);
  ProgramReader(source, editor).read();
  editor.set_mutations(source.mutations);
}

}  // namespace refx
