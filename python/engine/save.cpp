// A mirror as bytes: all values of the model and of its steps, with ids numbered by place, after a
// checksum of them. Types and metadata are read again from the GraphModule.

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "engine/mirror.h"
#include "refx/error.h"
#include "refx/restore.h"
#include "util/fingerprint.h"
#include "util/limits.h"

namespace refx::fx {

namespace {

constexpr std::string_view kFormat = "refx.fx 2\n";   // then the checksum, then the values
constexpr std::string_view kFormat1 = "refx.fx 1\n";  // the values alone

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// The place of every object, in order, as its number.
template <class T>
std::unordered_map<Id<T>, std::uint32_t> numbered(const Table<T>& table) {
  std::unordered_map<Id<T>, std::uint32_t> numbers;
  for (Id<T> id : table.slots()) numbers.emplace(id, static_cast<std::uint32_t>(numbers.size()));
  return numbers;
}

class BytesWriter {
 public:
  BytesWriter(const Model& model, std::vector<at::Tensor>& tensors)
      : nodes_(numbered<Node>(model.graph())),
        states_(numbered<StateEntry>(model.state())),
        modules_(numbered<Module>(model.modules())),
        tensors_(tensors) {}

  template <Plain T>
  void put(T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    out += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(bool value) { put(static_cast<std::uint8_t>(value)); }
  void put(NodeId id) { put(number(nodes_, id)); }
  void put(StateId id) { put(number(states_, id)); }
  void put(ModuleId id) { put(number(modules_, id)); }
  void put(c10::Device device) {
    put(static_cast<std::int8_t>(device.type()));
    put(static_cast<std::int8_t>(device.index()));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  void put(const Arg& arg) {
    put(static_cast<std::uint8_t>(arg.value().index()));
    std::visit([&](const auto& value) { put_value(value); }, arg.value());
  }
  void put(const Node& node) {
    put(node.op);
    put(node.name);
    put(node.target);
    put(node.args);
    put(node.kwargs);
    put(node.state);
    put(node.marks);
  }
  void put(const StateEntry& entry) {
    put(entry.name);
    put(entry.kind);
    put(entry.persistent);
    put(tensor(entry.tensor));
  }
  void put(const Module& module) {
    put(module.name);
    put(module.type);
    put(module.parameters);
    put(module.training);
    put(module.custom);
  }
  template <class T>
  void put(const std::shared_ptr<const T>& value) {
    put(value != nullptr);
    if (value) put(*value);
  }
  void put(const Edit& edit) {
    put(static_cast<std::uint8_t>(edit.index()));
    std::visit(
        [&](const auto& change) {
          put(change.id);
          put(change.before);
          put(change.after);
        },
        edit);
  }
  void put(const Piece& piece) {
    put(piece.whole);
    put(piece.part);
    put(piece.dim);
    put(piece.start);
    put(piece.length);
    put(piece.fill);
  }
  template <class T>
  void put(const Table<T>& table) {
    const auto places = table.slots();
    put(static_cast<std::uint64_t>(places.size()));
    for (Id<T> id : places) put(table.pointer(id));
  }

  std::string out;

 private:
  template <class T>
  static std::uint32_t number(const std::unordered_map<Id<T>, std::uint32_t>& numbers, Id<T> id) {
    return id ? numbers.at(id) : Id<T>::kNone;
  }

  void put_value(None) {}
  void put_value(Ellipsis) {}
  void put_value(std::complex<double> value) {
    put(value.real());
    put(value.imag());
  }
  void put_value(const SymInt& value) { put(value.expr); }
  void put_value(const Raw& value) { put(value.text); }
  void put_value(const List& value) { put(value.items); }
  void put_value(const Tuple& value) { put(value.items); }
  void put_value(const Slice& value) { put(value.parts); }
  void put_value(const Dict& value) { put(value.items); }
  template <class T>
  void put_value(const T& value) {
    put(value);
  }

  std::uint32_t tensor(const at::TensorBase& tensor) {
    const auto [it, added] = tensor_numbers_.emplace(tensor.unsafeGetTensorImpl(),
                                                     static_cast<std::uint32_t>(tensors_.size()));
    if (added) tensors_.emplace_back(tensor);
    return it->second;
  }

  std::unordered_map<NodeId, std::uint32_t> nodes_;
  std::unordered_map<StateId, std::uint32_t> states_;
  std::unordered_map<ModuleId, std::uint32_t> modules_;
  std::vector<at::Tensor>& tensors_;
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> tensor_numbers_;
};

class BytesReader {
 public:
  BytesReader(std::string_view in, const std::vector<at::Tensor>& tensors)
      : in_(in), tensors_(tensors) {}

  template <class T>
  T get() {
    T value{};
    get(value);
    return value;
  }
  template <Plain T>
  void get(T& value) {
    std::memcpy(&value, take(sizeof value), sizeof value);
  }
  void get(bool& value) { value = get_enum<std::uint8_t>(2) != 0; }
  void get(Opcode& op) { op = get_enum<Opcode>(static_cast<int>(Opcode::output) + 1); }
  void get(StateKind& kind) {
    kind = get_enum<StateKind>(static_cast<int>(StateKind::constant) + 1);
  }
  void get(c10::ScalarType& dtype) {
    dtype = get_enum<c10::ScalarType>(static_cast<int>(c10::ScalarType::NumOptions));
  }
  void get(c10::Layout& layout) {
    layout = get_enum<c10::Layout>(static_cast<int>(c10::Layout::NumOptions));
  }
  void get(c10::MemoryFormat& format) {
    format = get_enum<c10::MemoryFormat>(static_cast<int>(c10::MemoryFormat::NumOptions));
  }
  void get(std::string& text) {
    const auto size = get<std::uint64_t>();
    text.assign(take(size), size);
    PyObject* readable = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(size), nullptr);
    if (!readable) PyErr_Clear();
    Py_XDECREF(readable);
    if (!readable) damaged();
  }
  template <class T>
  void get(Id<T>& id) {
    id = Id<T>(get<std::uint32_t>());
  }
  void get(c10::Device& device) {
    const auto type = get_enum<c10::DeviceType>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);
    const auto index = get<std::int8_t>();
    if (index < -1 || (type == c10::kCPU && index > 0)) damaged();
    device = c10::Device(type, index);
  }
  template <class T>
  void get(std::vector<T>& values) {
    const auto size = get<std::uint64_t>();
    if (size > in_.size()) damaged();
    for (std::uint64_t i = 0; i < size; ++i) get(values.emplace_back());
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  void get(Arg& arg) {
    if (++depth_ > limits::kNesting + 1) damaged();
    arg = get_arg(get<std::uint8_t>());
    --depth_;
  }
  void get(Node& node) {
    get(node.op);
    get(node.name);
    get(node.target);
    get(node.args);
    get(node.kwargs);
    get(node.state);
    get(node.marks);
  }
  void get(StateEntry& entry) {
    get(entry.name);
    get(entry.kind);
    get(entry.persistent);
    const auto index = get<std::uint32_t>();
    if (index >= tensors_.size()) damaged();
    entry.tensor = tensors_[index];
  }
  void get(Module& module) {
    get(module.name);
    get(module.type);
    get(module.parameters);
    get(module.training);
    get(module.custom);
  }
  template <class T>
  void get(std::shared_ptr<const T>& value) {
    value = get<bool>() ? std::make_shared<const T>(get<T>()) : nullptr;
  }
  void get(Edit& edit) {
    switch (get<std::uint8_t>()) {
      case 0:
        edit = get_change<Node>();
        break;
      case 1:
        edit = get_change<StateEntry>();
        break;
      case 2:
        edit = get_change<Module>();
        break;
      default:
        damaged();
    }
  }
  void get(Piece& piece) {
    get(piece.whole);
    get(piece.part);
    get(piece.dim);
    get(piece.start);
    get(piece.length);
    get(piece.fill);
  }
  void get_header() {
    if (in_.starts_with(kFormat1)) {
      in_.remove_prefix(kFormat1.size());
      return;
    }
    if (!in_.starts_with(kFormat)) damaged();
    in_.remove_prefix(kFormat.size());
    const std::size_t size = fingerprint({}).size();
    const std::string_view checksum(take(size), size);
    if (fingerprint(in_) != checksum) damaged();
  }
  void expect_end() const {
    if (!in_.empty()) damaged();
  }

  [[noreturn]] static void damaged() {
    throw Error("it is cut off or changed, or a newer refx wrote it");
  }

 private:
  const char* take(std::uint64_t size) {
    if (size > in_.size()) damaged();
    const char* data = in_.data();
    in_.remove_prefix(size);
    return data;
  }
  template <class T>
  T get_enum(int count) {
    const auto number = get<std::int8_t>();
    if (number < 0 || number >= count) damaged();
    return static_cast<T>(number);
  }
  template <class T>
  Change<T> get_change() {
    Change<T> change;
    get(change.id);
    get(change.before);
    get(change.after);
    return change;
  }

  template <class T>
  Arg items() {
    return T{get<Args>()};
  }
  // In the order of Arg::Storage.
  Arg get_arg(std::uint8_t kind) {
    switch (kind) {
      case 0:
        return None{};
      case 1:
        return get<bool>();
      case 2:
        return get<std::int64_t>();
      case 3:
        return get<double>();
      case 4: {
        const auto real = get<double>();
        return std::complex<double>(real, get<double>());
      }
      case 5:
        return get<std::string>();
      case 6:
        return get<c10::ScalarType>();
      case 7: {
        c10::Device device(c10::kCPU);
        get(device);
        return device;
      }
      case 8:
        return get<c10::Layout>();
      case 9:
        return get<c10::MemoryFormat>();
      case 10:
        return get<NodeId>();
      case 11:
        return SymInt{get<std::string>()};
      case 12:
        return Ellipsis{};
      case 13:
        return Raw{get<std::string>()};
      case 14:
        return items<List>();
      case 15:
        return items<Tuple>();
      case 16: {
        auto parts = get<Args>();
        if (parts.size() != 3) damaged();
        return Slice{std::move(parts)};
      }
      case 17:
        return Dict{get<std::vector<std::pair<Arg, Arg>>>()};
      default:
        damaged();
    }
  }

  std::string_view in_;
  const std::vector<at::Tensor>& tensors_;
  int depth_ = 0;
};
static_assert(std::variant_size_v<Arg::Storage> == 18);

template <class T>
void restore_table(Restorer& restorer, BytesReader& in) {
  std::vector<std::shared_ptr<const T>> values;
  in.get(values);
  // All places first: a node's arguments refer to them.
  std::vector<Id<T>> ids;
  for (std::size_t i = 0; i < values.size(); ++i) ids.push_back(restorer.add_slot<T>());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]) restorer.put(ids[i], std::move(values[i]));
}

}  // namespace

std::string Mirror::save(std::vector<at::Tensor>& tensors) const {
  BytesWriter out(model_, tensors);
  out.put<StateEntry>(model_.state());
  out.put<Module>(model_.modules());
  out.put<Node>(model_.graph());
  std::uint32_t next_step = 1;
  out.put(static_cast<std::uint64_t>(model_.history().size()));
  for (const Step& step : model_.history()) {
    out.put(step.id.value);
    out.put(step.transformation);
    out.put(step.signature);
    out.put(step.parameters);
    out.put(step.site);
    out.put(step.nodes);
    out.put(step.edits);
    out.put(step.pieces);
    out.put(static_cast<std::uint64_t>(step.stamps.size()));
    std::unordered_map<StateId, const StateEntry*> written;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit))
        written.emplace(change->id, change->after.get());
    for (const TensorStamp& stamp : step.stamps) {
      const StateEntry* after = written[stamp.state];
      out.put(stamp.state);
      out.put(after &&
              (is_changed(stamp, after->tensor) || has_other_contents(stamp.state, *after)));
    }
    next_step = step.id.value + 1;
  }
  out.put(next_step);
  out.put(training_);
  for (StateId id : model_.state().slots()) {
    const bool known = id.value < snapshots_.size();
    out.put(known ? snapshots_[id.value].dtype : c10::ScalarType::Undefined);
    out.put(known ? snapshots_[id.value].device : c10::Device(c10::kCPU));
  }
  return std::string(kFormat) + fingerprint(out.out) + out.out;
}

namespace {

Step get_step(BytesReader& in) {
  Step step;
  step.id = StepId(in.get<std::uint32_t>());
  in.get(step.transformation);
  in.get(step.signature);
  in.get(step.parameters);
  in.get(step.site);
  in.get(step.nodes);
  in.get(step.edits);
  in.get(step.pieces);
  step.stamps = stamps_of(step.edits);
  if (in.get<std::uint64_t>() != step.stamps.size()) BytesReader::damaged();
  for (TensorStamp& stamp : step.stamps) {
    if (in.get<StateId>() != stamp.state) BytesReader::damaged();
    in.get(stamp.changed);
  }
  return step;
}

}  // namespace

Mirror Mirror::load(std::string_view bytes, const std::vector<at::Tensor>& tensors) try {
  Mirror mirror;
  BytesReader in(bytes, tensors);
  in.get_header();
  Restorer restorer(mirror.model_);
  restore_table<StateEntry>(restorer, in);
  restore_table<Module>(restorer, in);
  restore_table<Node>(restorer, in);
  std::vector<Step> steps;
  for (auto count = in.get<std::uint64_t>(); count > 0; --count) steps.push_back(get_step(in));
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) restorer.record(std::move(*step));
  restorer.set_next_step(in.get<std::uint32_t>());
  in.get(mirror.training_);
  mirror.snapshots_.resize(mirror.model_.state().id_limit());
  for (StateId id : mirror.model_.state().slots()) {
    in.get(mirror.snapshots_[id.value].dtype);
    in.get(mirror.snapshots_[id.value].device);
  }
  in.expect_end();
  for (const Step& step : mirror.model_.history())
    for (const TensorStamp& stamp : step.stamps)
      if (const StateEntry* entry = mirror.model_.state().find(stamp.state))
        mirror.snapshots_[stamp.state.value].sample =
            TensorSnapshot::of(entry->tensor, true).sample;
  mirror.is_read_ = true;
  return mirror;
} catch (const Error& error) {
  throw Error(fmt::format(
      "the history of this GraphModule is damaged: {}; load a copy of the file that is whole",
      error.what()));
}

}  // namespace refx::fx
