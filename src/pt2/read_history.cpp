// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "ir/detached.h"
#include "ir/devices.h"
#include "ir/piece.h"
#include "pt2/dom_json.h"
#include "pt2/history_file.h"
#include "pt2/stored_tensor.h"
#include "pt2/value_json.h"
#include "refx/hint.h"
#include "refx/restore.h"
#include "util/limits.h"
#include "util/strict_json.h"

namespace refx {

namespace {

constexpr std::size_t kHashDigits = 32;
constexpr const char* kChanged = "changed";

template <class Enum, std::size_t N>
Enum named(const Enum (&values)[N], const std::string& name, const char* what) {
  for (Enum value : values)
    if (to_string(value) == name) return value;
  throw Error(fmt::format("unknown {} '{}'", what, name));
}

// What a program of torch.export consists of.
constexpr Opcode kOpcodes[] = {Opcode::placeholder, Opcode::call_function, Opcode::output};
constexpr StateKind kStateKinds[] = {StateKind::parameter, StateKind::buffer, StateKind::constant};

bool is_input(const Node& node) { return node.op == Opcode::placeholder && node.state.empty(); }

std::size_t results_of(const Node& output) {
  const Tuple* tuple = output.args.size() == 1 ? output.args[0].get<Tuple>() : nullptr;
  return tuple ? tuple->items.size() : 0;
}

// What goes into a program and comes out of it, no step changes. Null: it is not there.
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

std::uint64_t bytes_of(const Piece& piece, const at::TensorBase& whole) {
  const auto size = static_cast<std::uint64_t>(whole.size(piece.dim));
  return size == 0 ? 0 : whole.nbytes() / size * static_cast<std::uint64_t>(piece.length);
}

}  // namespace

// The parsed refx/history.json. Failures name the file and the place.
class HistoryReader::Impl {
 public:
  explicit Impl(Pt2Source& source) : source_(source), archive_(*source.archive) {}

  template <class F>
  void read(F&& f) {
    try {
      if (!parsed_) parse();
      f();
    } catch (const HintedError& error) {
      throw HintedError(where() + error.problem(), error.hint());
    } catch (const simdjson::simdjson_error& error) {
      throw HintedError(where() + error.what(), Hint::forget);
    } catch (const Error& error) {
      throw HintedError(where() + error.what(), Hint::forget);
    }
  }

  // ---- the original's records -------------------------------------------------------------------

  void check_fit() {
    const std::string now =
        fit_of(archive_.read(archive_.at(kModelRecord)), archive_.read(archive_.at(kWeightsConfig)),
               archive_.read(archive_.at(kConstantsConfig)));
    if (get_in<std::string_view>(root_, "fits") != now)
      throw HintedError(
          "another program has changed the model since refx wrote it, so its history does "
          "not belong to it any more",
          Hint::forget);
  }

  void records() {
    list("records", [&](const dom::element& item) {
      Pt2Source::OriginalRecord original;
      original.record.name = text_in(item, "name");
      if (original.record.name.starts_with("refx/"))
        throw Error(
            fmt::format("'{}' is a record of a history, not of an original", original.record.name));
      original.record.offset = find_in<std::uint64_t>(item, "offset").value_or(0);
      original.record.crc =
          small(find_in<std::uint64_t>(item, "crc").value_or(0), "the checksum of a record");
      if (const auto name = find_in<std::string_view>(item, "record")) {
        const Record& record = archive_.at(*name);
        original.blob = {.memory = {}, .archive = source_.archive, .record = &record};
        original.record.size = record.size;
      } else {
        const std::string& of = original.record.name;
        if (!of.starts_with(kWeights) && !of.starts_with(kConstants))
          throw Error(fmt::format("'{}' is no tensor, and not kept as it was", of));
        const auto away = find_in<dom::element>(item, "detached");
        original.content = away ? detached(*away) : slice(get_in<std::uint64_t>(item, "storage"));
        original.record.size = original.content->size();
      }
      source_.records.push_back(std::move(original));
    });
    source_.skeleton = archive_.find("refx/skeleton");
    source_.noted_fingerprint = find_in<std::string_view>(root_, "original").value_or("");
  }

  // A storage whose contents the file does not have.
  std::shared_ptr<Content> detached(const dom::element& item) {
    if (format_ < 2) throw Error("detached tensors are of format 2");
    const auto bytes = get_in<std::uint64_t>(item, "bytes");
    if (bytes == 0 || bytes > limits::kDetachedBytes - detached_)
      throw Error(fmt::format("a tensor of {} bytes was not detached", bytes));
    detached_ += bytes;
    return std::make_shared<Detached>(text_in(item, "name"),
                                      read_dtype(get_in<dom::element>(item, "dtype")), bytes,
                                      hash(text_in(item, "hash")));
  }

  // A storage that is part of a tensor, as the file holds it.
  std::shared_ptr<Content> slice(std::uint64_t index, int depth = 0) {
    if (depth > limits::kNesting) throw Error("slices are nested too deeply");
    const dom::element& item = numbered(storages_, index, "storages");
    Piece piece;
    piece.dim = get_in<std::int64_t>(item, "dim");
    piece.start = get_in<std::int64_t>(item, "start");
    piece.length = get_in<std::int64_t>(item, "length");
    const auto bytes = get_in<std::uint64_t>(item, "bytes");
    const auto number = get_in<std::uint64_t>(item, "whole");
    const TensorMeta& meta = this->meta(number);
    const auto of = get_in<std::uint64_t>(tensors_[number], "storage");
    const auto name = find_in<std::string_view>(numbered(storages_, of, "storages"), "record");
    const c10::Storage storage =
        name ? source_.storages->unshared(archive_.at(*name)) : storage_of(slice(of, depth + 1));
    check(meta, storage.nbytes());
    at::TensorBase tensor = tensor_in(storage, meta);
    if (tensor.nbytes() > storage.nbytes() || !is_inside(piece, tensor) ||
        bytes_of(piece, tensor) != bytes)
      throw Error(fmt::format("storages[{}] is not inside its tensor", index));
    if ((sliced_ += bytes) > stored_ * limits::kSlicesOfFile)
      throw Error("its slices are many times the size of the file");
    return slice_content(std::move(tensor), piece, bytes, hash(text_in(item, "hash")),
                         std::string(name.value_or(kHistory)));
  }

  // ---- steps
  // --------------------------------------------------------------------------------------

  void steps(Model& model) {
    Restorer restorer(model);
    places<Node>(restorer, "nodes");
    places<StateEntry>(restorer, "state");
    for (const Mutation& mutation : model.mutations()) mutated_.insert(mutation.target);
    list("steps", [&](const dom::element& item) { restorer.apply(step(model, item)); });
    restorer.set_next_step(small(get_in<std::uint64_t>(root_, "next_step"), "next_step"));
    for (StateId id : model.state())
      if (detached_in(model.state().tensor(id)))
        throw Error(fmt::format("'{}' was detached, and is still used", model.state()[id].name));
  }

  std::optional<std::vector<StepLabel>> labels() {
    if (format_ != 1) return std::nullopt;
    std::vector<StepLabel> labels;
    list("steps", [&](const dom::element& item) {
      StepLabel label = this->label(item);
      if (!labels.empty() && label.id <= labels.back().id)
        throw Error(
            fmt::format("step {} stands after step {}", label.id.value, labels.back().id.value));
      labels.push_back(std::move(label));
    });
    return labels;
  }

 private:
  void parse() {
    const std::string_view text = archive_.read(archive_.at(kHistory));
    root_ = parse_strict(parser_, text);
    format_ = get_in<std::int64_t>(root_, "format");
    if (format_ < 1 || format_ > 2)
      throw Error(fmt::format("it has format {}, this refx reads formats 1 and 2; use a newer refx",
                              format_));
    for (const dom::element& item : get_in<dom::array>(root_, "tensors")) tensors_.push_back(item);
    for (const dom::element& item : get_in<dom::array>(root_, "storages"))
      storages_.push_back(item);
    for (const Record& record : archive_.records()) stored_ += record.size;
    parsed_ = true;
  }

  std::string where() const {
    const std::string place = trail_.text();
    return fmt::format("{}: record '{}'{}{}: ", archive_.path(), kHistory,
                       place.empty() ? "" : ", ", place);
  }

  // Every item of a list, which errors then name.
  template <class F>
  void each(const dom::element& object, std::string_view key, F&& f) {
    const Trail::Step in(trail_, key);
    std::size_t index = 0;
    for (const dom::element& item : get_in<dom::array>(object, key)) {
      const Trail::Step at(trail_, index++);
      f(item);
    }
  }
  template <class F>
  void list(std::string_view key, F&& f) {
    each(root_, key, std::forward<F>(f));
  }

  static std::uint32_t small(std::uint64_t number, const char* what) {
    if (number > std::numeric_limits<std::uint32_t>::max())
      throw Error(fmt::format("{} cannot be {}", what, number));
    return static_cast<std::uint32_t>(number);
  }

  static const dom::element& numbered(const std::vector<dom::element>& items, std::uint64_t index,
                                      const char* what) {
    if (index < items.size()) return items[index];
    throw Error(fmt::format("there is no {}[{}]", what, index));
  }

  // What the steps add to the model, by names of this text.
  template <class T>
  using Added = std::unordered_map<std::string_view, Id<T>>;

  template <class T>
  static const Table<T>& table_of(const Model& model) {
    if constexpr (std::is_same_v<T, Node>)
      return model.graph();
    else
      return model.state();
  }

  template <class T>
  void places(Restorer& restorer, const char* kind) {
    const Model& model = restorer.model();
    const Trail::Step in(trail_, "places");
    each(get_in<dom::element>(root_, "places"), kind, [&](const dom::element& item) {
      const auto [added, before] = pair_in(item, "a place");
      const auto name = value_as<std::string_view>(added, "a name");
      Id<T> where;
      if (!before.is_null())
        where = find<T>(model, value_as<std::string_view>(before, "a name"));
      else if (std::is_same_v<T, Node>)
        throw Error(fmt::format("'{}' stands after the output", name));
      const auto [place, is_new] = std::get<Added<T>>(added_).emplace(name, Id<T>{});
      if (!is_new || table_of<T>(model).find(name))
        throw Error(fmt::format("'{}' has two places", name));
      place->second = restorer.add_slot(where);
    });
  }

  // Erased or not: a name stands for one object from the first step to the last.
  template <class T>
  Id<T> find(const Model& model, std::string_view name) const {
    if (const Id<T> id = table_of<T>(model).named(name)) return id;
    const Added<T>& added = std::get<Added<T>>(added_);
    const auto it = added.find(name);
    if (it == added.end())
      throw Error(fmt::format("a step names '{}', which does not exist", name));
    return it->second;
  }

  static StepLabel label(const dom::element& item) {
    return {StepId(small(get_in<std::uint64_t>(item, "id"), "the number of a step")),
            text_in(item, "transformation"), text_in(item, "site"), is_marked_lossy(item)};
  }
  // As is_approximate() of the step.
  static bool is_marked_lossy(const dom::element& item) {
    const auto parameters = get_in<dom::element>(item, "parameters");
    const auto mark = find_in<dom::element>(parameters, "approximate");
    return mark && mark->is_bool() && mark->get_bool().value();
  }

  Step step(const Model& model, const dom::element& item) {
    const FindNode node_of = [&](std::string_view name) { return find<Node>(model, name); };
    Step step;
    StepLabel label = this->label(item);
    step.id = label.id;
    step.transformation = label.transformation;
    step.site = label.site;
    step.signature = text_in(item, "signature");
    step.parameters = read_values(get_in<dom::element>(item, "parameters"), node_of);
    each(item, "nodes", [&](const dom::element& name) {
      step.nodes.push_back(node_of(value_as<std::string_view>(name, "a node")));
    });
    each(item, "edits", [&](const dom::element& edit) {
      if (const auto name = find_in<std::string_view>(edit, "node"))
        step.edits.push_back(node_edit(model, *name, edit, node_of));
      else
        step.edits.push_back(state_edit(model, get_in<std::string_view>(edit, "state"), edit));
    });
    each(item, "pieces", [&](const dom::element& of) {
      Piece piece;
      piece.whole = find<StateEntry>(model, get_in<std::string_view>(of, "whole"));
      if (const auto part = find_in<std::string_view>(of, "part"))
        piece.part = find<StateEntry>(model, *part);
      piece.dim = get_in<std::int64_t>(of, "dim");
      piece.start = get_in<std::int64_t>(of, "start");
      piece.length = get_in<std::int64_t>(of, "length");
      const Arg fill = read_value(get_in<dom::element>(of, "fill"), node_of);
      const double* number = fill.get<double>();
      if (!number) throw Error("'fill' is not a number");
      piece.fill = *number;
      step.pieces.push_back(piece);
    });
    each(item, "made", [&](const dom::element& made) {
      const std::string text = text_in(made, "hash");
      TensorStamp stamp{.state = find<StateEntry>(model, get_in<std::string_view>(made, "state")),
                        .version = 0};
      stamp.changed = text == kChanged;
      if (!stamp.changed) stamp.hash = hash(text);
      step.stamps.push_back(stamp);
    });
    return step;
  }

  static ContentHash hash(const std::string& text) {
    ContentHash out = {};
    const char* half = text.data() + kHashDigits / 2;
    const char* end = text.data() + text.size();
    if (text.size() != kHashDigits || std::from_chars(half, end, out[0], 16).ptr != end ||
        std::from_chars(text.data(), half, out[1], 16).ptr != half)
      throw Error(fmt::format("'{}' is not a hash", text));
    return out;
  }

  Change<Node> node_edit(const Model& model, std::string_view name, const dom::element& edit,
                         const FindNode& node_of) {
    Change<Node> change{find<Node>(model, name), nullptr, nullptr};
    const auto value = get_in<dom::element>(edit, "value");
    const Node* before = model.graph().find(change.id);
    if (!value.is_null()) {
      change.after = node(before, value, node_of);
      if (change.after->name != name) throw Error(fmt::format("node '{}' changes its name", name));
    }
    check_signature(before, change.after.get());
    return change;
  }

  Change<StateEntry> state_edit(const Model& model, std::string_view name,
                                const dom::element& edit) {
    Change<StateEntry> change{find<StateEntry>(model, name), nullptr, nullptr};
    const auto value = get_in<dom::element>(edit, "value");
    if (!value.is_null()) {
      change.after = state(value);
      if (change.after->name != name) throw Error(fmt::format("'{}' changes its name", name));
    } else if (mutated_.count(std::string(name))) {
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
      auto type = std::make_shared<const TensorType>(this->type(*field));
      node.type = before && before->type && *before->type == *type ? before->type : type;
    }
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

  static std::vector<Dim> dims(const dom::element& item, const char* key) {
    std::vector<Dim> out;
    for (const dom::element& dim : get_in<dom::array>(item, key)) {
      if (dim.is_array()) {
        const auto [expression, hint] = pair_in(dim, key);
        out.emplace_back(std::string(value_as<std::string_view>(expression, key)),
                         value_as<std::int64_t>(hint, key));
      } else {
        out.emplace_back(value_as<std::int64_t>(dim, key));
      }
      const bool given = out.back().value >= 0 || (!out.back().known() && out.back().value == -1);
      if (!given || (dim.is_array() && out.back().known()) || out.size() > limits::kDims)
        throw Error(fmt::format("'{}' are not those of a tensor", key));
    }
    return out;
  }

  static TensorType type(const dom::element& item) {
    TensorType type;
    type.dtype = read_dtype(get_in<dom::element>(item, "dtype"));
    type.sizes = dims(item, "sizes");
    type.strides = dims(item, "strides");
    if (!type.strides.empty() && type.strides.size() != type.sizes.size())
      throw Error(fmt::format("{} sizes but {} strides", type.sizes.size(), type.strides.size()));
    type.device = read_device(get_in<dom::element>(item, "device"));
    type.layout = read_layout(get_in<dom::element>(item, "layout"));
    type.requires_grad = get_in<bool>(item, "requires_grad");
    return type;
  }

  std::shared_ptr<const StateEntry> state(const dom::element& item) {
    auto entry = std::make_shared<StateEntry>();
    entry->name = text_in(item, "name");
    entry->kind = named(kStateKinds, text_in(item, "kind"), "kind of tensor");
    entry->persistent = get_in<bool>(item, "persistent");
    entry->tensor = tensor(get_in<std::uint64_t>(item, "tensor"));
    if (detached_in(entry->tensor))
      throw Error(fmt::format("a step uses '{}', which was detached", entry->name));
    return entry;
  }

  at::TensorBase tensor(std::uint64_t index) {
    const TensorMeta& meta = this->meta(index);
    at::TensorBase& tensor = made_tensors_[index];
    if (tensor.defined()) return tensor;
    const c10::Storage storage = this->storage(get_in<std::uint64_t>(tensors_[index], "storage"));
    check(meta, storage.nbytes());
    if (!has_device(meta.type.device))
      throw Error(fmt::format("tensors of its history are on {}, which is not here",
                              meta.type.device.str()));
    return tensor = tensor_in(source_.storages->on(meta.type.device, storage), meta);
  }

  c10::Storage storage(std::uint64_t index) {
    const dom::element& item = numbered(storages_, index, "storages");
    c10::Storage& storage = made_storages_[index];
    if (storage) return storage;
    if (const auto name = find_in<std::string_view>(item, "record")) {
      storage = source_.storages->of_record(archive_.at(*name));
    } else if (const auto original = find_in<std::string_view>(item, "original")) {
      if (!source_.original(*original))
        throw Error(fmt::format("there was no record '{}' in the original", *original));
      storage = source_.storage_of_original(*original);
    } else {
      storage = storage_of(slice(index));
    }
    return storage;
  }

  // The same reader as for the other tensors of the file, once for all that are alike.
  const TensorMeta& meta(std::uint64_t index) {
    const dom::element& item = numbered(tensors_, index, "tensors");
    std::string text = simdjson::minify(get_in<dom::element>(item, "meta"));
    if (const auto known = metas_.find(text); known != metas_.end()) return known->second;
    const simdjson::padded_string padded(text);
    JsonDocument document(archive_.path(), kHistory, std::string_view(padded));
    Symbols symbols;
    TensorMeta meta;
    document.read(
        [&](ondemand::object& root) { meta = read_tensor_meta(document, root, symbols); });
    return metas_.emplace(std::move(text), std::move(meta)).first->second;
  }

  static void check(const TensorMeta& meta, std::uint64_t bytes) {
    if (meta.type.layout != c10::kStrided || meta.type.sizes.size() > limits::kDims)
      throw Error("a tensor of the history is not one that refx keeps");
    if (const std::string why = why_outside(meta, bytes); !why.empty()) throw Error(why);
    std::uint64_t stands_for = c10::elementSize(meta.type.dtype);
    for (const Dim& size : meta.type.sizes)
      if (__builtin_mul_overflow(stands_for, static_cast<std::uint64_t>(size.value), &stands_for))
        stands_for = std::numeric_limits<std::uint64_t>::max();
    if (stands_for > std::max(bytes, limits::kExpandedBytes))
      throw Error("a tensor of the history repeats its elements too often");
  }

  Pt2Source& source_;
  const Archive& archive_;
  bool parsed_ = false;
  std::int64_t format_ = 0;
  dom::parser parser_;
  dom::element root_;
  Trail trail_;
  std::tuple<Added<Node>, Added<StateEntry>> added_;
  std::unordered_set<std::string> mutated_;            // state entries that the program writes into
  std::unordered_map<std::string, TensorMeta> metas_;  // by their text
  // By number.
  std::vector<dom::element> tensors_, storages_;
  std::unordered_map<std::uint64_t, at::TensorBase> made_tensors_;
  std::unordered_map<std::uint64_t, c10::Storage> made_storages_;
  std::uint64_t sliced_ = 0, stored_ = 0;  // bytes of all slices so far, and of all records
  std::uint64_t detached_ = 0;             // of all detached tensors so far
};

HistoryReader::HistoryReader(Pt2Source& source) : impl_(std::make_unique<Impl>(source)) {}
HistoryReader::~HistoryReader() = default;

void HistoryReader::read_original_records() {
  impl_->read([&] {
    impl_->check_fit();
    impl_->records();
  });
}

std::optional<std::vector<StepLabel>> HistoryReader::read_labels() {
  std::optional<std::vector<StepLabel>> labels;
  impl_->read([&] {
    impl_->check_fit();
    labels = impl_->labels();
  });
  return labels;
}

void HistoryReader::read_steps(Model& model) {
  impl_->read([&] { impl_->steps(model); });
}

}  // namespace refx
