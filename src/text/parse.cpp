// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "refx/editor.h"
#include "refx/error.h"
#include "refx/text.h"
#include "refx/validate.h"
#include "text/arg_reader.h"
#include "text/read_node.h"
#include "text/read_state_line.h"
#include "text/read_type.h"
#include "text/spelling.h"
#include "text/zeros.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

template <class T>
std::vector<std::string> names_in(const Table<T>& table) {
  std::vector<std::string> names;
  for (Id<T> id : table) names.push_back(table[id].name);
  return names;
}

std::vector<std::int64_t> numbers(const std::vector<Dim>& dims) {
  std::vector<std::int64_t> values;
  for (const Dim& dim : dims) {
    if (!dim.known()) throw Error("a tensor has sizes that are numbers, not " + shown(dim.expr));
    values.push_back(dim.value);
  }
  return values;
}

TensorSpec spec_of(const StateLine& line) {
  TensorSpec spec;
  spec.dtype = line.type.dtype;
  spec.sizes = numbers(line.type.sizes);
  if (!line.type.strides.empty()) spec.strides = numbers(line.type.strides);
  spec.offset = line.offset;
  spec.storage_bytes = line.storage_bytes;
  spec.device = line.type.device;
  spec.layout = line.type.layout;
  spec.requires_grad = line.type.requires_grad;
  return spec;
}

// Reads line after line, and checks and builds the model as it goes.
class Parser {
 public:
  Parser(std::string_view text, Model& model)
      : cursor_(text), editor_(model), args_(cursor_, editor_.graph()) {}

  void parse();

 private:
  bool heading();
  void state(StateKind kind);
  at::TensorBase tensor(const StateLine& line);
  void module();
  void mutation();
  void graph();
  NodeId node(NodeLine line);
  void require_references(const NodeLine& line) const;
  void check_users() const;
  void check_mutations() const;

  // The entry of that name; fails with the nearest one.
  template <class T>
  Id<T> known(const Table<T>& table, std::string_view kind, const std::string& name,
              std::size_t at) const;
  template <class T>
  void require_new(const Table<T>& table, std::string_view kind, const std::string& name,
                   std::size_t at) const;

  struct Stated {  // to be checked when everything is read
    std::size_t at;
    NodeId node;
    std::int64_t users;
  };

  Cursor cursor_;
  Editor editor_;
  ArgReader args_;
  Zeros zeros_;
  std::vector<Stated> users_;
  std::vector<Mutation> mutations_;
  std::vector<std::size_t> mutations_at_;
};

void Parser::parse() {
  while (heading()) {
  }
  graph();
  check_users();
  check_mutations();
  editor_.commit_as_origin(nullptr, std::move(mutations_));
}

template <class T>
Id<T> Parser::known(const Table<T>& table, std::string_view kind, const std::string& name,
                    std::size_t at) const {
  const Id<T> id = table.find(name);
  if (!id)
    cursor_.fail(at, fmt::format("there is no {} {}{}", kind, shown(name),
                                 did_you_mean(name, names_in(table))));
  return id;
}

template <class T>
void Parser::require_new(const Table<T>& table, std::string_view kind, const std::string& name,
                         std::size_t at) const {
  if (table.find(name)) cursor_.fail(at, fmt::format("a second {} {}", kind, shown(name)));
}

// ---- before the graph --------------------------------------------------------------------------

// One line, or false where the graph begins.
bool Parser::heading() {
  if (!cursor_.next_line() || !cursor_.peek_word()) cursor_.fail_expected("'graph():'");
  const std::size_t at = cursor_.position();
  const std::string word(cursor_.word());
  if (word == "parameter")
    state(StateKind::parameter);
  else if (word == "buffer")
    state(StateKind::buffer);
  else if (word == "constant")
    state(StateKind::constant);
  else if (word == "module")
    module();
  else if (word == "mutates")
    mutation();
  else if (word == "graph")
    return false;
  else
    cursor_.fail(at, fmt::format("{} begins no line{}", shown(word),
                                 did_you_mean(word, {"parameter", "buffer", "constant", "module",
                                                     "mutates", "graph"})));
  cursor_.expect_line_end();
  return true;
}

void Parser::state(StateKind kind) {
  StateLine line = read_state_line(cursor_);
  require_new(editor_.state(), "state entry", line.name, line.name_at);
  at::TensorBase made = tensor(line);
  editor_.add_state({line.name, kind, line.persistent, std::move(made)});
}

at::TensorBase Parser::tensor(const StateLine& line) {
  StateId shared;
  if (line.shares) shared = known(editor_.state(), "state entry", *line.shares, line.shares_at);
  try {
    const TensorSpec spec = spec_of(line);
    return shared ? zeros_.make(spec, editor_.state().tensor(shared)) : zeros_.make(spec);
  } catch (const Error& error) {
    cursor_.fail(line.type_at, fmt::format("{}: {}", shown(line.name), error.what()));
  }
}

void Parser::module() {
  Module module;
  const std::size_t at = cursor_.position();
  module.name = cursor_.name("the path of a module");
  require_new(editor_.modules(), "module", module.name, at);
  cursor_.expect(':');
  module.type = cursor_.name("the type of a module");
  module.parameters = args_.kwargs('(', '=', ')');
  while (!cursor_.at_line_end()) {
    const std::size_t key_at = cursor_.position();
    const std::string key = cursor_.name("an attribute");
    cursor_.expect('=');
    if (key == "training")
      module.training = cursor_.boolean();
    else if (key == "custom")
      module.custom = cursor_.string();
    else
      unknown_attribute(cursor_, key_at, key, {"training", "custom"});
  }
  editor_.add_module(std::move(module));
}

// "mutates running_mean = output 0"
void Parser::mutation() {
  Mutation mutation;
  mutations_at_.push_back(cursor_.position());
  mutation.target = cursor_.name("a state entry or an input");
  cursor_.expect('=');
  cursor_.expect("output");
  const std::int64_t output = cursor_.integer();
  mutation.output = static_cast<std::size_t>(output);  // a negative one is too large below
  mutations_.push_back(std::move(mutation));
}

// ---- the graph ---------------------------------------------------------------------------------

void Parser::graph() {
  cursor_.between('(', ')', [] {});
  cursor_.expect(':');
  cursor_.expect_line_end();
  bool returned = false;
  while (!returned) {
    if (!cursor_.next_line()) cursor_.fail_expected("'return': the graph has no result");
    const NodeId id = node(read_node_line(cursor_, args_));
    returned = editor_.graph()[id].op == Opcode::output;
  }
  if (cursor_.next_line()) cursor_.fail_expected("nothing after the return");
}

NodeId Parser::node(NodeLine line) {
  if (line.node.op != Opcode::output || line.node.name != "output")
    require_new(editor_.graph(), "node", line.node.name, line.name_at);
  require_references(line);
  const NodeId id = editor_.insert_before({}, std::move(line.node));
  if (line.num_users) users_.push_back({line.users_at, id, *line.num_users});
  const auto found = problems(editor_.model(), id);
  if (!found.empty()) cursor_.fail(line.type_at, found.front());
  return id;
}

void Parser::require_references(const NodeLine& line) const {
  const Node& node = line.node;
  if (node.op == Opcode::get_attr)
    known(editor_.state(), "state entry", node.target, line.target_at);
  if (!node.state.empty()) known(editor_.state(), "state entry", node.state, line.state_at);
  if (node.op == Opcode::call_module)
    known(editor_.modules(), "module", node.target, line.target_at);
}

// ---- what is known only at the end -------------------------------------------------------------

void Parser::check_users() const {
  for (const Stated& stated : users_) {
    const auto users = static_cast<std::int64_t>(editor_.graph().num_users(stated.node));
    if (users != stated.users)
      cursor_.fail(stated.at,
                   fmt::format("node {} has num_users={}, not {}",
                               shown(editor_.graph()[stated.node].name), users, stated.users));
  }
}

void Parser::check_mutations() const {
  const Graph& graph = editor_.graph();
  const Args& returned = graph[graph.output()].args;
  std::size_t outputs = 1;
  if (returned.size() == 1) {
    if (const auto* tuple = returned[0].get<Tuple>()) outputs = tuple->items.size();
    if (const auto* list = returned[0].get<List>()) outputs = list->items.size();
  }
  for (std::size_t i = 0; i < mutations_.size(); ++i) {
    const Mutation& mutation = mutations_[i];
    const NodeId input = graph.find(mutation.target);
    if (!input || graph[input].op != Opcode::placeholder)
      known(editor_.state(), "state entry or input", mutation.target, mutations_at_[i]);
    if (mutation.output >= outputs)
      cursor_.fail(mutations_at_[i],
                   fmt::format("the graph has {} outputs: there is no output {}", outputs,
                               static_cast<std::int64_t>(mutation.output)));
  }
}

}  // namespace

Model parse(std::string_view text) {
  Model model;
  Parser(text, model).parse();
  return model;
}

}  // namespace refx
