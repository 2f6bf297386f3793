// SPDX-License-Identifier: Apache-2.0

// A mirror as bytes: a checksum, then all values of the model and of its steps. Ids are renumbered
// by position, because the ids of a long session are sparse, and so that equal histories give equal
// bytes. Types and metadata are not saved: they are read again from the GraphModule.

#include <fmt/format.h>

#include <unordered_map>

#include "engine/mirror.h"
#include "engine/saved.h"
#include "refx/error.h"
#include "refx/restore.h"
#include "util/fingerprint.h"

namespace refx::fx {

namespace {

// A number for every object, erased ones included, by their order.
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
  void put(const Name& name) { put(name.view()); }
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

  // Omitted where a reader infers it, so that all other histories are written with the same bytes
  // as by earlier versions, which can then read them.
  void put_numerics(const History& history) {
    std::vector<std::uint32_t> approximate;
    bool is_inferred = true;
    for (const Step& step : history) {
      if (step.numerics == Numerics::approximate) approximate.push_back(step.id.value);
      is_inferred &= step.numerics == Restorer::unstated_numerics(step.parameters);
    }
    if (is_inferred) return;
    put(static_cast<std::uint64_t>(approximate.size()));
    for (const std::uint32_t id : approximate) put(id);
  }

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
  out.put_numerics(model_.history());
  return std::string(kFormat) + fingerprint(out.out) + out.out;
}

Mirror Mirror::load(std::string_view bytes, const std::vector<at::Tensor>& tensors) try {
  Saved saved = read_saved(bytes, tensors);
  Mirror mirror;
  mirror.model_ = std::move(saved.model);
  mirror.training_ = saved.training;
  mirror.snapshots_ = std::move(saved.snapshots);
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
