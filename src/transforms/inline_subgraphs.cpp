// SPDX-License-Identifier: Apache-2.0

// Before:   y = wrap_with_set_grad_enabled(False, graph, x)
// After:    the nodes of `graph`, in place of the call
// Also:     regions under autocast, whose casts become nodes; checkpointed regions
// Refuses:  branches and loops; a region whose tuple of results is used as a whole; a region under
//           autocast with an operator that would convert values inside itself
// Numerics: identical
//
// Results of a region without gradients are detached wherever gradients could flow otherwise.

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>

#include "book/call.h"
#include "book/higher_order.h"
#include "book/schemas.h"
#include "graph_json/subgraph.h"
#include "ir/map_arg.h"
#include "ops/names.h"
#include "refx/error.h"
#include "refx/transforms.h"

namespace refx {

namespace {

using book::Autocast;
using Construct = book::HigherOrder::Construct;

constexpr std::string_view kSetGrad = "higher_order.wrap_with_set_grad_enabled";

bool is_getitem(const Node& node) { return node.target == "operator.getitem"; }

// The results of a region that are read, by position; nothing where it is used otherwise.
std::optional<std::vector<NodeId>> results_of(const Graph& graph, NodeId region) {
  std::vector<NodeId> results;
  for (NodeId user : graph.users(region)) {
    const Node& node = graph[user];
    const auto* at = node.args.size() == 2 ? node.args[1].get<std::int64_t>() : nullptr;
    constexpr std::int64_t kMost = 1 << 16;
    if (!is_getitem(node) || node.args[0] != Arg(region) || !at || *at < 0 || *at >= kMost)
      return std::nullopt;
    const auto position = static_cast<std::size_t>(*at);
    results.resize(std::max(results.size(), position + 1));
    if (results[position]) return std::nullopt;
    results[position] = user;
  }
  return results;
}

// ---- one flat list of nodes --------------------------------------------------------------------

// A node of a region or of a region in it. Its arguments name values of the list by their position.
struct Flat {
  Node node;
  std::optional<Autocast> autocast;  // under which it is called
};

// Reads a region and the regions in it. Values that enter it keep their ids; those of its own nodes
// are numbered from `first` on.
class Region {
 public:
  Region(const Model& model, NodeId id) : first_(model.graph().id_limit()) {
    const Node& node = model.graph()[id];
    for_each_input(node, [&](NodeId input) {
      types_[input] = model.graph()[input].type;
      if (may_have_gradient(model, input)) with_gradient_.insert(input);
    });
    results_ = read(node, std::nullopt, single_);
  }

  const std::vector<Flat>& nodes() const { return nodes_; }
  const Args& results() const { return results_; }  // values, or literals
  bool single() const { return single_; }
  // Why it cannot be inlined; then the rest is incomplete.
  const std::optional<Reason>& problem() const { return problem_; }
  const TypePtr& type(NodeId value) const {
    return is_own(value) ? nodes_[position(value)].node.type : types_.at(value);
  }
  bool is_own(NodeId value) const { return value.value >= first_; }
  std::size_t position(NodeId value) const { return value.value - first_; }

 private:
  static bool may_have_gradient(const Model& model, NodeId id) {
    const Node& node = model.graph()[id];
    if (const auto name = bound_state(node); !name.empty())
      if (const StateId state = model.state().find(name))
        return model.state().tensor(state).requires_grad();
    return !node.type || c10::isFloatingType(node.type->dtype) ||
           c10::isComplexType(node.type->dtype);
  }

  Args refuse(Reason why) {
    if (!problem_) problem_ = std::move(why);
    return {};
  }

  Args read(const Node& call, const std::optional<Autocast>& around, bool& single) {
    const auto region = book::higher_order(call);
    if (!region || region->kind != Construct::wrap)
      return refuse(because<ReasonId::not_a_region>(call.name));
    const Subgraph body = read_subgraph(call.args[region->subgraphs[0]]);
    single = body.single;
    const bool no_grad = call.target == kSetGrad && call.args[0] == Arg(false);
    const auto autocast = region->autocast ? region->autocast : around;
    std::unordered_map<NodeId, Arg> values;  // by id in the body
    const auto outside = [&](NodeId id) { return values.at(id); };
    std::size_t next = 0;
    for (NodeId id : body.model.graph()) {
      if (problem_) return {};
      Node node = body.model.graph()[id];
      if (node.op == Opcode::placeholder) {
        if (next == region->fixed.size())
          return refuse(because<ReasonId::subgraph_inputs_missing>());
        values[id] = region->fixed[next++];
        continue;
      }
      map_inputs(node, outside);
      if (node.op == Opcode::output) return leaving(node.args[0].get<Tuple>()->items, no_grad);
      if (book::is_higher_order(node) && book::higher_order(node) &&
          book::higher_order(node)->kind == Construct::wrap) {
        read_inner(body.model.graph(), id, node, autocast, values);
      } else if (const Arg* item = inner_result(node)) {
        values[id] = *item;
      } else {
        node.meta = with_value(with_stack(node.meta, call.meta), body.text, node.name);
        values[id] = add(std::move(node), autocast);
      }
    }
    return refuse(because<ReasonId::subgraph_output_missing>());
  }

  void read_inner(const Graph& body, NodeId id, const Node& node,
                  const std::optional<Autocast>& autocast,
                  std::unordered_map<NodeId, Arg>& values) {
    if (!results_of(body, id)) {
      refuse(because<ReasonId::inner_results_read_as_whole>(node.name));
      return;
    }
    bool single = false;
    Args results = read(node, autocast, single);
    // Its getitems follow; they name it by an id that nothing else has.
    const NodeId tuple(static_cast<std::uint32_t>(~inner_.size()));
    values[id] = single && results.size() == 1 ? results[0] : Arg(tuple);
    inner_[tuple] = std::move(results);
  }

  const Arg* inner_result(const Node& node) {
    if (!is_getitem(node) || !node.args[0].get<NodeId>()) return nullptr;
    const auto it = inner_.find(*node.args[0].get<NodeId>());
    if (it == inner_.end()) return nullptr;
    const auto at = static_cast<std::size_t>(*node.args[1].get<std::int64_t>());
    if (at >= it->second.size()) {
      refuse(because<ReasonId::subgraph_results_missing>());
      return nullptr;
    }
    return &it->second[at];
  }

  NodeId add(Node node, const std::optional<Autocast>& autocast) {
    const NodeId id(static_cast<std::uint32_t>(first_ + nodes_.size()));
    bool gradient = false;
    for_each_input(node, [&](NodeId input) { gradient |= with_gradient_.contains(input); });
    if (node.type && !c10::isFloatingType(node.type->dtype) &&
        !c10::isComplexType(node.type->dtype))
      gradient = false;
    if (gradient) with_gradient_.insert(id);
    nodes_.push_back({std::move(node), autocast});
    return id;
  }

  // What leaves a region without gradients has none.
  Args leaving(Args results, bool no_grad) {
    if (!no_grad) return results;
    for (Arg& result : results) {
      const NodeId* id = result.get<NodeId>();
      if (!id || !with_gradient_.contains(*id)) continue;
      Node detach{.name = "detach", .target = "aten.detach.default", .args = {*id}};
      detach.type = type(*id);
      detach.meta = is_own(*id) ? nodes_[position(*id)].node.meta : nullptr;
      result = add(std::move(detach), std::nullopt);
      with_gradient_.erase(*result.get<NodeId>());
    }
    return results;
  }

  // torch.export's unflatten wants to know of every node in which module it is.
  static MetaPtr with_stack(const MetaPtr& own, const MetaPtr& call) {
    constexpr std::string_view kStack = "nn_module_stack";
    const auto find = [&](const MetaPtr& meta) -> const std::string* {
      if (!meta) return nullptr;
      for (const auto& [key, value] : *meta)
        if (key == kStack) return &value;
      return nullptr;
    };
    const std::string* stack = find(call);
    if (find(own) || !stack) return own;
    auto meta = own ? std::make_shared<Meta>(*own) : std::make_shared<Meta>();
    meta->emplace_back(kStack, *stack);
    return meta;
  }

  // A number, for which the program has no description yet.
  static MetaPtr with_value(const MetaPtr& own, const GraphText& text, const std::string& name) {
    const auto kind = text.symbolic.find(name);
    if (kind == text.symbolic.end()) return own;
    auto meta = own ? std::make_shared<Meta>(*own) : std::make_shared<Meta>();
    meta->emplace_back(kSymbolicValue,
                       fmt::format("{}:{}", kind->second, text.symbolic_texts.at(name)));
    return meta;
  }

  std::size_t first_;
  std::vector<Flat> nodes_;
  Args results_;
  bool single_ = false;
  std::optional<Reason> problem_;
  std::unordered_map<NodeId, TypePtr> types_;  // of the values that enter it
  std::unordered_set<NodeId> with_gradient_;
  std::unordered_map<NodeId, Args> inner_;  // results of regions in it
};

// ---- autocast ----------------------------------------------------------------------------------

bool is_castable(const TypePtr& type, const Autocast& autocast) {
  return type && type->device.type() == autocast.device &&
         (type->dtype == c10::ScalarType::Float || type->dtype == c10::ScalarType::Half ||
          type->dtype == c10::ScalarType::BFloat16);
}

// The dtype to which autocast converts the tensors that the operator is given; none: it converts
// none. Whether it rounds or widens them shows in the recorded type of the result.
struct Cast {
  std::optional<c10::ScalarType> dtype;
  std::optional<Reason> problem;
};
Cast cast_of(const Region& region, const Flat& flat) {
  const Node& node = flat.node;
  if (!flat.autocast || !flat.autocast->enabled) return {};
  if (book::is_higher_order(node))
    return {{}, because<ReasonId::autocast_around_subgraph>(node.name)};
  const auto* schema = book::find_schema(book::parse_target(node.target));
  const auto op =
      schema ? c10::Dispatcher::singleton().findSchema(schema->operator_name()) : std::nullopt;
  if (!op) return {};
  const bool cpu = flat.autocast->device == c10::DeviceType::CPU;
  const bool casts = op->hasKernelForDispatchKey(cpu ? c10::DispatchKey::AutocastCPU
                                                     : c10::DispatchKey::AutocastCUDA);
  std::optional<c10::ScalarType> widest;
  bool mixed = false;
  for_each_input(node, [&](NodeId input) {
    const TypePtr& type = region.type(input);
    if (!is_castable(type, *flat.autocast)) return;
    mixed |= widest && *widest != type->dtype;
    widest = widest ? c10::promoteTypes(*widest, type->dtype) : type->dtype;
  });
  if (!widest || !is_castable(node.type, *flat.autocast)) return {};
  const c10::ScalarType result = node.type->dtype;
  if (casts) return mixed || *widest != result ? Cast{result, {}} : Cast{};
  // Without a kernel of autocast, only a conversion that is asked for gives another type.
  const bool asked = std::any_of(node.args.begin(), node.args.end(),
                                 [](const Arg& arg) { return arg.is<c10::ScalarType>(); }) ||
                     std::any_of(node.kwargs.begin(), node.kwargs.end(), [](const auto& arg) {
                       return arg.second.template is<c10::ScalarType>();
                     });
  if (asked || result == *widest) return {};
  return {{}, because<ReasonId::autocast_converts_inside>(node.name, node.target)};
}

std::optional<Reason> why_not(const Model& model, NodeId id) {
  const auto call = book::higher_order(model.graph()[id]);
  if (!call) return because<ReasonId::unknown_higher_order_operator>();
  if (call->kind != Construct::wrap) return because<ReasonId::branch_or_loop>();
  if (call->autocast && call->autocast->device != c10::DeviceType::CPU &&
      call->autocast->device != c10::DeviceType::CUDA)
    return because<ReasonId::autocast_device_unknown>();
  try {
    const Region region(model, id);
    if (region.problem()) return region.problem();
    if (!region.single() && !results_of(model.graph(), id))
      return because<ReasonId::results_read_as_whole>();
    if (std::any_of(region.results().begin(), region.results().end(),
                    [](const Arg& result) { return !result.is<NodeId>(); }))
      return because<ReasonId::result_is_not_a_value>();
    for (const Flat& flat : region.nodes())
      if (Cast cast = cast_of(region, flat); cast.problem) return cast.problem;
    return std::nullopt;
  } catch (const Error& error) {
    return because<ReasonId::subgraph_unreadable>(error.what());
  }
}

// ---- putting the nodes in place ----------------------------------------------------------------

class Inliner {
 public:
  Inliner(Editor& editor, NodeId call)
      : editor_(editor),
        call_(call),
        region_(editor.model(), call),
        results_(region_.single() ? std::vector<NodeId>{} : *results_of(editor.graph(), call)),
        where_(region_.single() ? call : editor.graph().next(call)) {}

  void run() {
    for (std::size_t i = 0; i < region_.nodes().size(); ++i) {
      Flat flat = region_.nodes()[i];
      const Cast cast = cast_of(region_, flat);
      map_inputs(flat.node, [&](NodeId id) { return placed(id, cast); });
      values_.push_back(put(std::move(flat.node), result_at(i)));
    }
    finish();
  }

 private:
  NodeId placed(NodeId id, const Cast& cast) {
    const NodeId value = region_.is_own(id) ? values_[region_.position(id)] : id;
    const TypePtr& type = region_.type(id);
    if (!cast.dtype || !type || !c10::isFloatingType(type->dtype) || type->dtype == *cast.dtype ||
        type->dtype == c10::ScalarType::Double)
      return value;
    return casted(value, type, *cast.dtype);
  }

  NodeId casted(NodeId value, const TypePtr& type, c10::ScalarType dtype) {
    NodeId& cast = casts_[{value, dtype}];
    if (cast) return cast;
    auto to = std::make_shared<TensorType>(*type);
    to->dtype = dtype;
    Node node{.name = editor_.graph()[value].name + "_cast", .target = "aten.to.dtype"};
    node.args = {value, dtype};
    node.type = std::move(to);
    node.meta = editor_.graph()[call_].meta;
    return cast = editor_.insert_before(where_, std::move(node));
  }

  // The node that reads the value at this position of the list as a result; no id if none does.
  NodeId result_at(std::size_t position) const {
    for (std::size_t i = 0; i < region_.results().size(); ++i) {
      const NodeId* id = region_.results()[i].get<NodeId>();
      if (!id || !region_.is_own(*id) || region_.position(*id) != position) continue;
      if (region_.single()) return call_;
      if (i < results_.size() && results_[i]) return results_[i];
    }
    return {};
  }

  // Nodes that read a result become what makes it, and keep their users and their name.
  NodeId put(Node node, NodeId result) {
    const Graph& graph = editor_.graph();
    const bool reachable = result && (result == where_ || graph.precedes(where_, result));
    if (!reachable || done_.contains(result)) return editor_.insert_before(where_, std::move(node));
    if (!node.type) node.type = graph[result].type;
    editor_.set_node(result, std::move(node));
    done_.insert(result);
    if (result != call_) where_ = graph.next(result);
    return result;
  }

  void finish() {
    for (std::size_t i = 0; i < region_.results().size(); ++i) {
      const NodeId reader = region_.single() ? call_ : i < results_.size() ? results_[i] : NodeId{};
      if (!reader || done_.contains(reader)) continue;
      const NodeId* id = region_.results()[i].get<NodeId>();
      REFX_CHECK(id, "a result of a region that is read is not a value");
      const NodeId value = region_.is_own(*id) ? values_[region_.position(*id)] : *id;
      const Node& old = editor_.graph()[reader];
      if (editor_.graph().precedes(value, reader)) {
        Node alias{.target = "aten.alias.default", .args = {value}};
        alias.type = old.type;
        alias.meta = old.meta;
        editor_.set_node(reader, std::move(alias));
      } else {
        editor_.replace_uses(reader, value);
        editor_.erase_node(reader);
      }
      done_.insert(reader);
    }
    if (!region_.single()) editor_.erase_node(call_);
  }

  Editor& editor_;
  NodeId call_;
  Region region_;
  std::vector<NodeId> results_;  // who reads each result
  NodeId where_;                 // new nodes go before it
  std::vector<NodeId> values_;   // of the region's list
  std::map<std::pair<NodeId, c10::ScalarType>, NodeId> casts_;
  std::unordered_set<NodeId> done_;
};

}  // namespace

Findings InlineSubgraphs::find(const Model& model) const {
  Findings findings;
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (!book::is_higher_order(node)) continue;
    Site site{.nodes = {id}};
    if (const auto results = results_of(model.graph(), id))
      for (NodeId result : *results)
        if (result) site.nodes.push_back(result);
    findings.add(std::move(site), why_not(model, id));
  }
  return findings;
}

std::optional<Reason> InlineSubgraphs::apply(Editor& editor, const Site& site) const {
  Inliner(editor, site.nodes[0]).run();
  return std::nullopt;
}

}  // namespace refx
