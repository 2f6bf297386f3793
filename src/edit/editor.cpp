// SPDX-License-Identifier: Apache-2.0

#include "refx/editor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "book/target.h"
#include "edit/access.h"
#include "edit/step_store.h"
#include "edit/transaction.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/validate.h"

namespace refx {

namespace {

// torch.fx names a node after what it calls: "aten.linear.default" -> linear, "conv.bn" -> conv_bn.
std::string base_name(const Node& node) {
  if (node.op == Opcode::output) return "output";
  const std::string_view called =
      node.op == Opcode::call_function ? book::value_name(node.target) : node.target.view();
  std::string name;
  for (char c : called) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  return name;
}

// Names a node that has no name. Many nodes call the same few functions, so a cache saves making
// their targets and names again, and lets them share the texts.
void name_after_target(Node& node) {
  // More than the operators of any one model. The limit only bounds the memory if a process reads
  // many models with operators of its own.
  constexpr std::size_t kMost = 1024;
  thread_local std::unordered_map<Name, Name> known;
  if (node.op != Opcode::call_function) {
    if (node.name.empty()) node.name = base_name(node);
    return;
  }
  auto it = known.find(node.target);
  if (it == known.end()) {
    if (known.size() == kMost) known.clear();
    it = known.emplace(node.target, base_name(node)).first;
  }
  node.target = it->first;
  if (node.name.empty()) node.name = it->second;
}

std::string user_names(const Graph& graph, const std::vector<NodeId>& users) {
  std::vector<std::string> names;
  for (NodeId user : users) {
    if (names.size() == 5) {
      names.push_back(fmt::format("and {} more", users.size() - 5));
      break;
    }
    names.push_back("'" + graph[user].name + "'");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class T>
Id<T> after(const Table<T>& table, Id<T> where) {
  return where ? table.next(where) : Id<T>{};
}

void require_known(const Graph& graph, const Node& node) {
  for_each_input(node, [&](NodeId input) {
    if (!graph.contains(input))
      throw Error(
          fmt::format("node '{}' ({}) refers to node id {}, which is not a live node of this model",
                      node.name, node.target, input.value));
  });
}

}  // namespace

Editor::Editor(Model& model) : transaction_(std::make_unique<Transaction>(model)) {}
Editor::~Editor() = default;

const Model& Editor::model() const { return transaction_->model(); }

NodeId Editor::insert_before(NodeId where, Node node) {
  if (where) graph()[where];  // throws if it is not live, before anything changes
  name_after_target(node);
  node.name = graph().fresh_name(node.name);
  require_known(graph(), node);
  return transaction_->insert(where, std::move(node));
}

NodeId Editor::insert_after(NodeId where, Node node) {
  graph()[where];
  return insert_before(graph().next(where), std::move(node));
}

void Editor::set_node(NodeId id, Node node) {
  const Node& old = graph()[id];
  // The name identifies the node in files and in the text form, and the marks belong to the
  // history.
  node.name = old.name;
  node.marks = old.marks;
  require_known(graph(), node);
  transaction_->write<Node>(id, std::make_shared<Node>(std::move(node)));
}

void Editor::set_target(NodeId id, Name target) {
  Node node = graph()[id];
  node.target = std::move(target);
  set_node(id, std::move(node));
}

void Editor::set_arg(NodeId id, std::size_t position, Arg value) {
  Node node = graph()[id];
  if (position >= node.args.size())
    throw Error(fmt::format("set_arg: node '{}' has {} arguments, there is no argument {}",
                            node.name, node.args.size(), position));
  node.args[position] = std::move(value);
  set_node(id, std::move(node));
}

void Editor::set_kwarg(NodeId id, std::string_view name, Arg value) {
  Node node = graph()[id];
  const auto known = std::find_if(node.kwargs.begin(), node.kwargs.end(),
                                  [&](const auto& kwarg) { return kwarg.first == name; });
  if (known == node.kwargs.end())
    node.kwargs.emplace_back(name, std::move(value));
  else
    known->second = std::move(value);
  set_node(id, std::move(node));
}

void Editor::set_type(NodeId id, TypePtr type) {
  Node node = graph()[id];
  node.type = std::move(type);
  set_node(id, std::move(node));
}

namespace {

void replace(Arg& arg, NodeId of, NodeId by) {
  if (const NodeId* id = arg.get<NodeId>()) {
    if (*id == of) arg = by;
    return;
  }
  auto in = [&](Args args) {
    for (Arg& a : args) replace(a, of, by);
    return args;
  };
  if (const List* list = arg.get<List>())
    arg = List{in(list->items)};
  else if (const Tuple* tuple = arg.get<Tuple>())
    arg = Tuple{in(tuple->items)};
  else if (const Slice* slice = arg.get<Slice>())
    arg = Slice{in(slice->parts)};
  else if (const Dict* dict = arg.get<Dict>()) {
    Dict copy = *dict;
    for (auto& [key, value] : copy.items) replace(key, of, by), replace(value, of, by);
    arg = std::move(copy);
  }
}

}  // namespace

void Editor::replace_uses(NodeId of, NodeId by) {
  graph()[by];  // throws if it is not live
  for (NodeId user : graph().users(of)) {
    // `by` usually computes with `of`, such as a cast of it: it must not become its own input.
    if (user == by) continue;
    Node node = graph()[user];
    for (Arg& arg : node.args) replace(arg, of, by);
    for (auto& [key, arg] : node.kwargs) replace(arg, of, by);
    set_node(user, std::move(node));
  }
}

void Editor::erase_node(NodeId id) {
  const Node& node = graph()[id];
  if (graph().num_users(id) > 0)
    throw Error(fmt::format("erase: node '{}' still has users: {}", node.name,
                            user_names(graph(), graph().users(id))));
  transaction_->write<Node>(id, nullptr);
}

StateId Editor::add_state(StateEntry entry, StateId where) {
  if (where) state()[where];
  return insert_before(after<StateEntry>(state(), where), std::move(entry));
}

StateId Editor::insert_before(StateId where, StateEntry entry) {
  if (where) state()[where];
  if (!entry.tensor.defined())
    throw Error(fmt::format("state entry '{}' has no tensor", entry.name));
  return transaction_->insert(where, std::move(entry));
}

void Editor::set_state(StateId id, at::TensorBase tensor) {
  StateEntry entry = state()[id];
  entry.tensor = std::move(tensor);
  set_state(id, std::move(entry));
}

void Editor::set_state(StateId id, StateEntry entry) {
  entry.name = state()[id].name;
  if (!entry.tensor.defined())
    throw Error(fmt::format("state entry '{}' is set to no tensor", entry.name));
  transaction_->write(id, std::make_shared<const StateEntry>(std::move(entry)));
}

void Editor::erase_state(StateId id) {
  const StateEntry& entry = state()[id];
  if (graph().num_readers(entry.name) > 0)
    throw Error(fmt::format("erase: state entry '{}' is still read by {}", entry.name,
                            user_names(graph(), graph().readers(entry.name))));
  transaction_->write<StateEntry>(id, nullptr);
}

ModuleId Editor::add_module(Module module, ModuleId where) {
  if (where) modules()[where];
  return insert_before(after<Module>(modules(), where), std::move(module));
}

ModuleId Editor::insert_before(ModuleId where, Module module) {
  if (where) modules()[where];
  return transaction_->insert(where, std::move(module));
}

void Editor::set_module(ModuleId id, Module module) {
  module.name = modules()[id].name;
  transaction_->write(id, std::make_shared<const Module>(std::move(module)));
}

void Editor::erase_module(ModuleId id) {
  const Module& module = modules()[id];
  if (graph().num_callers(module.name) > 0)
    throw Error(fmt::format("erase: module '{}' is still called by {}", module.name,
                            user_names(graph(), graph().callers(module.name))));
  transaction_->write<Module>(id, nullptr);
}

void Editor::mark(NodeId id, const Name& signature) {
  std::vector<Name> marks = graph()[id].marks;
  if (std::find(marks.begin(), marks.end(), signature) != marks.end()) return;
  marks.push_back(signature);
  set_marks(id, std::move(marks));
}

void Editor::unmark(NodeId id, const Name& signature) {
  std::vector<Name> marks = graph()[id].marks;
  const auto is_own = [&](const Name& mark) { return same_transformation(mark, signature); };
  if (std::erase_if(marks, is_own) > 0) set_marks(id, std::move(marks));
}

void Editor::set_marks(NodeId id, std::vector<Name> signatures) {
  // Marking follows a rewrite of the same node, whose new value nobody else has yet: then it needs
  // no copy.
  if (Node* own = transaction_->own(id)) {
    own->marks = std::move(signatures);
    return;
  }
  Node node = graph()[id];
  node.marks = std::move(signatures);
  transaction_->write<Node>(id, std::make_shared<Node>(std::move(node)));
}

void Editor::add_piece(Piece piece) {
  if (pieces_.empty()) pieces_.reserve(2);  // most tensors are made of a few others
  pieces_.push_back(piece);
}

void Editor::amend(Step step) {
  model().history()[step.id];
  amended_.push_back(std::make_shared<const Step>(std::move(step)));
}

void Editor::roll_back() {
  transaction_->rollback();
  pieces_.clear();
  amended_.clear();
}

bool Editor::changed() const { return transaction_->changed(); }

std::vector<Edit> Editor::edits() const {
  std::vector<Edit> edits = transaction_->edits();
  std::erase_if(edits, is_nothing);
  return edits;
}

StepId Editor::commit(Label label) {
  if (!changed()) return {};
  auto found = problems(model(), transaction_->edits());
#ifndef NDEBUG
  // The whole model takes time in proportion to its size at every step, so only in debug builds.
  if (found.empty()) found = problems(model());
#endif
  if (!found.empty()) {
    transaction_->rollback();
    throw InternalError(fmt::format("{} at {} broke the model: {}", label.transformation,
                                    label.site, fmt::join(found, "; ")));
  }
  auto step = std::make_shared<Step>();
  step->transformation = std::move(label.transformation);
  step->signature = std::move(label.signature);
  step->parameters = std::move(label.parameters);
  step->numerics = label.numerics;
  step->site = std::move(label.site);
  step->pieces = std::move(pieces_);
  step->nodes.reserve(transaction_->edits().size());
  for (const Edit& edit : transaction_->edits())
    if (const auto* change = std::get_if<Change<Node>>(&edit); change && change->after)
      step->nodes.push_back(change->id);
  step->stamps = stamps_of(transaction_->edits());
  step->edits.reserve(transaction_->edits().size());
  // Everything that allocates comes before keep(). If memory runs out there, the transaction still
  // rolls back.
  StepStore steps(transaction_->model());
  const auto reclaimable = steps.reclaimable_slots(steps.reversed(), transaction_->edits());
  steps.add(step);
  transaction_->keep(step->edits);
  for (StepPtr& amended : amended_) steps.replace(std::move(amended));
  amended_.clear();
  // A reversed step may write what this one has changed, so it cannot be redone any more.
  steps.purge(reclaimable);
  std::vector<StepPtr>().swap(steps.reversed());
  return step->id;
}

void Editor::commit_as_origin(std::shared_ptr<const Source> source,
                              std::optional<std::vector<Mutation>> mutations,
                              std::optional<std::vector<std::string>> kept_modules) {
  REFX_CHECK(model().history().empty(), "a model with a history gets another origin");
  Model& model = transaction_->model();
  // Nothing below can fail, so these need no place in the journal.
  transaction_->keep();
  ModelAccess::source(model) = std::move(source);
  if (mutations) ModelAccess::mutations(model) = std::move(*mutations);
  if (kept_modules) ModelAccess::kept_modules(model) = std::move(*kept_modules);
  ModelAccess::touch(model);
}

void Editor::commit_without_step() {
  transaction_->keep();
  StepStore steps(transaction_->model());
  for (StepPtr& amended : amended_) steps.replace(std::move(amended));
  amended_.clear();
}

}  // namespace refx
