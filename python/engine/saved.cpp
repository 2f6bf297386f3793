// SPDX-License-Identifier: Apache-2.0

#include "engine/saved.h"

#include <algorithm>
#include <cstring>

#include "refx/error.h"
#include "refx/restore.h"
#include "util/fingerprint.h"
#include "util/limits.h"
#include "util/utf8.h"

namespace refx::fx {

namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

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
    if (!is_utf8(text)) damaged();
  }
  void get(Name& name) { name = get<std::string>(); }
  template <class T>
  void get(Id<T>& id) {
    id = Id<T>(get<std::uint32_t>());
  }
  void get(c10::Device& device) {
    const auto type = get_enum<c10::DeviceType>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);
    const auto index = get<std::int8_t>();
    // c10::Device checks its arguments in debug builds only.
    if (index < -1 || (type == c10::kCPU && index > 0)) damaged();
    device = c10::Device(type, index);
  }
  template <class T>
  void get(std::vector<T>& values) {
    const auto size = get<std::uint64_t>();
    // Every value takes at least one byte. A larger size would only make this allocate memory.
    if (size > in_.size()) damaged();
    for (std::uint64_t i = 0; i < size; ++i) get(values.emplace_back());
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  void get(Arg& arg) {
    // Nested arguments are read recursively: a damaged file must not exhaust the stack.
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
    if (in_.starts_with(kFormat1)) {  // written before there was a checksum
      in_.remove_prefix(kFormat1.size());
      return;
    }
    if (!in_.starts_with(kFormat)) damaged();
    in_.remove_prefix(kFormat.size());
    const std::size_t size = fingerprint({}).size();
    const std::string_view checksum(take(size), size);
    if (fingerprint(in_) != checksum) damaged();
  }
  bool at_end() const { return in_.empty(); }
  void expect_end() const {
    if (!at_end()) damaged();
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

// Which steps are approximate: a list at the end, or nothing where their parameters say it.
void get_numerics(BytesReader& in, std::vector<Step>& steps) {
  for (Step& step : steps) step.numerics = Restorer::unstated_numerics(step.parameters);
  if (in.at_end()) return;
  std::vector<std::uint32_t> approximate;
  in.get(approximate);
  std::ranges::sort(approximate);  // a forged list may be long
  for (Step& step : steps) {
    const bool is_listed = std::ranges::binary_search(approximate, step.id.value);
    step.numerics = is_listed ? Numerics::approximate : Numerics::preserved;
  }
}

}  // namespace

Saved read_saved(std::string_view bytes, const std::vector<at::Tensor>& tensors) {
  Saved saved;
  BytesReader in(bytes, tensors);
  in.get_header();
  Restorer restorer(saved.model);
  restore_table<StateEntry>(restorer, in);
  restore_table<Module>(restorer, in);
  restore_table<Node>(restorer, in);
  std::vector<Step> steps;
  for (auto count = in.get<std::uint64_t>(); count > 0; --count) steps.push_back(get_step(in));
  const auto next_step = in.get<std::uint32_t>();
  in.get(saved.training);
  saved.snapshots.resize(saved.model.state().id_limit());
  for (StateId id : saved.model.state().slots()) {
    in.get(saved.snapshots[id.value].dtype);
    in.get(saved.snapshots[id.value].device);
  }
  get_numerics(in, steps);
  in.expect_end();
  // Newest first: what a step is checked against is the model after it.
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) restorer.record(std::move(*step));
  restorer.set_next_step(next_step);
  return saved;
}

}  // namespace refx::fx
