// SPDX-License-Identifier: Apache-2.0

#include "pt2/read_steps.h"

#include <fmt/format.h>

#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "ir/detached.h"
#include "pt2/hash_text.h"
#include "pt2/type_json.h"
#include "pt2/value_json.h"
#include "refx/restore.h"

namespace refx {

namespace {

template <class Enum, std::size_t N>
Enum named(const Enum (&values)[N], const std::string& name, const char* what) {
  for (Enum value : values)
    if (to_string(value) == name) return value;
  throw Error(fmt::format("unknown {} '{}'", what, name));
}

// Nodes of the module dialect have no form in a .pt2 file.
constexpr Opcode kOpcodes[] = {Opcode::placeholder, Opcode::call_function, Opcode::output};
constexpr Numerics kNumerics[] = {Numerics::preserved, Numerics::approximate};
constexpr StateKind kStateKinds[] = {StateKind::parameter, StateKind::buffer, StateKind::constant};

bool is_input(const Node& node) { return node.op == Opcode::placeholder && node.state.empty(); }

std::size_t results_of(const Node& output) {
  const Tuple* tuple = output.args.size() == 1 ? output.args[0].get<Tuple>() : nullptr;
  return tuple ? tuple->items.size() : 0;
}

// No step may change the inputs of a program or the number of its results: the signature, the specs
// and the sample inputs of the file are kept as they were. Null means that the node does not exist.
void check_signature(const Node* before, const Node* after) {
  auto kept = [](const Node* node) {
    return node && (is_input(*node) || node->op == Opcode::output);
  };
  if (!kept(before) && !kept(after)) return;
  const Name& name = (before ? before : after)->name;
  if (!before || !after || before->op != after->op || is_input(*before) != is_input(*after))
    throw Error(fmt::format("'{}' is an input or the output of the program, or becomes one", name));
  if (after->op == Opcode::output && (after->args.size() != 1 || !after->kwargs.empty() ||
                                      results_of(*before) != results_of(*after)))
    throw Error(fmt::format("'{}' changes the number of results", name));
}

Numerics numerics_of(const dom::element& item) {
  if (const auto text = find_in<std::string_view>(item, "numerics"))
    return named(kNumerics, std::string(*text), "numerics");
  // As Restorer::unstated_numerics(), before the parameters are read.
  const auto parameters = get_in<dom::element>(item, "parameters");
  const auto mark = find_in<dom::element>(parameters, "approximate");
  return mark && mark->is_bool() && mark->get_bool().value() ? Numerics::approximate
                                                             : Numerics::preserved;
}

// The slots that steps added to the model, by name. The names point into the parsed text.
template <class T>
using Added = std::unordered_map<std::string_view, Id<T>>;

template <class T>
const Table<T>& table_of(const Model& model) {
  if constexpr (std::is_same_v<T, Node>)
    return model.graph();
  else
    return model.state();
}

class StepReader {
 public:
  StepReader(HistoryJson& json, HistoryTensors& tensors, const Pt2Source& source, Model& model)
      : json_(json), tensors_(tensors), source_(source), model_(model), restorer_(model) {}

  void read() {
    // All slots first, at their final positions: a step refers to objects by name, and an object
    // returns to its slot when the step that erased it is reversed.
    places<Node>("nodes");
    places<StateEntry>("state");
    for (const Mutation& mutation : model_.mutations()) mutated_.insert(mutation.target);
    json_.list("steps", [&](const dom::element& item) { restorer_.apply(step(item)); });
    restorer_.set_next_step(
        narrow_to_32_bits(get_in<std::uint64_t>(json_.root(), "next_step"), "next_step"));
    // Only originals can be detached. A model that still uses one could not run.
    for (StateId id : model_.state())
      if (detached_in(model_.state().tensor(id)))
        throw Error(fmt::format("'{}' was detached, and is still used", model_.state()[id].name));
  }

 private:
  template <class T>
  void places(const char* kind) {
    const Trail::Step in(json_.trail, "places");
    json_.each(get_in<dom::element>(json_.root(), "places"), kind, [&](const dom::element& item) {
      const auto [added, before] = pair_in(item, "a place");
      const auto name = value_as<std::string_view>(added, "a name");
      Id<T> where;
      if (!before.is_null())
        where = find<T>(value_as<std::string_view>(before, "a name"));
      else if (std::is_same_v<T, Node>)
        throw Error(fmt::format("'{}' stands after the output", name));
      const auto [place, is_new] = std::get<Added<T>>(added_).emplace(name, Id<T>{});
      if (!is_new || table_of<T>(model_).find(name))
        throw Error(fmt::format("'{}' has two places", name));
      place->second = restorer_.add_slot(where);
    });
  }

  // A name denotes one object from the first step to the last, whether the object is erased or not.
  template <class T>
  Id<T> find(std::string_view name) const {
    if (const Id<T> id = table_of<T>(model_).named(name)) return id;
    const Added<T>& added = std::get<Added<T>>(added_);
    const auto it = added.find(name);
    if (it == added.end())
      throw Error(fmt::format("a step names '{}', which does not exist", name));
    return it->second;
  }

  Step step(const dom::element& item) {
    const FindNode node_of = [&](std::string_view name) { return find<Node>(name); };
    Step step;
    StepLabel label = read_step_label(item);
    step.id = label.id;
    step.transformation = label.transformation;
    step.site = label.site;
    step.numerics = label.numerics;
    step.signature = text_in(item, "signature");
    step.parameters = read_values(get_in<dom::element>(item, "parameters"), node_of);
    json_.each(item, "nodes", [&](const dom::element& name) {
      step.nodes.push_back(node_of(value_as<std::string_view>(name, "a node")));
    });
    json_.each(item, "edits", [&](const dom::element& edit) {
      if (const auto name = find_in<std::string_view>(edit, "node"))
        step.edits.push_back(node_edit(*name, edit, node_of));
      else
        step.edits.push_back(state_edit(get_in<std::string_view>(edit, "state"), edit));
    });
    json_.each(item, "pieces", [&](const dom::element& of) {
      Piece piece;
      piece.whole = find<StateEntry>(get_in<std::string_view>(of, "whole"));
      if (const auto part = find_in<std::string_view>(of, "part"))
        piece.part = find<StateEntry>(*part);
      piece.dim = get_in<std::int64_t>(of, "dim");
      piece.start = get_in<std::int64_t>(of, "start");
      piece.length = get_in<std::int64_t>(of, "length");
      const Arg fill = read_value(get_in<dom::element>(of, "fill"), node_of);
      const double* number = fill.get<double>();
      if (!number) throw Error("'fill' is not a number");
      piece.fill = *number;
      step.pieces.push_back(piece);
    });
    json_.each(item, "made", [&](const dom::element& made) {
      const std::string text = text_in(made, "hash");
      TensorStamp stamp{.state = find<StateEntry>(get_in<std::string_view>(made, "state")),
                        .version = 0};
      stamp.changed = text == kChanged;
      if (!stamp.changed) stamp.hash = read_hash(text);
      step.stamps.push_back(stamp);
    });
    return step;
  }

  Change<Node> node_edit(std::string_view name, const dom::element& edit, const FindNode& node_of) {
    Change<Node> change{find<Node>(name), nullptr, nullptr};
    const auto value = get_in<dom::element>(edit, "value");
    const Node* before = model_.graph().find(change.id);
    if (!value.is_null()) {
      change.after = node(before, value, node_of);
      if (change.after->name != name) throw Error(fmt::format("node '{}' changes its name", name));
    }
    check_signature(before, change.after.get());
    return change;
  }

  Change<StateEntry> state_edit(std::string_view name, const dom::element& edit) {
    Change<StateEntry> change{find<StateEntry>(name), nullptr, nullptr};
    const auto value = get_in<dom::element>(edit, "value");
    if (!value.is_null()) {
      change.after = state(value);
      if (change.after->name != name) throw Error(fmt::format("'{}' changes its name", name));
    } else if (mutated_.count(std::string(name))) {
      // The signature of the program would name a tensor that does not exist.
      throw Error(fmt::format("'{}' is erased, into which the program writes", name));
    }
    return change;
  }

  std::shared_ptr<const Node> node(const Node* before, const dom::element& item,
                                   const FindNode& node_of) {
    Node node;
    node.op = named(kOpcodes, text_in(item, "op"), "opcode");
    node.name = text_in(item, "name");
    node.target = text_in(item, "target");
    node.args = read_list(get_in<dom::element>(item, "args"), "args", node_of);
    node.kwargs = read_values(get_in<dom::element>(item, "kwargs"), node_of);
    node.state = find_in<std::string_view>(item, "state").value_or("");
    if (!node.state.empty() && node.op != Opcode::placeholder)
      throw Error(fmt::format("'{}' reads a tensor and is not a placeholder", node.name));
    if (const auto field = find_in<dom::element>(item, "type")) {
      auto type = std::make_shared<const TensorType>(read_type(*field));
      // Most rewritten nodes keep their type. Sharing it saves memory, and makes comparisons cheap.
      node.type = before && before->type && *before->type == *type ? before->type : type;
    }
    // A node that takes over the metadata of an original node shares it, and the file stores it
    // once.
    if (const auto name = find_in<std::string_view>(item, "meta_of")) {
      const auto& texts = source_.nodes;
      const NodeId of = node_of(*name);
      if (of.value < texts.size() && texts[of.value].node) node.meta = texts[of.value].node->meta;
    } else if (const auto fields = find_in<dom::object>(item, "meta")) {
      auto meta = std::make_shared<Meta>();
      for (const auto& [key, value] : *fields)
        meta->emplace_back(std::string(key), value_as<std::string_view>(value, key));
      node.meta = meta;
    }
    if (const auto marks = find_in<dom::array>(item, "marks"))
      for (const dom::element& mark : *marks)
        node.marks.emplace_back(value_as<std::string_view>(mark, "a mark"));
    return std::make_shared<const Node>(std::move(node));
  }

  std::shared_ptr<const StateEntry> state(const dom::element& item) {
    auto entry = std::make_shared<StateEntry>();
    entry->name = text_in(item, "name");
    entry->kind = named(kStateKinds, text_in(item, "kind"), "kind of tensor");
    entry->persistent = get_in<bool>(item, "persistent");
    entry->tensor = tensors_.tensor(get_in<std::uint64_t>(item, "tensor"));
    // Detaching keeps every tensor that a step wrote, so that later steps can be reversed.
    if (detached_in(entry->tensor))
      throw Error(fmt::format("a step uses '{}', which was detached", entry->name));
    return entry;
  }

  HistoryJson& json_;
  HistoryTensors& tensors_;
  const Pt2Source& source_;
  const Model& model_;
  Restorer restorer_;
  std::tuple<Added<Node>, Added<StateEntry>> added_;
  std::unordered_set<std::string> mutated_;  // state entries that the program writes into
};

}  // namespace

void read_steps(HistoryJson& json, HistoryTensors& tensors, const Pt2Source& source, Model& model) {
  StepReader(json, tensors, source, model).read();
}

StepLabel read_step_label(const dom::element& item) {
  return {StepId(narrow_to_32_bits(get_in<std::uint64_t>(item, "id"), "the number of a step")),
          text_in(item, "transformation"), text_in(item, "site"), numerics_of(item)};
}

}  // namespace refx
