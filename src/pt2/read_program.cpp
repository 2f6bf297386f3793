// SPDX-License-Identifier: Apache-2.0

#include "pt2/read_program.h"

#include <fmt/format.h>

#include "graph_json/read_arg.h"
#include "graph_json/read_graph.h"
#include "graph_json/schema.h"
#include "pt2/read_state.h"
#include "refx/error.h"

namespace refx {

namespace {

class ProgramReader {
 public:
  ProgramReader(Pt2Source& source, Editor& editor)
      : source_(source),
        editor_(editor),
        document_(source.path(), source.place_of(kModelRecord), source.document),
        reader_(document_, source, editor) {}

  void read() {
    document_.read([&](ondemand::object& root) {
      check_version(root);
      ranges(root);
      const Trail::Step step(document_.trail, "graph_module");
      ondemand::object module = root["graph_module"].get_object();
      specs(module);
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

  GraphReader::InputSpec input_spec(ondemand::object object) {
    GraphReader::InputSpec spec;
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

  // ---- the graph --------------------------------------------------------------------------------

  void graph(ondemand::object& module) {
    const Trail::Step step(document_.trail, "graph");
    {
      ondemand::object graph = module["graph"].get_object();
      reader_.values(graph);
    }
    module.reset();
    ondemand::object graph = module["graph"].get_object();
    const std::size_t inputs = reader_.inputs(graph, input_specs_);
    if (inputs != input_specs_.size())
      document_.fail(fmt::format("{} inputs, but {} input_specs", inputs, input_specs_.size()));
    read_state(source_, editor_, roles_);
    reader_.nodes(graph);
    returned_ = reader_.outputs(graph);
    if (returned_.items.size() != outputs_expected_)
      document_.fail(fmt::format("{} outputs, but {} output_specs", returned_.items.size(),
                                 outputs_expected_));
    module.reset();
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
    reader_.add(std::move(output), {});
  }

  Pt2Source& source_;
  Editor& editor_;
  JsonDocument document_;
  GraphReader reader_;
  std::vector<GraphReader::InputSpec> input_specs_;
  StateRoles roles_;
  std::size_t outputs_expected_ = 0;
  Tuple returned_;
};

}  // namespace

void read_program(Pt2Source& source, Editor& editor) {
  source.document = source.text(kModelRecord);
  ProgramReader(source, editor).read();
  editor.set_mutations(source.mutations);
}

}  // namespace refx
