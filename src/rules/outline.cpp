// SPDX-License-Identifier: Apache-2.0

#include "rules/outline.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "book/call.h"
#include "book/facts.h"
#include "ops/no_op.h"

namespace refx::rules {

namespace {

// Names by the address of what the book has on them, which is quicker to compare.
class Names {
 public:
  explicit Names(const Model& model) : model_(model) {}

  Symbol operator[](const Node& node) {
    if (node.op == Opcode::call_module) return symbol_of(book::name_of_call(model_, node));
    if (node.op != Opcode::call_function && node.op != Opcode::call_method) return 0;
    const book::Entry& entry = book::look_up(node);
    const auto [it, is_new] = symbols_.emplace(&entry, 0);
    if (is_new) it->second = symbol_of(entry.name.empty() ? entry.target : entry.name);
    return it->second;
  }

 private:
  const Model& model_;
  std::unordered_map<const void*, Symbol> symbols_;
};

}  // namespace

Symbol symbol_of(std::string_view name) {
  if (name.empty()) return 0;
  // Symbols are shared by all threads and never removed, since there are only as many as names of
  // operators.
  static std::mutex mutex;
  static std::unordered_map<std::string, Symbol> symbols;
  const std::lock_guard lock(mutex);
  return symbols.emplace(book::without_underscore(name), static_cast<Symbol>(symbols.size() + 1))
      .first->second;
}

Outline::Outline(const Model& model)
    : revision_(model.revision()), names_(model.graph().id_limit()), handed_on_(names_.size()) {
  Names names(model);
  order_.reserve(model.graph().size());
  for (NodeId id : model.graph()) {
    const Symbol name = names[model.graph()[id]];
    names_[id.value] = name;
    if (name) calls_[name].push_back(static_cast<std::uint32_t>(order_.size()));
    order_.push_back(id);
  }
}

std::shared_ptr<Outline> Outline::of(const Model& model) {
  // All rules look at the same model one after the other: one outline is enough.
  thread_local std::shared_ptr<Outline> last;
  if (!last || last->revision_ != model.revision()) last.reset(new Outline(model));
  return last;
}

NodeId Outline::handed_on(const Model& model, NodeId id) {
  std::optional<NodeId>& input = handed_on_[id.value];
  if (!input) input = no_op_input(model, id);
  return *input;
}

std::vector<NodeId> Outline::calls(const std::vector<Symbol>& names) const {
  std::vector<std::uint32_t> places;
  for (Symbol name : names)
    if (const auto it = calls_.find(name); it != calls_.end())
      places.insert(places.end(), it->second.begin(), it->second.end());
  // In the order of the graph, in which sites are reported.
  std::sort(places.begin(), places.end());
  std::vector<NodeId> ids;
  ids.reserve(places.size());
  for (std::uint32_t place : places) ids.push_back(order_[place]);
  return ids;
}

}  // namespace refx::rules
