// SPDX-License-Identifier: Apache-2.0

#include "pt2/read_program.h"

#include <fmt/format.h>

#include "graph_json/read_arg.h"
#include "graph_json/read_graph.h"
#include "graph_json/schema.h"
#include "pt2/read_signature.h"
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

  // Returns the paths of the modules whose calls are kept.
  std::vector<std::string> read() {
    document_.read([&](ondemand::object& root) {
      check_version(root);
      ranges(root);
      const Trail::Step step(document_.trail, "graph_module");
      ondemand::object module = root["graph_module"].get_object();
      signature_ = read_signature(document_, module, source_);
      graph(module);
      module_calls(module);
    });
    return std::move(kept_modules_);
  }

 private:
  // A new major version of the schema may give fields another meaning, so an unknown one is refused
  // instead of guessed at. Minor versions only add optional fields.
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
    // torch writes an infinite bound as null or as a string.
    if (value.is_null() || value.type() == ondemand::json_type::string) return {};
    return value.get_int64().value();
  }

  // ---- the graph --------------------------------------------------------------------------------

  void graph(ondemand::object& module) {
    const Trail::Step step(document_.trail, "graph");
    // The types of values come after the nodes in the text, but a node needs its type when it is
    // made. So the graph is read twice, with a reset of the parser between.
    {
      ondemand::object graph = module["graph"].get_object();
      reader_.values(graph);
    }
    module.reset();
    ondemand::object graph = module["graph"].get_object();
    // Placeholders first, then the state that they name, then the nodes that use both.
    const std::size_t inputs = reader_.inputs(graph, signature_.inputs);
    if (inputs != signature_.inputs.size())
      document_.fail(
          fmt::format("{} inputs, but {} input_specs", inputs, signature_.inputs.size()));
    read_state(source_, editor_, signature_.roles);
    reader_.nodes(graph);
    returned_ = reader_.outputs(graph);
    if (returned_.items.size() != signature_.outputs)
      document_.fail(fmt::format("{} outputs, but {} output_specs", returned_.items.size(),
                                 signature_.outputs));
    module.reset();
  }

  // ---- modules whose calls are kept ------------------------------------------------------------

  void module_calls(ondemand::object& module) {
    const Trail::Step step(document_.trail, "module_call_graph");
    // Made here and not in graph(), because the kept values below become its arguments.
    Node output{.op = Opcode::output, .name = "output", .target = "output"};
    output.args = {std::move(returned_)};
    List kept;
    std::size_t position = 0;
    if (auto stored = find_field(module, "module_call_graph"))
      for (ondemand::value item : stored->get_array()) {
        const Trail::Step at(document_.trail, position++);
        ondemand::object entry = item.get_object();
        const std::string name(entry["fqn"].get_string().value());
        auto value = find_field(entry, "signature");
        if (!value || value->is_null()) continue;
        ondemand::object signature = value->get_object();
        // The entry without a name is the program itself. Its specs describe how arguments and
        // results are flattened.
        if (name.empty()) {
          source_.in_spec = std::string(signature["in_spec"].get_string().value());
          source_.out_spec = std::string(signature["out_spec"].get_string().value());
          continue;
        }
        kept_modules_.push_back(name);
        for (const char* side : {"inputs", "outputs"})
          for (ondemand::value arg : signature[side].get_array()) {
            const Arg read = read_arg(document_, arg.get_object(), editor_.graph());
            for_each_node(read, [&](NodeId id) {
              if (editor_.graph()[id].op != Opcode::placeholder) kept.items.push_back(id);
            });
          }
      }
    // The signature of a kept module names values of the graph. As arguments of the output node
    // they have a user, so that no transformation removes them.
    if (!kept.items.empty()) output.kwargs = {{"kept", std::move(kept)}};
    // A user's input may be called "output".
    while (editor_.graph().name_taken(output.name)) output.name = output.name + "_";
    reader_.add(std::move(output), {});
  }

  Pt2Source& source_;
  Editor& editor_;
  JsonDocument document_;
  GraphReader reader_;
  ProgramSignature signature_;
  Tuple returned_;
  std::vector<std::string> kept_modules_;
};

}  // namespace

std::vector<std::string> read_program(Pt2Source& source, Editor& editor) {
  source.document = source.text(kModelRecord);
  return ProgramReader(source, editor).read();
}

}  // namespace refx
