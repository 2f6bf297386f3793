// SPDX-License-Identifier: Apache-2.0

#include "graph_json/subgraph.h"

#include "graph_json/read_graph.h"
#include "graph_json/write_graph.h"
#include "refx/editor.h"
#include "refx/error.h"

namespace refx {

namespace {

constexpr std::string_view kPrefix = "{\"as_graph\": ";

std::shared_ptr<const std::string> padded(std::string_view text) {
  auto copy = std::make_shared<std::string>(text);
  copy->reserve(text.size() + simdjson::SIMDJSON_PADDING);
  return copy;
}

}  // namespace

bool is_subgraph(const Arg& arg) {
  const Raw* raw = arg.get<Raw>();
  return raw && raw->text.starts_with(kPrefix);
}

Subgraph read_subgraph(const Arg& arg) {
  if (!is_subgraph(arg)) throw Error("the argument is not a subgraph");
  Subgraph subgraph;
  subgraph.source = padded(arg.get<Raw>()->text);
  subgraph.text.document = *subgraph.source;
  JsonDocument document("subgraph", "as_graph", *subgraph.source);
  document.read([&](ondemand::object& root) {
    ondemand::object named = root["as_graph"].get_object();
    subgraph.name = std::string(named["name"].get_string().value());
    const Trail::Step step(document.trail, "graph");
    Editor editor(subgraph.model);
    GraphReader reader(document, subgraph.text, editor);
    {
      ondemand::object graph = named["graph"].get_object();
      reader.values(graph);
      if (auto single = find_field(graph, "is_single_tensor_return"); single && !single->is_null())
        subgraph.single = single->get_bool().value();
    }
    named.reset();
    ondemand::object graph = named["graph"].get_object();
    reader.inputs(graph);
    reader.nodes(graph);
    Node output{.op = Opcode::output, .name = "output", .target = "output"};
    output.args = {reader.outputs(graph)};
    while (editor.graph().name_taken(output.name)) output.name = output.name + "_";
    reader.add(std::move(output), {});
    editor.commit_as_origin();
  });
  return subgraph;
}

Arg write_subgraph(const Subgraph& subgraph) {
  return Raw{program_text(subgraph.model, subgraph.text)};
}

}  // namespace refx
