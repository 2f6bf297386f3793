// SPDX-License-Identifier: Apache-2.0

#include "rules/rewrite.h"

#include <algorithm>

#include "book/call.h"
#include "book/meanings.h"
#include "exec/on_meta.h"
#include "ops/names.h"
#include "ops/param.h"
#include "ops/writes.h"
#include "refx/layers.h"
#include "rules/legality.h"
#include "rules/once.h"
#include "rules/spell.h"
#include "rules/substitute.h"

namespace refx::rules {

namespace {

// Whether the match has a grouped matrix product under another library's name. What is made in its
// place has that name, too: the two differ in the dtypes and strides that they take.
bool has_grouped_mm_fallback(const Model& model, const Match& match) {
  auto calls_it = [&](NodeId id) { return model.graph()[id].target == book::kGroupedMmFallback; };
  return std::any_of(match.outputs.begin(), match.outputs.end(), calls_it) ||
         std::any_of(match.inner.begin(), match.inner.end(), calls_it);
}

// A call of `after` as the model around it would write it; no target if it cannot.
Node spelled(const Definition& rule, NodeId form, const Reading& call, const Model& model,
             const Match& match, bool exported) {
  if (call.name == "_grouped_mm" && has_grouped_mm_fallback(model, match))
    return {.op = Opcode::call_function,
            .target = std::string(book::kGroupedMmFallback),
            .args = {call.find("self")->value, call.find("mat2")->value, call.find("offs")->value}};
  const Node& written = rule.after.model.graph()[form];
  const book::Call known(rule.after.model, written);
  if (known.spelled() == book::Call::Spelled::nothing)
    return {.op = Opcode::call_function, .target = written.target};  // somebody else's operator
  return exported ? spell_as_op(call) : spell_as_function(call);
}

// Somebody else's operator takes its arguments as they are written.
void set_written_arguments(const Definition& rule, NodeId form, const Values& values, Node& node) {
  const Node& written = rule.after.model.graph()[form];
  node.args.clear();
  node.kwargs.clear();
  for (const Arg& arg : written.args) node.args.push_back(substituted(arg, values));
  for (const auto& [key, arg] : written.kwargs)
    node.kwargs.emplace_back(key, substituted(arg, values));
}

bool is_foreign(const Definition& rule, NodeId form) {
  return book::Call(rule.after.model, rule.after.model.graph()[form]).spelled() ==
         book::Call::Spelled::nothing;
}

}  // namespace

Draft draft(const Definition& rule, const Model& model, const Match& match) {
  Draft made;
  Values values = values_of(rule, rule.after, match);
  // Nodes that would be made have ids beyond those of the graph.
  const auto limit = static_cast<std::uint32_t>(model.graph().id_limit());
  std::vector<TypePtr> types;
  std::vector<NodeId> calls;
  auto add = [&](TypePtr type, NodeId call = {}) {
    types.push_back(std::move(type));
    calls.push_back(call);
    return NodeId(limit + static_cast<std::uint32_t>(types.size()) - 1);
  };
  auto type_of_value = [&](NodeId id) {
    const bool made_here = id.value >= limit && id.value - limit < types.size();
    return made_here ? types[id.value - limit] : known_type(model, match, id);
  };
  const std::vector<TypePtr> computed = types_of_once(rule, model, match);
  for (std::size_t i = 0; i < computed.size(); ++i)
    values[rule.after.named.at(rule.once_names[i]).value] = add(computed[i]);
  const bool exported = is_exported(model, match);
  const std::string unknown =
      substitute(rule.after, values, type_of_value, [&](NodeId form, const Reading& call) -> Arg {
        const Node node = spelled(rule, form, call, model, match, exported);
        if (node.target.empty() && !made.problem)
          made.problem = because<ReasonId::no_overload>(call.name);
        auto type_of_arg = [&](const Arg& arg) {
          return arg.is<NodeId>() ? type_of_value(*arg.get<NodeId>()) : nullptr;
        };
        TypePtr type = result_type(call, type_of_arg);
        const bool result = std::find(rule.after.results.begin(), rule.after.results.end(),
                                      Arg(form)) != rule.after.results.end();
        // Another library's operator may do anything, and is not run for its type.
        if (!type && !node.target.empty() && !is_foreign(rule, form))
          type = exec::type_on_meta(spell_as_op(call), type_of_value);
        if (!type && exported && !result && !made.problem)
          made.problem = because<ReasonId::operator_type_unknown>(call.name);
        return add(std::move(type), form);
      });
  if (!unknown.empty()) made.problem = because<ReasonId::replacement_unknown>(unknown);
  // A symbol has no node to be computed from. Two of them may be compared, which gives a literal.
  const Graph& after = rule.after.model.graph();
  for (NodeId id : after) {
    if (!after[id].target.starts_with("rule.") || !values[id.value].is<SymInt>()) continue;
    const std::vector<NodeId> users = after.users(id);
    if (std::any_of(users.begin(), users.end(),
                    [&](NodeId user) { return !values[user.value].is<bool>(); }))
      made.problem = because<ReasonId::size_known_at_run_time>();
  }
  if (made.problem) return made;
  for (const Arg& result : rule.after.results) {
    const NodeId* id = values[result.get<NodeId>()->value].get<NodeId>();
    if (!id) return {because<ReasonId::nothing_to_return>(), {}, {}};
    made.types.push_back(type_of_value(*id));
    made.calls.push_back(id->value < limit ? NodeId{} : calls[id->value - limit]);
  }
  return made;
}

namespace {

// Applies one rule at one match.
class Rewriter {
 public:
  Rewriter(const Definition& rule, Editor& editor, const Match& match)
      : rule_(rule),
        editor_(editor),
        match_(match),
        exported_(is_exported(editor.model(), match)),
        dead_(dead_nodes(editor.model(), match).nodes),
        where_(
            *std::min_element(match.outputs.begin(), match.outputs.end(),
                              [&](NodeId a, NodeId b) { return editor.graph().precedes(a, b); })) {
    for (const auto* nodes : {&match.outputs, &dead_})
      for (NodeId id : *nodes)
        if (editor.graph()[id].op == Opcode::call_module)
          modules_.push_back(editor.graph()[id].target);
  }

  void run() {
    Values values = values_of(rule_, rule_.after, match_);
    add_once(values);
    read_layers(values);
    const std::vector<Kept> kept = make(values);
    put_results(kept, values);
    erase_dead();
  }

 private:
  // A result: the node that has its name, the one of `after` that gives it, and the call that takes
  // the node's place. No target where the value is there already: it is a variable, or others need
  // it, too.
  struct Kept {
    NodeId old, form;
    Node node = {};
  };

  Node reading_of(const std::string& state) {
    return {.op = Opcode::get_attr,
            .name = state,
            .target = state,
            .meta = editor_.graph()[where_].meta};
  }

  void add_once(Values& values) {
    if (!rule_.once) return;
    const auto results = compute_once(rule_, editor_.model(), match_);
    const Param like = weights_of_once(rule_, match_).at(0);
    const std::string path(owner_path(editor_.state()[like.state].name));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const NodeId form = rule_.after.named.at(rule_.once_names[i]);
      if (rule_.after.model.graph().num_users(form) == 0) continue;  // a step on the way
      const std::string name = editor_.state().fresh_name(path + "." + rule_.once_names[i]);
      Param made = add_param(editor_, like, name, results[i], where_);
      // A layer's weight has no node; the new tensor needs one to be read by.
      if (!made.node) made.node = editor_.insert_before(where_, reading_of(name));
      values[form.value] = made.node;
      for (Piece& piece : pieces_of_once(rule_, editor_.model(), match_, i, made.state))
        editor_.add_piece(piece);
    }
  }

  // A layer's own tensors that `after` reads itself.
  void read_layers(Values& values) {
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const Binding& binding = match_.variables[i];
      if (!binding.state || binding.value.is<NodeId>()) continue;
      const NodeId form = rule_.after.named.at(rule_.variables[i].name);
      const auto users = rule_.after.model.graph().users(form);
      const bool read = std::any_of(users.begin(), users.end(), [&](NodeId user) {
        return !asks(rule_.after.model.graph()[user]);
      });
      if (!read) continue;
      values[form.value] =
          editor_.insert_before(where_, reading_of(editor_.state()[binding.state].name));
      still_read_.push_back(binding.state);
    }
  }

  TypePtr type_of_value(NodeId id) const { return known_type(editor_.model(), match_, id); }

  // Makes the calls of `after`; those that give results are left for the nodes that they replace.
  std::vector<Kept> make(Values& values) {
    std::vector<Kept> kept;
    for (std::size_t i = 0; i < match_.outputs.size(); ++i) {
      const NodeId form = *rule_.after.results[i].get<NodeId>();
      kept.push_back({match_.outputs[i], form});
    }
    substitute(
        rule_.after, values, [&](NodeId id) { return type_of_value(id); },
        [&](NodeId form, const Reading& call) -> Arg {
          Node node = spelled(rule_, form, call, editor_.model(), match_, exported_);
          if (is_foreign(rule_, form)) set_written_arguments(rule_, form, values, node);
          for (Kept& result : kept)
            if (result.form == form && !is_needed_again(form)) {
              result.node = std::move(node);
              return result.old;
            }
          return insert(std::move(node), call);
        });
    return kept;
  }

  bool is_needed_again(NodeId form) const {
    const auto& results = rule_.after.results;
    const Graph& graph = rule_.after.model.graph();
    const auto users = graph.users(form);
    return std::count(results.begin(), results.end(), Arg(form)) > 1 ||
           std::any_of(users.begin(), users.end(),
                       [&](NodeId user) { return graph[user].op != Opcode::output; });
  }

  NodeId insert(Node node, const Reading& call) {
    auto type_of_id = [&](NodeId id) { return type_of_value(id); };
    node.type = result_type(call, [&](const Arg& arg) {
      return arg.is<NodeId>() ? type_of_value(*arg.get<NodeId>()) : nullptr;
    });
    if (!node.type) node.type = exec::type_on_meta(spell_as_op(call), type_of_id);
    node.meta = editor_.graph()[where_].meta;
    return editor_.insert_before(where_, std::move(node));
  }

  void put_results(std::vector<Kept> kept, const Values& values) {
    for (Kept& result : kept) {
      const Node& old = editor_.graph()[result.old];
      const TypePtr type = old.type;
      const auto meta = old.meta;
      // Who needs the memory in order gets it in order.
      const bool ordered = type && !tolerates_strides(editor_.model(), result.old);
      NodeId value = {};
      if (result.node.target.empty()) {
        value = *values[result.form.value].get<NodeId>();
      } else {
        result.node.type = type;
        result.node.meta = meta;
      }
      if (!ordered && value) {
        editor_.replace_uses(result.old, value);
        editor_.erase_node(result.old);
        continue;
      }
      if (!ordered) {
        editor_.set_node(result.old, std::move(result.node));
        continue;
      }
      if (!value) value = editor_.insert_before(result.old, std::move(result.node));
      Node copy{.op = exported_ ? Opcode::call_function : Opcode::call_method,
                .target = exported_ ? "aten.contiguous.default" : "contiguous",
                .args = {value},
                .type = type,
                .meta = meta};
      editor_.set_node(result.old, std::move(copy));
    }
  }

  // ---- what nobody needs any more
  // ----------------------------------------------------------------

  bool is_free(NodeId id) const {
    return editor_.graph().contains(id) && editor_.graph().num_users(id) == 0;
  }

  void erase_dead() {
    for (NodeId id : dead_)
      if (is_free(id)) editor_.erase_node(id);
    // Numbers in tensors that only this match read.
    for (NodeId id : match_.beside)
      if (is_free(id)) erase_constant(id);
    for (const std::string& path : modules_) erase_layer(path);
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const NodeId* id = match_.variables[i].value.get<NodeId>();
      if (id && rule_.variables[i].kind == VariableKind::weight && is_free(*id))
        erase_constant(*id);
    }
  }

  void erase_constant(NodeId id) {
    const Arg arg(id);
    const auto param = param_of(editor_.model(), &arg);
    if (!param) return editor_.erase_node(id);
    const Name& name = editor_.state()[param->state].name;
    // The tensor stays if another node, a write or a layer that is called needs it.
    const bool others = editor_.graph().num_readers(name) > 1 ||
                        is_mutated(editor_.model(), name) ||
                        !called_owner(editor_.model(), name).empty();
    if (others && editor_.graph()[id].op == Opcode::get_attr) editor_.erase_node(id);
    if (!others) erase_param(editor_, *param);
  }

  void erase_layer(const std::string& path) {
    const ModuleId module = editor_.modules().find(path);
    if (!module || editor_.graph().num_callers(path) > 0) return;
    const std::string type = editor_.modules()[module].type;
    editor_.erase_module(module);
    for (const std::string& tensor : layer_tensors(type)) {
      const StateId state = editor_.state().find(path + "." + tensor);
      const bool read =
          std::find(still_read_.begin(), still_read_.end(), state) != still_read_.end();
      if (state && !read && editor_.graph().num_readers(path + "." + tensor) == 0)
        editor_.erase_state(state);
    }
  }

  const Definition& rule_;
  Editor& editor_;
  const Match& match_;
  const bool exported_;
  const std::vector<NodeId> dead_;
  const NodeId where_;
  std::vector<std::string> modules_;
  std::vector<StateId> still_read_;
};

}  // namespace

void rewrite(const Definition& rule, Editor& editor, const Match& match) {
  Rewriter(rule, editor, match).run();
}

}  // namespace refx::rules
