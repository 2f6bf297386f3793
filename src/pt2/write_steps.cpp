// SPDX-License-Identifier: Apache-2.0

#include "pt2/write_steps.h"

#include <fmt/format.h>

#include "graph_json/json.h"
#include "ir/content.h"
#include "pt2/hash_text.h"
#include "pt2/type_json.h"
#include "pt2/value_json.h"
#include "refx/error.h"
#include "refx/restore.h"

namespace refx {

namespace {

const Name& named(const std::vector<const Name*>& names, std::uint32_t id) {
  REFX_CHECK(names.at(id), "a step refers to an object of another step");
  return *names[id];
}

// Of the tensor as the step made it; kChanged if that is no longer known.
std::string hash_of(const Step& step, const TensorStamp& stamp) {
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit);
        change && change->id == stamp.state) {
      const at::TensorBase& tensor = change->after->tensor;
      if (stamp.changed || tensor.is_meta() || version_of(tensor) != stamp.version) break;
      const auto hash = stamp.hash == decltype(stamp.hash){} ? content_hash(tensor) : stamp.hash;
      return hash_text(hash);
    }
  return kChanged;
}

// From the last to the first: [what, before what]. So what it stands before is there already.
template <class T>
void append_places(std::string& out, const Table<T>& table, const std::vector<const T*>& origin,
                   const std::vector<const Name*>& names) {
  JsonList list(out, '[', ']');
  const Name* before = nullptr;
  const auto ids = table.slots();
  for (auto it = ids.rbegin(); it != ids.rend(); ++it) {
    const Name* name = names[it->value];
    if (!name) continue;  // of a step that was reversed
    if (!origin[it->value]) {
      JsonList pair(list.next(), '[', ']');
      append_json(pair.next(), *name);
      before ? append_json(pair.next(), *before) : void(pair.next() += "null");
    }
    before = name;
  }
}

}  // namespace

StepWriter::StepWriter(const Model& model, const Origin& origin, NumberOf number_of)
    : model_(model), origin_(origin), number_of_(std::move(number_of)) {
  // Every node and entry that the steps write keeps its name, alive or not.
  for (const Node* node : origin_.nodes) {
    node_names_.push_back(node ? &node->name : nullptr);
    if (node && node->meta) metas_.try_emplace(node->meta.get(), node->name);
  }
  for (const StateEntry* entry : origin_.state)
    state_names_.push_back(entry ? &entry->name : nullptr);
  for (const Step& step : model_.history())
    for (const Edit& edit : step.edits) {
      if (const auto* node = std::get_if<Change<Node>>(&edit)) {
        if (node->after) node_names_[node->id.value] = &node->after->name;
      } else if (const auto* state = std::get_if<Change<StateEntry>>(&edit)) {
        if (state->after) state_names_[state->id.value] = &state->after->name;
      } else {
        throw Error("a .pt2 file cannot hold changes of modules");
      }
    }
}

const Name& StepWriter::node_name(NodeId id) const { return named(node_names_, id.value); }
const Name& StepWriter::state_name(StateId id) const { return named(state_names_, id.value); }

void StepWriter::append_steps(std::string& out) const {
  JsonList list(out, '[', ']');
  for (const Step& step : model_.history()) this->step(list.next(), step);
  list.close();
}

void StepWriter::step(std::string& out, const Step& step) const {
  const NameOf name_of = [this](NodeId id) -> std::string_view { return node_name(id); };
  JsonList fields(out, '{', '}');
  fields.key("id") += std::to_string(step.id.value);
  append_json(fields.key("transformation"), step.transformation);
  append_json(fields.key("signature"), step.signature);
  append_values(fields.key("parameters"), step.parameters, name_of);
  append_json(fields.key("site"), step.site);
  // Omitted where a reader infers it, so that files without approximate steps, and files of
  // earlier versions, are written with the same bytes as before.
  if (step.numerics != Restorer::unstated_numerics(step.parameters))
    append_json(fields.key("numerics"), to_string(step.numerics));
  fields.key("nodes");
  {
    JsonList nodes(out, '[', ']');
    for (NodeId id : step.nodes) append_json(nodes.next(), node_name(id));
  }
  fields.key("edits");
  {
    JsonList edits(out, '[', ']');
    for (const Edit& edit : step.edits) {
      JsonList object(edits.next(), '{', '}');
      if (const auto* change = std::get_if<Change<Node>>(&edit)) {
        append_json(object.key("node"), node_name(change->id));
        object.key("value");
        change->after ? node(out, *change->after) : void(out += "null");
      } else {
        const auto& entry = std::get<Change<StateEntry>>(edit);
        append_json(object.key("state"), state_name(entry.id));
        object.key("value");
        entry.after ? state(out, *entry.after) : void(out += "null");
      }
    }
  }
  fields.key("pieces");
  {
    JsonList pieces(out, '[', ']');
    for (const Piece& piece : step.pieces) {
      JsonList object(pieces.next(), '{', '}');
      append_json(object.key("whole"), state_name(piece.whole));
      if (piece.part) append_json(object.key("part"), state_name(piece.part));
      object.key("dim") += std::to_string(piece.dim);
      object.key("start") += std::to_string(piece.start);
      object.key("length") += std::to_string(piece.length);
      append_value(object.key("fill"), piece.fill, name_of);
    }
  }
  fields.key("made");
  JsonList made(out, '[', ']');
  for (const TensorStamp& item : step.stamps) {
    JsonList object(made.next(), '{', '}');
    append_json(object.key("state"), state_name(item.state));
    append_json(object.key("hash"), hash_of(step, item));
  }
}

void StepWriter::node(std::string& out, const Node& node) const {
  const NameOf name_of = [this](NodeId id) -> std::string_view { return node_name(id); };
  JsonList fields(out, '{', '}');
  append_json(fields.key("op"), to_string(node.op));
  append_json(fields.key("name"), node.name);
  append_json(fields.key("target"), node.target);
  append_value(fields.key("args"), List{node.args}, name_of);
  append_values(fields.key("kwargs"), node.kwargs, name_of);
  if (!node.state.empty()) append_json(fields.key("state"), node.state);
  if (node.type) append_type(fields.key("type"), *node.type);
  if (node.meta) {
    if (auto it = metas_.find(node.meta.get()); it != metas_.end()) {
      append_json(fields.key("meta_of"), it->second);
    } else {
      fields.key("meta");
      JsonList meta(out, '{', '}');
      for (const auto& [key, value] : *node.meta) append_json(meta.key(key), value);
    }
  }
  if (node.marks.empty()) return;
  fields.key("marks");
  JsonList marks(out, '[', ']');
  for (const Name& mark : node.marks) append_json(marks.next(), mark);
}

void StepWriter::state(std::string& out, const StateEntry& entry) const {
  const std::size_t index = number_of_(entry.tensor);
  JsonList fields(out, '{', '}');
  append_json(fields.key("name"), entry.name);
  append_json(fields.key("kind"), to_string(entry.kind));
  fields.key("persistent") += entry.persistent ? "true" : "false";
  fields.key("tensor") += std::to_string(index);
}

std::string StepWriter::places() const {
  std::string out;
  JsonList fields(out, '{', '}');
  append_places(fields.key("nodes"), model_.graph(), origin_.nodes, node_names_);
  append_places(fields.key("state"), model_.state(), origin_.state, state_names_);
  fields.close();
  return out;
}

}  // namespace refx
