#include <fmt/format.h>

#include <charconv>

#include "ir/content.h"
#include "ir/devices.h"
#include "pt2/history_file.h"
#include "pt2/stored_tensor.h"
#include "pt2/value_json.h"
#include "refx/hint.h"
#include "refx/restore.h"

namespace refx {

namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kHashDigits = 32;

std::string text_in(const dom::element& element) {
  return std::string(element.get_string().value());
}

// The parsed refx/history.json. Failures name the file.
class HistoryReader {
 public:
  explicit HistoryReader(const Pt2Source& source) : source_(source), archive_(*source.archive) {}

  template <class F>
  void read(F&& f) {
    try {
      const std::string_view text = archive_.read(archive_.at(kHistory));
      root_ = parser_.parse(text.data(), text.size(), false);
      const std::int64_t format = root_["format"].get_int64();
      if (format != 1)
        throw Error(
            fmt::format("it has format {}, this refx reads format 1; use a newer refx", format));
      f();
    } catch (const HintedError& error) {
      throw HintedError(
          fmt::format("{}: record '{}': {}", archive_.path(), kHistory, error.problem()),
          error.hint());
    } catch (const std::exception& error) {
      throw Error(fmt::format("{}: record '{}': {}", archive_.path(), kHistory, error.what()));
    }
  }

  // ---- the original's records -------------------------------------------------------------------

  void check_fit() {
    const std::string now =
        fit_of(archive_.read(archive_.at(kModelRecord)), archive_.read(archive_.at(kWeightsConfig)),
               archive_.read(archive_.at(kConstantsConfig)));
    if (text_in(root_["fits"]) != now)
      throw HintedError(
          "another program has changed the model since refx wrote it, so its history does "
          "not belong to it any more",
          Hint::forget);
  }

  void records(Pt2Source& source) {
    for (const dom::element& item : root_["records"].get_array()) {
      Pt2Source::OriginalRecord original;
      original.record.name = text_in(item["name"]);
      std::uint64_t number = 0;
      if (!item["offset"].get(number)) original.record.offset = number;
      if (!item["crc"].get(number)) original.record.crc = static_cast<std::uint32_t>(number);
      dom::element where;
      if (!item["record"].get(where)) {
        const Record& record = archive_.at(text_in(where));
        original.blob = {.memory = {}, .archive = source.archive, .record = &record};
        original.record.size = record.size;
      } else {
        original.content = slice(item["storage"].get_uint64());
        original.record.size = original.content->size();
      }
      source.records.push_back(std::move(original));
    }
    source.skeleton = archive_.find("refx/skeleton");
  }

  // A storage that is part of a tensor, as the file holds it.
  std::shared_ptr<Content> slice(std::size_t index, int depth = 0) {
    if (depth > 100) throw Error("slices are nested too deeply");
    const dom::element item = root_["storages"].at(index);
    Piece piece;
    piece.dim = item["dim"].get_int64();
    piece.start = item["start"].get_int64();
    piece.length = item["length"].get_int64();
    const std::uint64_t bytes = item["bytes"].get_uint64();
    const dom::element whole = root_["tensors"].at(item["whole"].get_uint64().value());
    const dom::element in = root_["storages"].at(whole["storage"].get_uint64().value());
    const TensorMeta meta = this->meta(whole["meta"]);
    c10::Storage storage;
    dom::element name;
    const bool in_record = !in["record"].get(name);
    if (in_record)
      storage = source_.storages->unshared(archive_.at(text_in(name)));
    else
      storage = storage_of(slice(whole["storage"].get_uint64(), depth + 1));
    check(meta, storage.nbytes());
    at::TensorBase tensor = tensor_in(storage, meta);
    const bool inside = piece.dim >= 0 && piece.dim < tensor.dim() && piece.start >= 0 &&
                        piece.length >= 0 && piece.length <= tensor.size(piece.dim) &&
                        piece.start <= tensor.size(piece.dim) - piece.length;
    const auto rows = inside ? static_cast<std::uint64_t>(tensor.size(piece.dim)) : 1;
    if (!inside ||
        (rows && tensor.nbytes() / rows * static_cast<std::uint64_t>(piece.length) != bytes))
      throw Error(fmt::format("storages[{}] is not inside its tensor", index));
    std::string record = in_record ? text_in(name) : std::string(kHistory);
    return slice_content(std::move(tensor), piece, bytes, hash(text_in(item["hash"])),
                         std::move(record));
  }

  // ---- steps
  // --------------------------------------------------------------------------------------

  void steps(Model& model) {
    Restorer restorer(model);
    places<Node>(restorer, "nodes", nodes_);
    places<StateEntry>(restorer, "state", state_);
    for (const dom::element& item : root_["steps"].get_array()) restorer.apply(step(model, item));
    restorer.set_next_step(static_cast<std::uint32_t>(root_["next_step"].get_uint64()));
  }

 private:
  template <class T>
  using Ids = std::unordered_map<std::string, Id<T>>;

  template <class T>
  static const Table<T>& table_of(const Model& model) {
    if constexpr (std::is_same_v<T, Node>)
      return model.graph();
    else
      return model.state();
  }

  template <class T>
  void places(Restorer& restorer, const char* kind, Ids<T>& ids) {
    const Table<T>& table = table_of<T>(restorer.model());
    for (Id<T> id : table) ids.emplace(table[id].name, id);
    for (const dom::element& item : root_["places"][kind].get_array()) {
      const dom::element before = item.at(1);
      const Id<T> where = before.is_null() ? Id<T>{} : find(ids, text_in(before));
      std::string name = text_in(item.at(0));
      if (ids.count(name)) throw Error(fmt::format("'{}' has two places", name));
      ids[name] = restorer.add_slot(where);
    }
  }

  template <class T>
  static Id<T> find(const Ids<T>& ids, const std::string& name) {
    auto it = ids.find(name);
    if (it == ids.end()) throw Error(fmt::format("a step names '{}', which does not exist", name));
    return it->second;
  }

  Step step(const Model& model, const dom::element& item) {
    const FindNode node_of = [this](std::string_view name) {
      return find(nodes_, std::string(name));
    };
    Step step;
    step.id = StepId(static_cast<std::uint32_t>(item["id"].get_uint64()));
    if (model.history().contains(step.id))
      throw Error(fmt::format("step {} stands twice", step.id.value));
    step.transformation = text_in(item["transformation"]);
    step.signature = text_in(item["signature"]);
    step.parameters = read_values(item["parameters"], node_of);
    step.site = text_in(item["site"]);
    for (const dom::element& name : item["nodes"].get_array()) step.nodes.push_back(node_of(name));
    for (const dom::element& edit : item["edits"].get_array()) {
      const dom::element value = edit["value"];
      dom::element name;
      if (!edit["node"].get(name)) {
        Change<Node> change{node_of(name), nullptr, nullptr};
        if (!value.is_null()) change.after = node(model, change.id, value, node_of);
        step.edits.push_back(std::move(change));
      } else {
        Change<StateEntry> change{find(state_, text_in(edit["state"])), nullptr, nullptr};
        if (!value.is_null()) change.after = state(value);
        step.edits.push_back(std::move(change));
      }
    }
    for (const dom::element& item_of : item["pieces"].get_array()) {
      Piece piece;
      piece.whole = find(state_, text_in(item_of["whole"]));
      dom::element part;
      if (!item_of["part"].get(part)) piece.part = find(state_, text_in(part));
      piece.dim = item_of["dim"].get_int64();
      piece.start = item_of["start"].get_int64();
      piece.length = item_of["length"].get_int64();
      const Arg fill = read_value(item_of["fill"], node_of);
      if (const double* number = fill.get<double>()) piece.fill = *number;
      step.pieces.push_back(piece);
    }
    for (const dom::element& made : item["made"].get_array()) {
      const std::string text = text_in(made["hash"]);  // "changed", if it is no longer known
      step.stamps.push_back(
          {find(state_, text_in(made["state"])), 0, hash(text), text.size() != kHashDigits});
    }
    return step;
  }

  static std::array<std::uint64_t, 2> hash(const std::string& text) {
    std::array<std::uint64_t, 2> out = {};
    if (text.size() == kHashDigits) {
      std::from_chars(text.data() + 16, text.data() + 32, out[0], 16);
      std::from_chars(text.data(), text.data() + 16, out[1], 16);
    }
    return out;
  }

  std::shared_ptr<const Node> node(const Model& model, NodeId id, const dom::element& item,
                                   const FindNode& node_of) {
    Node node;
    node.op = opcode(text_in(item["op"]));
    node.name = text_in(item["name"]);
    if (find(nodes_, node.name) != id)
      throw Error(fmt::format("node '{}' changes its name", node.name));
    node.target = text_in(item["target"]);
    if (const Arg args = read_value(item["args"], node_of); args.is<List>())
      node.args = args.get<List>()->items;
    node.kwargs = read_values(item["kwargs"], node_of);
    dom::element field;
    if (!item["state"].get(field)) node.state = text_in(field);
    if (!item["type"].get(field)) {
      auto type = std::make_shared<const TensorType>(this->type(field));
      const Node* before = model.graph().find(id);
      node.type = before && before->type && *before->type == *type ? before->type : type;
    }
    if (!item["meta_of"].get(field)) {
      const auto& texts = source_.nodes;
      const NodeId of = find(nodes_, text_in(field));
      if (of.value < texts.size()) node.meta = texts[of.value].node->meta;
    } else if (!item["meta"].get(field)) {
      auto meta = std::make_shared<Meta>();
      for (const auto& [key, value] : field.get_object())
        meta->emplace_back(std::string(key), text_in(value));
      node.meta = meta;
    }
    if (!item["marks"].get(field))
      for (const dom::element& mark : field.get_array()) node.marks.push_back(text_in(mark));
    return std::make_shared<const Node>(std::move(node));
  }

  static Opcode opcode(const std::string& name) {
    for (Opcode op : {Opcode::placeholder, Opcode::get_attr, Opcode::call_function,
                      Opcode::call_module, Opcode::call_method, Opcode::output})
      if (to_string(op) == name) return op;
    throw Error(fmt::format("unknown opcode '{}'", name));
  }

  static TensorType type(const dom::element& item) {
    auto dims = [](const dom::element& list) {
      std::vector<Dim> out;
      for (const dom::element& dim : list.get_array()) {
        if (dim.is_array())
          out.emplace_back(text_in(dim.at(0)), dim.at(1).get_int64().value());
        else
          out.emplace_back(dim.get_int64().value());
      }
      return out;
    };
    TensorType type;
    type.dtype = static_cast<c10::ScalarType>(item["dtype"].get_int64().value());
    type.sizes = dims(item["sizes"]);
    type.strides = dims(item["strides"]);
    type.device = c10::Device(text_in(item["device"]));
    type.layout = static_cast<c10::Layout>(item["layout"].get_int64().value());
    type.requires_grad = item["requires_grad"].get_bool();
    return type;
  }

  std::shared_ptr<const StateEntry> state(const dom::element& item) {
    auto entry = std::make_shared<StateEntry>();
    entry->name = text_in(item["name"]);
    const std::string kind = text_in(item["kind"]);
    for (StateKind k : {StateKind::parameter, StateKind::buffer, StateKind::constant})
      if (to_string(k) == kind) entry->kind = k;
    entry->persistent = item["persistent"].get_bool();
    entry->tensor = tensor(item["tensor"].get_uint64());
    return entry;
  }

  at::TensorBase tensor(std::size_t index) {
    auto [it, is_new] = tensors_.try_emplace(index);
    if (!is_new) return it->second;
    const dom::element item = root_["tensors"].at(index);
    const TensorMeta meta = this->meta(item["meta"]);
    const c10::Storage storage = this->storage(item["storage"].get_uint64());
    check(meta, storage.nbytes());
    if (!has_device(meta.type.device))
      throw Error(fmt::format("tensors of its history are on {}, which is not here",
                              meta.type.device.str()));
    return it->second = tensor_in(source_.storages->on(meta.type.device, storage), meta);
  }

  c10::Storage storage(std::size_t index) {
    auto [it, is_new] = storages_.try_emplace(index);
    if (!is_new) return it->second;
    const dom::element item = root_["storages"].at(index);
    dom::element name;
    if (!item["record"].get(name))
      it->second = source_.storages->of_record(archive_.at(text_in(name)));
    else if (!item["original"].get(name))
      it->second = source_.storages->of_original(text_in(name));
    else
      it->second = storage_of(slice(index));
    return it->second;
  }

  // The same reader as for the other tensors of the file.
  TensorMeta meta(const dom::element& item) {
    const std::string text = simdjson::minify(item);
    const simdjson::padded_string padded(text);
    TensorMeta out;
    JsonDocument document(archive_.path(), kHistory, std::string_view(padded));
    Symbols symbols;
    document.read([&](ondemand::object& root) { out = read_tensor_meta(document, root, symbols); });
    return out;
  }

  static void check(const TensorMeta& meta, std::uint64_t bytes) {
    if (const std::string why = why_outside(meta, bytes); !why.empty()) throw Error(why);
  }

  const Pt2Source& source_;
  const Archive& archive_;
  dom::parser parser_;
  dom::element root_;
  Ids<Node> nodes_;
  Ids<StateEntry> state_;
  std::unordered_map<std::size_t, at::TensorBase> tensors_;
  std::unordered_map<std::size_t, c10::Storage> storages_;
};

}  // namespace

void read_original_records(Pt2Source& source) {
  HistoryReader reader(source);
  reader.read([&] {
    reader.check_fit();
    reader.records(source);
  });
}

void read_steps(const Pt2Source& source, Model& model) {
  HistoryReader reader(source);
  reader.read([&] { reader.steps(model); });
}

}  // namespace refx
