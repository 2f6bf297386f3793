// SPDX-License-Identifier: Apache-2.0

#include "rules/match.h"

#include <algorithm>

#include "book/call.h"
#include "book/meanings.h"
#include "book/result_types.h"
#include "ops/no_op.h"
#include "ops/param.h"
#include "rules/literal.h"
#include "util/limits.h"

namespace refx::rules {

namespace {

constexpr auto kNone = static_cast<std::size_t>(-1);

bool is_dim(std::string_view argument) { return argument.starts_with("dim"); }

bool same_dim(std::int64_t a, std::int64_t b, std::optional<std::size_t> rank) {
  if (a == b) return true;
  return rank && (a < 0) != (b < 0) &&
         (a < 0 ? a + static_cast<std::int64_t>(*rank) == b
                : b + static_cast<std::int64_t>(*rank) == a);
}

const Args* items_of(const Arg& arg) {
  if (const List* list = arg.get<List>()) return &list->items;
  if (const Tuple* tuple = arg.get<Tuple>()) return &tuple->items;
  return nullptr;
}

// Whether a call may be left out that has this in the place of its last operand.
bool is_neutral(std::string_view call, const Arg& operand) {
  const bool adds = call == "add" || call == "sub", multiplies = call == "mul" || call == "div";
  if (operand.is<None>()) return adds || multiplies || call == "to";
  return (adds && same_number(operand, Arg(0))) || (multiplies && same_number(operand, Arg(1)));
}

// x + 2 * y is no y + 2 * x.
bool has_order(const Reading& call) {
  const Reading::Given* alpha = call.find("alpha");
  return !book::is_commutative(call.name) || (alpha && !alpha->by_default);
}

}  // namespace

NodeId behind_no_ops(const Model& model, NodeId id) {
  while (const NodeId input = no_op_input(model, id)) id = input;
  return id;
}

Reading read_form(const Body& body, NodeId id) {
  const Node& node = body.model.graph()[id];
  if (book::name_of_call(body.model, node) == "to" && node.args.size() + node.kwargs.size() == 2)
    return {.name = "to",
            .args = {{"self", node.args[0]},
                     {"dtype", node.args.size() == 2 ? node.args[1] : node.kwargs[0].second}}};
  std::vector<Reading> readings = read_meanings(body.model, id);
  // Those that mean the same in every case: the pattern then finds all of their names.
  return std::move(book::is_read_by_meaning(readings[0].name) ? readings.back() : readings[0]);
}

Pattern::Pattern(const Definition& rule, const Body& body)
    : rule_(&rule), body_(&body), parts_(body.model.graph().id_limit()) {
  variable_of_.assign(parts_.size(), kNone);
  for (std::size_t i = 0; i < rule.variables.size(); ++i)
    if (const auto it = body.named.find(rule.variables[i].name); it != body.named.end())
      variable_of_[it->second.value] = i;
  for (NodeId id : body.model.graph()) {
    if (body.model.graph()[id].op != Opcode::call_function) continue;
    Part& part = parts_[id.value];
    part.reading = read_form(body, id);
    for (std::string_view name : book::names_of_meaning(part.reading.name))
      part.names.push_back(symbol_of(name));
    for (const Reading::Given& given : part.reading.args) {
      const NodeId* node = given.value.get<NodeId>();
      if (!node) continue;
      const Variable* variable = this->variable(*node);
      const bool may_lack = variable && variable->default_value &&
                            (given.name == "other" || given.name == "dtype") &&
                            is_neutral(part.reading.name, *variable->default_value);
      if (may_lack)
        part.optional = &given;
      else if (!part.principal)
        part.principal = &given;
    }
  }
}

const Variable* Pattern::variable(NodeId id) const {
  const std::size_t at = variable_of_[id.value];
  return at == kNone ? nullptr : &rule_->variables[at];
}

// What a call's place is taken by if it is left out; no id if it cannot be.
NodeId Pattern::left_of(const Part& part) const {
  return part.optional && part.principal ? *part.principal->value.get<NodeId>() : NodeId{};
}

void Pattern::add_names(NodeId id, std::vector<Symbol>& names) const {
  const Part& part = parts_[id.value];
  names.insert(names.end(), part.names.begin(), part.names.end());
  if (const NodeId left = left_of(part); left && !variable(left)) add_names(left, names);
}

void Pattern::add_root_names(std::vector<Symbol>& names) const {
  add_names(*body_->results[0].get<NodeId>(), names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

// Whether a call of the form can stand for something that is no value of the graph.
bool Pattern::may_be_absent(NodeId form) const {
  const NodeId left = left_of(parts_[form.value]);
  return left && (variable(left) || may_be_absent(left));
}

// Compares what calls are named, and what the calls that they use are named.
struct Pattern::Names {
  static constexpr int kDepth = 3;
  const Pattern& pattern;
  const Model& model;
  Outline& outline;

  bool may_be(NodeId form, NodeId node, int depth, bool root = false) const {
    const Part& part = pattern.parts_[form.value];
    for (NodeId at = node; at; at = root ? NodeId{} : outline.handed_on(model, at))
      if (std::find(part.names.begin(), part.names.end(), outline.name(at)) != part.names.end() &&
          (depth == 0 || may_use(part, at, depth - 1)))
        return true;
    const NodeId left = pattern.left_of(part);
    if (!left) return false;
    return pattern.variable(left) ? !root : may_be(left, node, depth, root);
  }

  bool may_use(const Part& part, NodeId node, int depth) const {
    return std::all_of(part.reading.args.begin(), part.reading.args.end(), [&](const auto& wanted) {
      const NodeId* form = wanted.value.template get<NodeId>();
      if (!form || pattern.variable(*form) || pattern.may_be_absent(*form)) return true;
      bool found = false;
      for_each_input(model.graph()[node],
                     [&](NodeId input) { found = found || may_be(*form, input, depth); });
      return found;
    });
  }
};

bool Pattern::may_be_at(const Model& model, Outline& outline, NodeId root) const {
  return Names{*this, model, outline}.may_be(*body_->results[0].get<NodeId>(), root, Names::kDepth,
                                             true);
}

// Tries what a form leaves open, one after the other: the order of the operands of a sum, operands
// that may be left out, and how a node is read.
class Search {
 public:
  Search(const Pattern& pattern, const Model& model) : pattern_(pattern), model_(model) {}

  std::optional<Match> at(NodeId root) {
    State state;
    state.variables.resize(pattern_.rule_->variables.size());
    state.of.resize(pattern_.parts_.size());
    state.goals.push_back({pattern_.body_->results[0], root});
    if (!solve(std::move(state))) return std::nullopt;
    return match();
  }

 private:
  // That an argument of the form is this one of the model.
  struct Goal {
    Arg form;
    Arg given;
    StateId state = {};
    bool dims = false;
    std::optional<std::size_t> rank = {};
  };
  struct State {
    std::vector<Goal> goals;
    std::size_t next = 0;
    std::vector<Binding> variables;
    std::vector<NodeId> of;
    std::vector<NodeId> left_out;  // calls of the form whose place is taken by an operand
    std::vector<NodeId> through, beside, copies;
  };

  bool solve(State state) {
    while (state.next < state.goals.size()) {
      // The number of ways to match grows exponentially with sums and optional operands.
      if (++trials_ > limits::kRuleTrials) return false;
      const Goal goal = state.goals[state.next++];
      if (const NodeId* id = goal.form.get<NodeId>()) {
        if (pattern_.variable(*id)) {
          if (!bind(state, pattern_.variable_of_[id->value], goal)) return false;
          continue;
        }
        return reach(state, *id, goal);
      }
      if (!same(state, goal)) return false;
    }
    return finish(std::move(state));
  }

  // ---- values ----------------------------------------------------------------------------------

  // That a call of the form is found at the goal, and all that is left to do.
  bool reach(const State& state, NodeId form, const Goal& goal) {
    const Pattern::Part& part = pattern_.parts_[form.value];
    const NodeId* given = goal.given.get<NodeId>();
    if (const NodeId of = state.of[form.value]) {
      // The form uses the value twice: the model may have a no-op, such as a cast, in front of one
      // use.
      if (!given || behind_no_ops(model_, *given) != behind_no_ops(model_, of)) return false;
      State next = state;
      if (*given != of) {
        const auto& absent = state.left_out;
        const bool inner = std::find(absent.begin(), absent.end(), form) == absent.end();
        for (NodeId at : {*given, of}) {
          next.copies.push_back(at);
          for (; inner && no_op_input(model_, at); at = no_op_input(model_, at))
            add_path(at, next.through);
        }
      }
      return solve(std::move(next));
    }
    const bool root = goal.form == pattern_.body_->results[0];
    if (given) {
      std::vector<NodeId> through;
      for (NodeId at = *given; at; at = root ? NodeId{} : no_op_input(model_, at)) {
        if (try_node(state, form, part, at, through)) return true;
        add_path(at, through);
      }
    }
    return part.optional && part.principal && leave_out(state, form, part, goal);
  }

  // What is looked through: the node, and those between it and the value that it hands on.
  void add_path(NodeId from, std::vector<NodeId>& through) const {
    const NodeId to = no_op_input(model_, from);
    for (NodeId at = from; to && at != to;) {
      through.push_back(at);
      NodeId input;
      for_each_input(model_.graph()[at], [&](NodeId id) { input = input ? input : id; });
      if (!input) return;
      at = input;
    }
  }

  bool leave_out(State state, NodeId form, const Pattern::Part& part, const Goal& goal) {
    const NodeId* given = goal.given.get<NodeId>();
    const NodeId* left = part.principal->value.get<NodeId>();
    // A rule whose only call is left out would match every value.
    if (goal.form == pattern_.body_->results[0] && pattern_.variable(*left)) return false;
    if (given) state.of[form.value] = *given;
    state.left_out.push_back(form);
    const NodeId variable = *part.optional->value.get<NodeId>();
    Binding& binding = state.variables[pattern_.variable_of_[variable.value]];
    const Arg& default_value = *pattern_.variable(variable)->default_value;
    if (binding.bound && !(binding.value == default_value && !binding.state)) return false;
    binding = {default_value, {}, true};
    state.goals.push_back({part.principal->value, goal.given, goal.state});
    return solve(std::move(state));
  }

  bool try_node(const State& state, NodeId form, const Pattern::Part& part, NodeId node,
                const std::vector<NodeId>& through) {
    for (const Reading& reading : read_meanings(model_, node)) {
      if (reading.name != part.reading.name || (reading.inverse && !has_factor(part))) continue;
      const bool swaps = !has_order(reading) && !has_order(part.reading);
      // A commutative call is tried with its operands as they are and then swapped.
      for (int order = 0; order < (swaps ? 2 : 1); ++order) {
        State next = state;
        next.of[form.value] = node;
        next.through.insert(next.through.end(), through.begin(), through.end());
        if (add_goals(next, part, reading, order == 1) && solve(std::move(next))) return true;
      }
    }
    return false;
  }

  bool has_factor(const Pattern::Part& part) const {
    for (const Reading::Given& given : part.reading.args)
      if (const NodeId* id = given.value.get<NodeId>())
        if (const Variable* variable = pattern_.variable(*id))
          if (variable->kind == VariableKind::factor) return true;
    return false;
  }

  bool add_goals(State& state, const Pattern::Part& part, const Reading& reading, bool swapped) {
    auto counterpart = [&](std::string_view name) {
      if (swapped && name == "self") return std::string_view("other");
      if (swapped && name == "other") return std::string_view("self");
      return name;
    };
    std::optional<std::size_t> rank;
    if (const Reading::Given* self = reading.find("self"))
      if (const NodeId* id = self->value.get<NodeId>()) rank = book::known_rank(model_, *id);
    std::size_t found = 0;
    for (const Reading::Given& wanted : part.reading.args) {
      const Reading::Given* given = reading.find(counterpart(wanted.name));
      if (!given) {
        if (!wanted.by_default) return false;
        continue;
      }
      ++found;
      // Both leave it out.
      if (wanted.by_default && given->by_default && !given->state) continue;
      state.goals.push_back({wanted.value, given->value, given->state, is_dim(wanted.name), rank});
    }
    if (found == reading.args.size()) return true;
    // What the form does not know must be as by default.
    for (const Reading::Given& given : reading.args)
      if (!given.by_default && !part.reading.find(counterpart(given.name))) return false;
    return true;
  }

  // ---- literals --------------------------------------------------------------------------------

  bool same(State& state, const Goal& goal) {
    if (goal.state) return false;
    const Args* wanted = items_of(goal.form);
    const Args* given = items_of(goal.given);
    if (wanted && given) {
      if (wanted->size() != given->size()) return false;
      for (std::size_t i = 0; i < wanted->size(); ++i)
        state.goals.push_back({(*wanted)[i], (*given)[i], {}, goal.dims, goal.rank});
      return true;
    }
    // One dimension, or a list of one.
    if (goal.dims && wanted && wanted->size() == 1)
      return same(state, {(*wanted)[0], goal.given, {}, true, goal.rank});
    if (goal.dims && given && given->size() == 1)
      return same(state, {goal.form, (*given)[0], {}, true, goal.rank});
    const auto* a = goal.form.get<std::int64_t>();
    const auto* b = goal.given.get<std::int64_t>();
    if (goal.dims && a && b) return same_dim(*a, *b, goal.rank);
    if (number_of(goal.form) && goal.given.is<NodeId>()) {
      const auto number = constant_number(model_, goal.given, state.beside);
      return number && *number == *number_of(goal.form);
    }
    return same_number(goal.form, goal.given);
  }

  bool bind(State& state, std::size_t index, const Goal& goal) {
    const Variable& variable = pattern_.rule_->variables[index];
    Binding found{goal.given, goal.state, true};
    const bool by_default =
        variable.default_value && !goal.state && same_number(*variable.default_value, goal.given);
    if (!by_default && !fits(state, variable, found)) return false;
    Binding& binding = state.variables[index];
    if (!binding.bound) {
      binding = std::move(found);
      return true;
    }
    const NodeId* a = binding.value.get<NodeId>();
    const NodeId* b = found.value.get<NodeId>();
    if (a && b && *a != *b) {
      state.copies.insert(state.copies.end(), {*a, *b});
      return behind_no_ops(model_, *a) == behind_no_ops(model_, *b);
    }
    return binding.state == found.state && same_number(binding.value, found.value);
  }

  bool fits(State& state, const Variable& variable, Binding& found) const {
    const Arg& arg = found.value;
    switch (variable.kind) {
      case VariableKind::value:
        return found.state || arg.is<NodeId>();
      case VariableKind::weight: {
        if (found.state) return true;
        const NodeId* id = arg.get<NodeId>();
        if (!id) return false;
        const Arg source = behind_no_ops(model_, *id);
        const auto param = param_of(model_, &source);
        // The weight is read through a no-op, which has to hold the same values for every user.
        if (param && param->node != *id) state.copies.push_back(*id);
        if (param) found = {param->node, param->state, true};
        return param.has_value();
      }
      case VariableKind::number:
      case VariableKind::factor: {
        const auto number = found.state ? std::nullopt : constant_number(model_, arg, state.beside);
        // A number in a tensor without dimensions is bound as a number.
        if (number && arg.is<NodeId>()) found.value = *number;
        return number.has_value();
      }
      case VariableKind::integer:
        return arg.is<std::int64_t>();
      case VariableKind::boolean:
        return arg.is<bool>();
      case VariableKind::dtype:
        return arg.is<c10::ScalarType>();
      case VariableKind::any:
        return !found.state;
    }
    return false;
  }

  // ---- results ---------------------------------------------------------------------------------

  // Other results are found among those that use what is known by then.
  bool finish(State state) {
    for (const Arg& result : pattern_.body_->results) {
      const NodeId form = *result.get<NodeId>();
      if (state.of[form.value]) continue;
      for (const Reading::Given& given : pattern_.parts_[form.value].reading.args) {
        const NodeId* input = given.value.get<NodeId>();
        if (!input) continue;
        const Arg& known = pattern_.variable(*input)
                               ? state.variables[pattern_.variable_of_[input->value]].value
                               : Arg(state.of[input->value]);
        const NodeId* id = known.get<NodeId>();
        if (!id || !*id) continue;
        for (NodeId user : model_.graph().users(*id)) {
          // One node cannot be two calls of the form.
          if (std::find(state.of.begin(), state.of.end(), user) != state.of.end()) continue;
          State next = state;
          next.goals.push_back({form, user});
          if (solve(std::move(next))) return true;
        }
      }
      return false;
    }
    found_ = std::move(state);
    return true;
  }

  Match match() {
    Match match;
    for (std::size_t i = 0; i < found_.variables.size(); ++i) {
      Binding& binding = found_.variables[i];
      // A form that does not name a variable takes its default.
      if (!binding.bound) binding = {*pattern_.rule_->variables[i].default_value, {}, true};
    }
    for (const Arg& result : pattern_.body_->results)
      match.outputs.push_back(found_.of[result.get<NodeId>()->value]);
    auto add = [&](NodeId id) {
      const bool known =
          std::find(match.outputs.begin(), match.outputs.end(), id) != match.outputs.end() ||
          std::find(match.inner.begin(), match.inner.end(), id) != match.inner.end();
      if (id && !known) match.inner.push_back(id);
    };
    for (std::size_t i = 0; i < found_.of.size(); ++i) {
      const NodeId form(static_cast<std::uint32_t>(i));
      const auto& absent = found_.left_out;
      if (std::find(absent.begin(), absent.end(), form) == absent.end()) add(found_.of[i]);
    }
    for (NodeId id : found_.through) add(id);
    std::sort(match.inner.begin(), match.inner.end(),
              [&](NodeId a, NodeId b) { return model_.graph().precedes(a, b); });
    match.variables = std::move(found_.variables);
    match.of = std::move(found_.of);
    match.beside = std::move(found_.beside);
    match.copies = std::move(found_.copies);
    return match;
  }

  const Pattern& pattern_;
  const Model& model_;
  State found_;
  int trials_ = 0;
};

std::optional<Match> Pattern::at(const Model& model, NodeId root) const {
  return Search(*this, model).at(root);
}

}  // namespace refx::rules
