// SPDX-License-Identifier: Apache-2.0

#include "exec/own_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <set>
#include <unordered_set>

#include "book/effect.h"
#include "book/higher_order.h"
#include "graph_json/subgraph.h"
#include "ir/content.h"
#include "refx/error.h"

namespace refx {

namespace {

using States = std::set<StateId>;

// Walks forward, keeping for every value the state entries whose memory it may share.
class WrittenState {
 public:
  explicit WrittenState(const Model& model) : model_(model) {}

  States find() {
    visit_graph();
    for (const Mutation& mutation : model_.mutations())
      if (const StateId id = model_.state().find(mutation.target)) written_.insert(id);
    if (!training_.empty()) write_statistics();
    return written_;
  }

 private:
  using Shares = std::unordered_map<NodeId, States>;
  // A subgraph whose inputs share memory with the state entries of the model around it.
  WrittenState(const Model& subgraph, Shares shares)
      : model_(subgraph), shares_(std::move(shares)) {}

  void visit_graph() {
    for (NodeId id : model_.graph()) visit(id, model_.graph()[id]);
  }

  States shared_by(const Arg& arg) const {
    States all;
    for_each_node(arg, [&](NodeId input) {
      if (auto it = shares_.find(input); it != shares_.end())
        all.insert(it->second.begin(), it->second.end());
    });
    return all;
  }

  // Writes what its subgraphs write of what they are given; its results may share memory with it.
  void visit_subgraphs(NodeId id, const Node& node, const book::HigherOrder& call) {
    States varying;  // what a loop goes through may be in the place of any other
    for (const Args* args : {&call.carried, &call.sliced})
      for (const Arg& arg : *args) varying.merge(shared_by(arg));
    const std::size_t first_fixed = call.carried.size() + call.sliced.size();
    for (std::size_t at : call.subgraphs) {
      const Subgraph subgraph = read_subgraph(node.args[at]);
      Shares shares;
      std::size_t position = 0;
      for (NodeId input : subgraph.model.graph()) {
        if (subgraph.model.graph()[input].op != Opcode::placeholder) continue;
        // Wraps around for positions before the fixed ones, which do not use it.
        const std::size_t fixed = position - first_fixed;
        if (position++ < first_fixed)
          shares[input] = varying;
        else if (fixed < call.fixed.size())
          shares[input] = shared_by(call.fixed[fixed]);
      }
      WrittenState inside(subgraph.model, std::move(shares));
      inside.visit_graph();
      written_.merge(inside.written_);
      const Node& output = subgraph.model.graph()[subgraph.model.graph().output()];
      shares_[id].merge(inside.shared_by(output.args.at(0)));
    }
  }

  void visit(NodeId id, const Node& node) {
    if (const auto call = book::higher_order(node)) try {
        return visit_subgraphs(id, node, *call);
      } catch (const Error&) {  // a subgraph that cannot be read may do anything: see below
      }
    if (const std::string_view name = bound_state(node); !name.empty()) {
      // A placeholder that is bound to state is that memory.
      if (const StateId state = model_.state().find(name)) shares_[id] = {state};
      return;
    }
    if (node.op == Opcode::call_module) {
      const ModuleId module = model_.modules().find(node.target);
      if (module && model_.modules()[module].training) training_.insert(node.target);
    }
    States all;
    for_each_input(node, [&](NodeId input) {
      if (auto it = shares_.find(input); it != shares_.end())
        all.insert(it->second.begin(), it->second.end());
    });
    if (all.empty()) return;
    const book::Effect effect = book::effect_of(model_, node);
    // A method or an operator writes its first argument; without positional arguments it may be
    // any.
    const States first = node.args.empty() ? all : shared_by(node.args[0]);
    if (effect.writes_all)
      written_.insert(all.begin(), all.end());
    else if (effect.writes_first)
      written_.insert(first.begin(), first.end());
    if (effect.views) shares_[id] = book::views_first_only(model_, node, effect) ? first : all;
  }

  // The buffers of layers in training mode.
  void write_statistics() {
    for (StateId id : model_.state()) {
      const StateEntry& entry = model_.state()[id];
      if (entry.kind != StateKind::buffer) continue;
      const std::string name(entry.name);
      // The statistics of a layer are under its path: "net.bn.running_mean" under "net.bn", and
      // those of modules inside it as well.
      for (auto dot = name.rfind('.'); dot != name.npos && dot > 0; dot = name.rfind('.', dot - 1))
        if (training_.count(name.substr(0, dot))) written_.insert(id);
    }
  }

  const Model& model_;
  Shares shares_;
  std::unordered_set<std::string> training_;  // layers that are called
  States written_;
};

// Two tensors with the same key share memory.
const void* memory_of(const at::TensorBase& tensor) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  // A tensor without a storage (a sparse one) is its own memory.
  return storage ? static_cast<const void*>(storage.unsafeGetStorageImpl())
                 : tensor.unsafeGetTensorImpl();
}

// All memory of a tensor's storage.
at::Tensor bytes_of(const at::Tensor& tensor) {
  at::Tensor bytes = at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false));
  return bytes.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())},
                    {1});
}

// Tensors that share a storage share the copy too.
class Copies {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    require_content(tensor);
    if (!tensor.has_storage()) return tensor.detach().clone();
    auto it = storages_.find(memory_of(tensor));
    if (it == storages_.end())
      it = storages_.emplace(memory_of(tensor), bytes_of(tensor).clone().storage()).first;
    at::Tensor copy = at::empty({0}, tensor.options().requires_grad(false));
    return copy.set_(it->second, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

 private:
  std::unordered_map<const void*, c10::Storage> storages_;
};

// Whether the copy still lies in memory as the tensor does: an operator may have resized it.
bool is_laid_out_alike(const at::Tensor& copy, const at::Tensor& tensor) {
  return copy.has_storage() && tensor.has_storage() &&
         copy.storage().nbytes() == tensor.storage().nbytes() && copy.sizes() == tensor.sizes() &&
         copy.strides() == tensor.strides();
}

// Whether one of the values that the caller gets is among these.
bool returns_one_of(const Model& model, const Node& output,
                    const std::unordered_set<NodeId>& values) {
  const Arg& returned = output.args.at(0);
  const Args* items = returned.get<Tuple>()  ? &returned.get<Tuple>()->items
                      : returned.get<List>() ? &returned.get<List>()->items
                                             : nullptr;
  bool found = false;
  const auto look = [&](const Arg& arg) {
    for_each_node(arg, [&](NodeId id) { found |= values.count(id) != 0; });
  };
  if (!items || model.mutations().empty()) {
    look(returned);
    return found;
  }
  std::vector<bool> written(items->size(), false);
  for (const Mutation& mutation : model.mutations())
    if (mutation.output < written.size()) written[mutation.output] = true;
  for (std::size_t i = 0; i < items->size(); ++i)
    if (!written[i]) look((*items)[i]);
  return found;
}

}  // namespace

std::vector<StateId> written_state(const Model& model) {
  const States written = WrittenState(model).find();
  return {written.begin(), written.end()};
}

// Written state that nothing reads but what writes it does not count: statistics, counters.
bool keeps_state(const Model& model) {
  std::unordered_set<std::string> written;
  for (StateId id : written_state(model)) written.emplace(model.state()[id].name);
  if (written.empty()) return false;
  std::unordered_set<NodeId> from_state;
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    bool depends = written.count(std::string(bound_state(node))) != 0;
    for_each_input(node, [&](NodeId input) { depends |= from_state.count(input) != 0; });
    if (!depends) continue;
    // The output is the last node of a graph.
    if (node.op == Opcode::output) return returns_one_of(model, node, from_state);
    from_state.insert(id);
  }
  return false;
}

namespace exec {

void find_own_state(const Model& model, const std::unordered_map<std::string, Slot>& slots,
                    Program& program) {
  const std::vector<StateId> written = written_state(model);
  if (written.empty()) return;
  std::unordered_set<const void*> memory;
  for (StateId id : written) memory.insert(memory_of(model.state().tensor(id)));
  const std::set<StateId> is_written(written.begin(), written.end());
  for (StateId id : model.state()) {
    const auto slot = slots.find(std::string(model.state()[id].name));
    // Tensors that share memory with written ones are copied with them, or they would part.
    if (slot == slots.end() || !memory.count(memory_of(model.state().tensor(id)))) continue;
    program.own_state.push_back({slot->second, model.state()[id].name,
                                 at::Tensor(model.state().tensor(id)), is_written.contains(id)});
  }
}

void make_own_state(Program& program) {
  if (program.has_own_state) return;
  Copies copies;
  for (const Program::OwnState& own : program.own_state)
    program.slots[own.slot] = copies.of(own.initial);
  program.has_own_state = true;
}

// In place where that can be: what was planned on them stays.
void reset_own_state(Program& program) {
  if (!program.has_own_state) return;
  bool alike = true;
  for (const Program::OwnState& own : program.own_state)
    alike &= is_laid_out_alike(program.slots[own.slot].toTensor(), own.initial);
  if (!alike) {
    // An operator resized the memory: plans for it are no longer current anyway.
    program.has_own_state = false;
    make_own_state(program);
    return;
  }
  for (const Program::OwnState& own : program.own_state)
    bytes_of(program.slots[own.slot].toTensor()).copy_(bytes_of(own.initial));
}

}  // namespace exec
}  // namespace refx
