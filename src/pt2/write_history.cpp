// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <xxhash.h>

#include "graph_json/json.h"
#include "ir/detached.h"
#include "pt2/history_file.h"
#include "pt2/slices.h"
#include "pt2/stored_tensor.h"
#include "pt2/value_json.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/restore.h"

namespace refx {

namespace {

std::string hex(const ContentHash& hash) { return fmt::format("{:016x}{:016x}", hash[1], hash[0]); }

class HistoryWriter {
 public:
  HistoryWriter(Image& image, const Model& model, const Pt2Source& source)
      : image_(image),
        model_(model),
        source_(source),
        origin_(model),
        slices_(find_slices(model)) {}

  void write() {
    const std::string fits =
        fit_of(image_.find(kModelRecord)->memory, image_.find(kWeightsConfig)->memory,
               image_.find(kConstantsConfig)->memory);
    const std::string records = original_records();
    const std::string steps = this->steps();
    const std::string places = this->places();
    std::string out;
    JsonList root(out, '{', '}');
    root.key("format") += detached_.empty() ? "1" : "2";
    append_json(root.key("fits"), fits);
    root.key("next_step") += std::to_string(Restorer::next_step(model_));
    if (!fingerprint_.empty()) append_json(root.key("original"), fingerprint_);
    root.key("records") += records;
    list(root.key("storages"), storages_);
    list(root.key("tensors"), tensors_);
    root.key("places") += places;
    out.reserve(out.size() + steps.size() + 16);
    root.key("steps") += steps;
    root.close();
    image_.add(std::string(kHistory), std::move(out));
  }

 private:
  static void list(std::string& out, const std::vector<std::string>& items) {
    JsonList list(out, '[', ']');
    for (const std::string& item : items) list.next() += item;
  }

  // ---- tensors
  // ------------------------------------------------------------------------------------

  std::size_t storage(const at::TensorBase& tensor) {
    const void* key = key_of_storage(tensor);
    if (auto it = storage_index_.find(key); it != storage_index_.end()) return it->second;
    std::string text;
    if (std::string record = image_.record_of(tensor); !record.empty()) {
      text = fmt::format("{{\"record\": {}}}", json_quoted(record));
    } else if (auto it = original_storage_.find(key); it != original_storage_.end()) {
      text = fmt::format("{{\"original\": {}}}", json_quoted(it->second));
    } else if (auto slice = slices_.find(key); slice != slices_.end()) {
      text = slice_text(slice->second);
    } else {
      const std::string name = fmt::format("refx/tensors/{}", kept_++);
      text = fmt::format("{{\"record\": {}}}", json_quoted(image_.keep(tensor, name)));
    }
    storages_.push_back(std::move(text));
    return storage_index_[key] = storages_.size() - 1;
  }

  std::string slice_text(const StorageSlice& slice) {
    const std::size_t whole = this->tensor(slice.whole);
    return fmt::format(
        "{{\"whole\": {}, \"dim\": {}, \"start\": {}, \"length\": {}, \"bytes\": {}, \"hash\": "
        "\"{}\"}}",
        whole, slice.piece.dim, slice.piece.start, slice.piece.length, slice.size, hex(slice.hash));
  }

  static std::string detached_text(const Detached& detached) {
    return fmt::format("{{\"name\": {}, \"dtype\": {}, \"bytes\": {}, \"hash\": \"{}\"}}",
                       json_quoted(detached.name()), static_cast<int>(detached.dtype()),
                       detached.size(), hex(detached.hash()));
  }

  std::size_t tensor(const at::TensorBase& tensor) {
    auto [it, is_new] = tensor_index_.try_emplace(tensor.unsafeGetTensorImpl());
    if (!is_new) return it->second;
    const std::size_t in = storage(tensor);
    std::string text = fmt::format("{{\"storage\": {}, \"meta\": ", in);
    append_stored_meta(text, tensor);
    tensors_.push_back(text + "}");
    return tensor_index_[tensor.unsafeGetTensorImpl()] = tensors_.size() - 1;
  }

  // ---- the original
  // -------------------------------------------------------------------------------

  std::string original_records() {
    std::vector<std::string> records;
    if (was_original(model_, origin_, source_)) {
      map_original_storages([&](std::size_t id) { return source_.state[id].record; });
      for (const auto& original : source_.records)
        records.push_back(original_record(original.record.name, original.blob, &original));
      const auto skeleton = source_.original_skeleton();
      if (skeleton) {
        image_.add("refx/skeleton", *skeleton);
        fingerprint_ =
            source_.whole ? source_.fingerprint_of_original() : source_.noted_fingerprint;
      }
    } else {
      auto image = std::make_unique<Image>(original_of(model_), source_);
      map_original_storages(
          [&](std::size_t id) { return image->record_of(origin_.state[id]->tensor); });
      for (const Image::Item& item : image->items())
        records.push_back(original_record(item.name, item.blob, nullptr));
      image_.adopt(std::move(image));  // records of it are now ours
    }
    std::string out;
    list(out, records);
    return out;
  }

  template <class F>
  void map_original_storages(F&& record_of) {
    for (std::size_t id = 0; id < origin_.state.size(); ++id) {
      if (!origin_.state[id] || origin_.state[id]->tensor.is_meta()) continue;
      const at::TensorBase& tensor = origin_.state[id]->tensor;
      const auto& [key, name] =
          *original_storage_.try_emplace(key_of_storage(tensor), record_of(id)).first;
      if (const Detached* detached = detached_in(tensor)) detached_[name] = detached;
    }
    for (const auto& [key, name] : original_storage_) storage_of_record_[name] = key;
  }

  std::string original_record(const std::string& name, const Blob& blob,
                              const Pt2Source::OriginalRecord* original) {
    std::string where;
    const auto detached = detached_.find(name);
    const Blob* now = image_.find(name);
    auto storage = storage_of_record_.find(name);
    auto slice =
        storage == storage_of_record_.end() ? slices_.end() : slices_.find(storage->second);
    Blob bytes = blob;
    if (original && original->content && detached == detached_.end() &&
        (now || slice == slices_.end())) {
      original->content->require();
      bytes = Blob{.memory = {static_cast<const char*>(original->content->data()),
                              original->content->size()},
                   .archive = nullptr};
    }
    if (detached != detached_.end()) {
      where = "\"detached\": " + detached_text(*detached->second);
    } else if (now && surely_same(*now, bytes)) {
      where = fmt::format("\"record\": {}", json_quoted(name));
    } else if (slice != slices_.end()) {
      storages_.push_back(slice_text(slice->second));
      where = fmt::format("\"storage\": {}", storages_.size() - 1);
    } else {
      std::string kept = "refx/original/" + name;
      image_.add(kept, bytes);
      where = fmt::format("\"record\": {}", json_quoted(kept));
    }
    if (!original) return fmt::format("{{\"name\": {}, {}}}", json_quoted(name), where);
    const Record& record = original->record;
    return fmt::format("{{\"name\": {}, {}, \"offset\": {}, \"size\": {}, \"crc\": {}}}",
                       json_quoted(name), where, record.offset, record.size, record.crc);
  }

  // ---- steps
  // --------------------------------------------------------------------------------------

  // Every node and entry that the steps write keeps its name, alive or not.
  void collect_names() {
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

  static const Name& named(const std::vector<const Name*>& names, std::uint32_t id) {
    REFX_CHECK(names.at(id), "a step refers to an object of another step");
    return *names[id];
  }
  const Name& node_name(NodeId id) const { return named(node_names_, id.value); }
  const Name& state_name(StateId id) const { return named(state_names_, id.value); }

  std::string steps() {
    collect_names();
    std::string out;
    if (const Record* old = source_.archive->find(kHistory)) out.reserve(old->size);
    JsonList list(out, '[', ']');
    for (const Step& step : model_.history()) this->step(list.next(), step);
    list.close();
    return out;
  }

  void step(std::string& out, const Step& step) {
    const NameOf name_of = [this](NodeId id) -> std::string_view { return node_name(id); };
    JsonList fields(out, '{', '}');
    fields.key("id") += std::to_string(step.id.value);
    append_json(fields.key("transformation"), step.transformation);
    append_json(fields.key("signature"), step.signature);
    append_values(fields.key("parameters"), step.parameters, name_of);
    append_json(fields.key("site"), step.site);
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

  // Of the tensor as the step made it; "changed" if that is no longer known.
  static std::string hash_of(const Step& step, const TensorStamp& stamp) {
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit);
          change && change->id == stamp.state) {
        const at::TensorBase& tensor = change->after->tensor;
        if (stamp.changed || tensor.is_meta() || version_of(tensor) != stamp.version) break;
        const auto hash = stamp.hash == decltype(stamp.hash){} ? content_hash(tensor) : stamp.hash;
        return hex(hash);
      }
    return "changed";
  }

  void node(std::string& out, const Node& node) {
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

  void append_type(std::string& out, const TensorType& type) {
    auto dims = [&](const std::vector<Dim>& all) {
      JsonList list(out, '[', ']');
      for (const Dim& dim : all) {
        if (dim.known())
          list.next() += std::to_string(dim.value);
        else
          list.next() += fmt::format("[{}, {}]", json_quoted(dim.expr), dim.value);
      }
    };
    JsonList fields(out, '{', '}');
    fields.key("dtype") += std::to_string(static_cast<int>(type.dtype));
    fields.key("sizes");
    dims(type.sizes);
    fields.key("strides");
    dims(type.strides);
    append_json(fields.key("device"), type.device.str());
    fields.key("layout") += std::to_string(static_cast<int>(type.layout));
    fields.key("requires_grad") += type.requires_grad ? "true" : "false";
  }

  void state(std::string& out, const StateEntry& entry) {
    const std::size_t index = tensor(entry.tensor);
    JsonList fields(out, '{', '}');
    append_json(fields.key("name"), entry.name);
    append_json(fields.key("kind"), to_string(entry.kind));
    fields.key("persistent") += entry.persistent ? "true" : "false";
    fields.key("tensor") += std::to_string(index);
  }

  // ---- places of what the steps added
  // -------------------------------------------------------------

  std::string places() {
    std::string out;
    JsonList fields(out, '{', '}');
    places(fields.key("nodes"), model_.graph(), origin_.nodes, node_names_);
    places(fields.key("state"), model_.state(), origin_.state, state_names_);
    fields.close();
    return out;
  }

  // From the last to the first: [what, before what]. So what it stands before is there already.
  template <class T>
  void places(std::string& out, const Table<T>& table, const std::vector<const T*>& origin,
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

  Image& image_;
  const Model& model_;
  const Pt2Source& source_;
  Origin origin_;
  Slices slices_;
  std::unordered_map<const void*, std::string> original_storage_;
  std::unordered_map<std::string, const void*> storage_of_record_;
  std::unordered_map<std::string, const Detached*> detached_;  // by record
  std::unordered_map<const void*, std::size_t> storage_index_, tensor_index_;
  std::vector<std::string> storages_, tensors_;
  std::size_t kept_ = 0;
  std::string fingerprint_;                            // of the original's file, if it is kept
  std::vector<const Name*> node_names_, state_names_;  // by id
  std::unordered_map<const Meta*, std::string_view> metas_;  // whose it is in the original
};

}  // namespace

std::string fit_of(std::string_view model, std::string_view weights, std::string_view constants) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (std::string_view text : {model, weights, constants}) {
    const std::uint64_t size = text.size();
    XXH3_64bits_update(state, &size, sizeof size);
    XXH3_64bits_update(state, text.data(), text.size());
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}", hash);
}

void add_history(Image& image, const Model& model, const Pt2Source& source) {
  HistoryWriter(image, model, source).write();
}

}  // namespace refx
