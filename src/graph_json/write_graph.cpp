// SPDX-License-Identifier: Apache-2.0

#include "graph_json/write_graph.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>

#include "book/schemas.h"
#include "graph_json/check_graph_text.h"
#include "graph_json/json.h"
#include "graph_json/strides.h"
#include "graph_json/tensor_meta.h"
#include "graph_json/write_arg.h"
#include "refx/error.h"

namespace refx {

namespace {

using Take = std::function<void(std::string_view)>;

bool is_getitem(const Node& node) { return node.target == "operator.getitem"; }

// How calls without exactly one result are written.
enum class Outputs {
  by_schema,
  one_always,  // as earlier versions did, which torch cannot load: to recognise their files
};

class GraphWriter {
 public:
  GraphWriter(const Model& model, const GraphText& source, Outputs outputs = Outputs::by_schema)
      : model_(model),
        graph_(model.graph()),
        source_(source),
        outputs_(outputs),
        described_(graph_.id_limit()),
        symbolic_(source.symbolic) {
    find_new_symbolic();
    for (const auto& text : source.nodes)
      if (text.node->op == Opcode::call_function && !text.text.empty()) {
        names_nodes_ = text.text.find("\"name\": " + json_quoted(text.node->name) + "}") !=
                       std::string_view::npos;
        break;
      }
  }

  // The same, and checks of what is written anew that torch can load it.
  void write_checked(const Take& take) {
    GraphTextCheck check;
    check_ = &check;
    write(take);
    for (const auto& [name, kind] : check.values()) require_described(name, kind);
    for (NodeId id : named_)
      require_described(graph_[id].name, kind_of(graph_[id].name).value_or("tensor"));
  }

  // Gives the text to take(), part by part.
  void write(const Take& take) {
    take_ = &take;
    struct Part {
      std::string_view old;
      void (GraphWriter::*write)();
    };
    std::vector<Part> parts = {{source_.parts.inputs, &GraphWriter::inputs},
                               {source_.parts.nodes, &GraphWriter::nodes},
                               {source_.parts.tensor_values, &GraphWriter::tensor_values},
                               {source_.parts.input_specs, &GraphWriter::input_specs}};
    if (!is_old(graph_.output())) {
      parts.push_back({source_.parts.outputs, &GraphWriter::outputs});
      parts.push_back({source_.parts.output_specs, &GraphWriter::output_specs});
    }
    for (const auto& [kind, texts] : new_symbolic_) {
      parts.push_back({source_.symbolic_parts.at(kind), &GraphWriter::symbolic_values});
    }
    std::erase_if(parts, [](const Part& part) { return part.old.empty(); });  // of a program only
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.old.data() < b.old.data(); });
    const char* at = source_.document.data();
    for (const Part& part : parts) {
      out_.append(at, part.old.data());
      writing_ = part.old;
      (this->*part.write)();
      at = part.old.data() + part.old.size();
    }
    out_.append(at, source_.document.data() + source_.document.size());
    hand_over(0);
  }

 private:
  const GraphText::NodeText* old(NodeId id) const {
    return id.value < source_.nodes.size() ? &source_.nodes[id.value] : nullptr;
  }
  bool is_old(NodeId id) const {
    const auto* text = old(id);
    return text && (text->node == graph_.pointer(id) || differ_in_marks(*text->node, graph_[id]));
  }
  // Marks are no part of the program.
  static bool differ_in_marks(const Node& a, const Node& b) {
    return a.op == b.op && a.name == b.name && a.target == b.target && a.args == b.args &&
           a.kwargs == b.kwargs && a.state == b.state && a.meta == b.meta && a.marks != b.marks;
  }

  [[noreturn]] void cannot(const Node& node, const std::string& why) const {
    throw Error(fmt::format("node '{}' ({}) cannot be written to a .pt2 file: {}", node.name,
                            node.target, why));
  }

  void argument(std::string& out, const Arg& arg, const c10::TypePtr& type = nullptr) const {
    append_arg(out, arg, graph_, symbolic_, type);
  }

  // Of a value that is no tensor.
  std::optional<std::string_view> kind_of(const std::string& name) const {
    const auto it = symbolic_.find(name);
    return it == symbolic_.end() ? std::nullopt : std::optional<std::string_view>(it->second);
  }

  // torch takes what it knows of a value from the file alone.
  void require_described(const std::string& name, std::string_view kind) const {
    if (const auto symbolic = kind_of(name)) {
      if (*symbolic == kind) return;
      throw InternalError(fmt::format("value '{}' is written as a {}, and the file describes a {}",
                                      name, kind, *symbolic));
    }
    const NodeId id = graph_.find(name);
    if (kind == "tensor" && (id ? described_[id.value] : described_unused_.count(name) > 0)) return;
    if (id && !graph_[id].type) cannot(graph_[id], "its type is not known; give the node one");
    throw InternalError(
        fmt::format("value '{}' is written as a {} without a description of it", name, kind));
  }

  // To be called for every value that a text names, apart from calls, whose texts are read.
  void name(const Arg& arg) {
    if (check_) for_each_node(arg, [&](NodeId id) { named_.push_back(id); });
  }

  // Called between two values, whose text is never held together with that of all others.
  void hand_over(std::size_t if_longer = 1 << 16) {
    if (out_.size() <= if_longer) return;
    (*take_)(out_);
    out_.clear();
  }

  template <class F>
  void placeholders(F&& text_of) {
    JsonList list(out_, '[', ']');
    for (NodeId id : graph_)
      if (graph_[id].op == Opcode::placeholder) {
        list.next() += text_of(id);
        hand_over();
      }
  }

  void inputs() {
    placeholders([&](NodeId id) -> std::string {
      if (is_old(id)) return std::string(old(id)->text);
      name(id);
      return fmt::format("{{\"as_tensor\": {{\"name\": {}}}}}", json_quoted(graph_[id].name));
    });
  }

  void input_specs() {
    placeholders([&](NodeId id) -> std::string {
      const Node& node = graph_[id];
      const auto* text = old(id);
      if (text && text->node->state == node.state) return std::string(text->spec);
      if (node.state.empty()) cannot(node, "inputs of the model cannot be added");
      const StateEntry& entry = model_.state()[model_.state().find(node.state)];
      const std::string arg = fmt::format("{{\"arg\": {{\"name\": {}}}, ", json_quoted(node.name));
      const std::string name = json_quoted(entry.name);
      switch (entry.kind) {
        case StateKind::parameter:
          return fmt::format("{{\"parameter\": {}\"parameter_name\": {}}}}}", arg, name);
        case StateKind::buffer:
          return fmt::format("{{\"buffer\": {}\"buffer_name\": {}, \"persistent\": {}}}}}", arg,
                             name, entry.persistent);
        case StateKind::constant:
          return fmt::format("{{\"tensor_constant\": {}\"tensor_constant_name\": {}}}}}", arg,
                             name);
      }
      return "";
    });
  }

  void outputs() {
    JsonList list(out_, '[', ']');
    for (const Arg& arg : returned(graph_[graph_.output()])) {
      argument(list.next(), arg);
      name(arg);
    }
  }

  const Args& returned(const Node& output) const {
    const Tuple* tuple = output.args.empty() ? nullptr : output.args[0].get<Tuple>();
    const NodeId origin = graph_.output();
    const auto* text = old(origin);
    if (!tuple || !text || tuple->items.size() != text->node->args[0].get<Tuple>()->items.size())
      cannot(output, "the number of results cannot change");
    return tuple->items;
  }

  void output_specs() {
    const Node& output = graph_[graph_.output()];
    JsonList list(out_, '[', ']');
    const Args& args = returned(output);
    auto mutation = source_.mutations.begin();  // in the order of outputs
    for (std::size_t i = 0; i < args.size(); ++i) {
      std::string arg;
      argument(arg, args[i]);
      while (mutation != source_.mutations.end() && mutation->output < i) ++mutation;
      if (mutation == source_.mutations.end() || mutation->output != i) {
        list.next() += fmt::format("{{\"user_output\": {{\"arg\": {}}}}}", arg);
        continue;
      }
      const NodeId* id = args[i].get<NodeId>();
      if (!id) cannot(output, fmt::format("result {} must be a tensor", i));
      const StateId state = model_.state().find(mutation->target);
      const char* kind = !state                                               ? "user_input"
                         : model_.state()[state].kind == StateKind::parameter ? "parameter"
                                                                              : "buffer";
      list.next() +=
          fmt::format("{{\"{0}_mutation\": {{\"arg\": {{\"name\": {1}}}, \"{0}_name\": {2}}}}}",
                      kind, json_quoted(graph_[*id].name), json_quoted(mutation->target));
    }
  }

  void nodes() {
    JsonList list(out_, '[', ']');
    for (NodeId id : graph_) {
      const Node& node = graph_[id];
      if (node.op == Opcode::placeholder || node.op == Opcode::output || is_getitem(node)) continue;
      if (is_old(id)) {
        list.next() += old(id)->text;
        // It names its inputs, of which some may have changed.
        for_each_input(node, [&](NodeId input) {
          if (!is_old(input)) name(input);
        });
      } else {
        const std::size_t begin = list.next().size();
        call(out_, id, node);
        if (check_) check_->call(std::string_view(out_).substr(begin), called(node).schema);
      }
      hand_over();
    }
  }

  // What is the same for all calls of one target.
  struct Called {
    std::string in_file;
    const c10::FunctionSchema* schema;
    bool is_op;
  };
  const Called& called(const Node& node) {
    auto [it, is_new] = called_.try_emplace(node.target);
    if (is_new) {
      const book::Target parts = book::parse_target(node.target);
      it->second = {book::target_for_file(node.target), book::find_schema(parts), parts.is_op()};
    }
    return it->second;
  }

  void call(std::string& out, NodeId id, const Node& node) {
    if (node.op != Opcode::call_function) cannot(node, "only calls of functions can");
    const auto& [target, schema, is_op] = called(node);
    if (!schema && is_op) cannot(node, "the operator is not known here; load its library");
    JsonList fields(out, '{', '}');
    append_json(fields.key("target"), target);
    fields.key("inputs");
    {
      JsonList list(out, '[', ']');
      for (std::size_t i = 0; i < node.args.size(); ++i) {
        const c10::Argument* formal =
            schema && i < schema->arguments().size() ? &schema->arguments()[i] : nullptr;
        input(list.next(), formal ? formal->name() : "", node.args[i], formal, 1);
      }
      for (const auto& [name, arg] : node.kwargs) {
        const c10::Argument* formal = nullptr;
        if (schema)
          for (const c10::Argument& a : schema->arguments())
            if (a.name() == name) formal = &a;
        input(list.next(), name, arg, formal, 2);
      }
    }
    fields.key("outputs");
    results(out, id, node, schema);
    fields.key("metadata");
    {
      JsonList list(out, '{', '}');
      if (node.meta)
        for (const auto& [key, value] : *node.meta)
          if (key != kSymbolicValue) append_json(list.key(key), value);
    }
    fields.key("is_hop_single_tensor_return") += single_return(id, node);
    if (names_nodes_) append_json(fields.key("name"), node.name);
  }

  void input(std::string& out, std::string_view name, const Arg& arg, const c10::Argument* formal,
             int kind) const {
    JsonList fields(out, '{', '}');
    append_json(fields.key("name"), name);
    argument(fields.key("arg"), arg, formal ? formal->real_type() : nullptr);
    fields.key("kind") += std::to_string(kind);
  }

  // Whether the outputs of the call are those that the file has: it calls the same, and whoever
  // takes a result takes it under the same name.
  bool has_old_results(NodeId id, const Node& node) const {
    const auto* text = old(id);
    if (!text || text->outputs.empty() || outputs_ == Outputs::one_always) return false;
    if (text->node->target != node.target || text->node->name != node.name) return false;
    const auto users = graph_.users(id);
    return std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& item = graph_[user];
      const auto* was = is_getitem(item) ? old(user) : nullptr;
      return !is_getitem(item) ||
             (was && was->node && was->node->name == item.name && was->node->args == item.args);
    });
  }

  std::string_view single_return(NodeId id, const Node& node) const {
    const bool known = has_old_results(id, node) && !old(id)->single_return.empty();
    return known ? old(id)->single_return : "null";
  }

  void results(std::string& out, NodeId id, const Node& node,
               const c10::FunctionSchema* schema) const {
    if (has_old_results(id, node)) {
      out += old(id)->outputs;
      return;
    }
    std::vector<NodeId> items;  // by position
    for (NodeId user : graph_.users(id))
      if (is_getitem(graph_[user]) && graph_[user].args.size() == 2)
        if (auto* i = graph_[user].args[1].get<std::int64_t>(); i && *i >= 0 && *i < 100000) {
          items.resize(std::max(items.size(), static_cast<std::size_t>(*i) + 1));
          items[static_cast<std::size_t>(*i)] = user;
        }
    JsonList list(out, '[', ']');
    if (schema && schema->returns().empty() && outputs_ == Outputs::by_schema) return;
    const bool several = schema && schema->returns().size() > 1;
    const bool as_list = schema && schema->returns().size() == 1 &&
                         schema->returns()[0].type()->kind() == c10::TypeKind::ListType;
    if (!several && !as_list) {
      argument(list.next(), id);
      return;
    }
    if (several) items.resize(schema->returns().size());
    if (std::count(items.begin(), items.end(), NodeId{}))
      cannot(node, "each of its results needs an operator.getitem");
    Args results(items.begin(), items.end());
    if (as_list) {
      argument(list.next(), List{std::move(results)}, schema->returns()[0].type());
    } else {
      for (const Arg& result : results) argument(list.next(), result);
    }
  }

  static bool same_type(const TypePtr& a, const TypePtr& b) {
    return a == b || (a && b && *a == *b);
  }

  // Nodes whose values are numbers, and that the text does not have: see kSymbolicValue.
  void find_new_symbolic() {
    for (NodeId id : graph_) {
      const Node& node = graph_[id];
      if (!node.meta || is_old(id)) continue;
      for (const auto& [key, value] : *node.meta) {
        const auto colon = key == kSymbolicValue ? value.find(':') : value.npos;
        if (colon == value.npos) continue;
        const std::string kind = value.substr(0, colon);
        if (!source_.symbolic_parts.count(kind)) cannot(node, "the file has no values of its kind");
        symbolic_[node.name] = kind;
        if (!source_.symbolic.count(node.name))
          new_symbolic_[kind].emplace_back(node.name, value.substr(colon + 1));
      }
    }
  }

  void symbolic_values() {
    for (const auto& [kind, values] : new_symbolic_) {
      if (source_.symbolic_parts.at(kind).data() != writing_.data()) continue;
      const std::string_view inside = writing_.substr(1, writing_.size() - 2);
      JsonList list(out_, '{', '}');
      if (!inside.empty()) list.next() += inside;
      for (const auto& [name, value] : values) list.key(name) += value;
    }
  }

  void tensor_values() {
    JsonList list(out_, '{', '}');
    auto old_value = [&](const GraphText::NodeText& text) {
      if (!text.meta.empty()) list.key(text.node->name) += text.meta;
      return !text.meta.empty();
    };
    const auto views = types_of_views(model_, source_);
    for (NodeId id : graph_) {
      const Node& node = graph_[id];
      const auto* text = old(id);
      if (auto view = views.find(id); view != views.end()) {
        append_tensor_meta(list.key(node.name), *view->second, source_.symbols);
        described_[id.value] = true;
      } else if (text && same_type(text->node->type, node.type)) {
        described_[id.value] = old_value(*text);
      } else if (node.type) {
        append_tensor_meta(list.key(node.name), *node.type, source_.symbols);
        described_[id.value] = true;
      }
      // Results of it that nobody takes any more are still in its text.
      if (text && !text->text.empty() && (is_old(id) || has_old_results(id, node)))
        for (std::size_t next = id.value + 1; next < source_.nodes.size(); ++next) {
          const auto& item = source_.nodes[next];
          if (!item.text.empty() || !is_getitem(*item.node)) break;
          if (!graph_.contains(NodeId(static_cast<std::uint32_t>(next))) && old_value(item) &&
              check_)
            described_unused_.insert(item.node->name);
        }
      hand_over();
    }
  }

  const Model& model_;
  const Graph& graph_;
  const GraphText& source_;
  const Outputs outputs_;
  bool names_nodes_ = false;  // older readers do not know that field
  std::string out_;           // what was not handed over yet
  const Take* take_ = nullptr;
  std::unordered_map<std::string_view, Called> called_;  // by the targets of the model's nodes
  std::string_view writing_;  // the part of the old text that is being written anew
  GraphTextCheck* check_ = nullptr;
  std::vector<NodeId> named_;                         // values in texts that are no calls
  std::vector<bool> described_;                       // values in `tensor_values`, by id …
  std::unordered_set<std::string> described_unused_;  // … and those that no node stands for
  SymbolicValues symbolic_;                           // of the text, and new ones
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> new_symbolic_;  // by kind
};

}  // namespace

std::string program_text(const Model& model, const GraphText& source) {
  std::string text;
  text.reserve(source.document.size() + source.document.size() / 8);
  GraphWriter(model, source).write_checked([&](std::string_view part) { text += part; });
  return text;
}

bool is_program_text(std::string_view text, const Model& model, const GraphText& source) {
  auto is_written = [&](Outputs outputs) {
    std::string_view rest = text;
    bool same = true;
    GraphWriter(model, source, outputs).write([&](std::string_view part) {
      same = same && rest.starts_with(part);
      if (same) rest.remove_prefix(part.size());
    });
    return same && rest.empty();
  };
  return is_written(Outputs::by_schema) || is_written(Outputs::one_always);
}

}  // namespace refx
