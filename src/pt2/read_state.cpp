// SPDX-License-Identifier: Apache-2.0

#include "pt2/read_state.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/detached.h"
#include "ir/devices.h"
#include "pt2/storages.h"
#include "pt2/stored_tensor.h"
#include "refx/error.h"

namespace refx {

namespace {

StoredState stored_in(JsonDocument& document, std::string name, ondemand::object object,
                      std::string_view folder, Symbols& symbols) {
  StoredState stored;
  stored.name = std::move(name);
  stored.config = slice(object);
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    const Trail::Step step(document.trail, key);
    if (key == "path_name")
      stored.record = std::string(folder) + string_in(value);
    else if (key == "is_param")
      stored.is_param = value.get_bool();
    else if (key == "use_pickle")
      stored.pickled = value.get_bool();
    else if (key == "tensor_meta" && !value.is_null())
      stored.meta = read_tensor_meta(document, value.get_object(), symbols);
  }
  return stored;
}

class StateReader {
 public:
  StateReader(Pt2Source& source, Editor& editor, const StateRoles& roles)
      : source_(source), editor_(editor), roles_(roles) {}

  void config(std::string_view record, std::string_view folder) {
    JsonDocument document(source_.path(), source_.place_of(record), source_.text(record));
    read_config(document, folder, source_.symbols,
                [&](const StoredState& stored) { entry(document, stored, folder); });
  }

  // Called at the end, because the entry that names a detached tensor may come in either config. A
  // detached tensor is found again by its name in a base file, so the name must belong to a tensor
  // of the program.
  void check_detached() const {
    for (const auto& original : source_.records)
      if (const auto* detached = dynamic_cast<const Detached*>(original.content.get()))
        if (!named_.count(detached))
          throw Error(fmt::format("{}: record '{}' was detached, and '{}' is not in it",
                                  source_.path(), original.record.name, detached->name()));
  }

 private:
  void entry(JsonDocument& document, const StoredState& stored, std::string_view folder) {
    const std::string& name = stored.name;
    if (editor_.state().name_taken(name)) document.fail(fmt::format("'{}' appears twice", name));
    Pt2Source::StateText text;
    text.config = stored.config;
    text.record = stored.record;
    const std::optional<TensorMeta>& meta = stored.meta;
    const auto* record = source_.original(text.record);
    if (!record)
      document.fail(fmt::format("names record '{}', which the file does not have", text.record));

    // The signature of the program decides the kind. Without an entry there (a tensor that only a
    // subgraph uses, or none), the config does: PyTorch marks parameters, and stores parameters and
    // buffers in one folder and constants in the other.
    StateEntry state{.name = name, .tensor = {}};
    const auto role = roles_.find(name);
    const bool weight = folder == kWeights;
    const StateRole what = role != roles_.end() ? role->second
                           : stored.is_param    ? StateRole::parameter
                           : weight             ? StateRole::buffer
                                                : StateRole::constant;
    state.kind = what == StateRole::parameter  ? StateKind::parameter
                 : what == StateRole::constant ? StateKind::constant
                                               : StateKind::buffer;
    state.persistent = what != StateRole::other_buffer;
    // Tensors that refx cannot map (subclasses in a pickle, sparse ones, devices that are missing
    // here) get a stand-in without data. Their records are copied unchanged when the model is
    // saved.
    text.opaque = stored.pickled || !meta || meta->type.layout != c10::kStrided ||
                  !has_device(meta->type.device);
    if (record->content) check_content(document, *record->content, stored, text.opaque);
    if (text.opaque) {
      state.tensor = stand_in(meta ? &*meta : nullptr);
    } else {
      if (const std::string why = why_outside(*meta, record->record.size); !why.empty())
        document.fail(why);
      // Tensors of one record share its storage, as they did when they were saved.
      const c10::Storage storage = source_.storage_of_original(text.record);
      state.tensor = tensor_in(source_.storages->on(meta->type.device, storage), *meta);
    }
    const StateId id = editor_.add_state(std::move(state));
    text.entry = editor_.state().pointer(id);
    source_.state.resize(id.value + 1);
    source_.state[id.value] = std::move(text);
  }

  // Checks a tensor whose record the file does not contain, because it was detached or is stored as
  // a slice of another tensor.
  void check_content(const JsonDocument& document, const Content& content,
                     const StoredState& stored, bool opaque) {
    if (opaque) document.fail(fmt::format("record '{}' is not kept as it was", stored.record));
    const auto* detached = dynamic_cast<const Detached*>(&content);
    if (!detached) return;
    if (detached->dtype() != stored.meta->type.dtype)
      document.fail(fmt::format("record '{}' was detached with another dtype", stored.record));
    if (detached->name() == stored.name) named_.insert(detached);
  }

  Pt2Source& source_;
  Editor& editor_;
  const StateRoles& roles_;
  std::unordered_set<const Content*> named_;  // detached ones whose name is right
};

}  // namespace

void read_config(JsonDocument& document, std::string_view folder, Symbols& symbols,
                 const std::function<void(StoredState)>& take) {
  std::unordered_map<std::string, c10::ScalarType> dtypes;  // of records
  document.read([&](ondemand::object& root) {
    const Trail::Step step(document.trail, "config");
    for (auto field : root["config"].get_object()) {
      std::string name(field.unescaped_key().value());
      const Trail::Step at(document.trail, name);
      StoredState stored =
          stored_in(document, std::move(name), field.value().get_object(), folder, symbols);
      const bool raw = !stored.pickled && stored.meta;
      // Such a tensor would alias the text that is being read.
      if (stored.record == kWeightsConfig || stored.record == kConstantsConfig)
        document.fail(fmt::format("record '{}' lists the tensors and holds none", stored.record));
      // PyTorch uses the dtype of the first tensor of a record for all of them, and would read the
      // others as something else than refx.
      if (raw && dtypes.try_emplace(stored.record, stored.meta->type.dtype).first->second !=
                     stored.meta->type.dtype)
        document.fail(fmt::format("record '{}' has tensors of two dtypes", stored.record));
      // PyTorch decides by the name of the record whether it is a tensor, whatever the config says.
      if (raw && folder == kConstants && !stored.record.starts_with(kTensorConstants))
        document.fail(fmt::format("a tensor in record '{}', which PyTorch does not read as one",
                                  stored.record));
      take(std::move(stored));
    }
  });
}

void read_state(Pt2Source& source, Editor& editor, const StateRoles& roles) {
  StateReader reader(source, editor, roles);
  reader.config(kWeightsConfig, kWeights);
  reader.config(kConstantsConfig, kConstants);
  reader.check_detached();
}

}  // namespace refx
