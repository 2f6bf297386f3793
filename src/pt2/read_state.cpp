#include "pt2/read_state.h"

#include <fmt/format.h>

#include "ir/content.h"
#include "ir/devices.h"
#include "pt2/storages.h"
#include "pt2/stored_tensor.h"
#include "refx/error.h"

namespace refx {

namespace {

class StateReader {
 public:
  StateReader(Pt2Source& source, Editor& editor, const StateRoles& roles)
      : source_(source), editor_(editor), roles_(roles) {}

  void config(std::string_view record, std::string_view folder) {
    JsonDocument document(source_.path(), source_.place_of(record), source_.text(record));
    document.read([&](ondemand::object& root) {
      const Trail::Step step(document.trail, "config");
      for (auto field : root["config"].get_object()) {
        const std::string name(field.unescaped_key().value());
        const Trail::Step at(document.trail, name);
        entry(document, name, field.value().get_object(), folder);
      }
    });
  }

 private:
  void entry(JsonDocument& document, const std::string& name, ondemand::object object,
             std::string_view folder) {
    if (editor_.state().name_taken(name)) document.fail(fmt::format("'{}' stands twice", name));
    Pt2Source::StateText text;
    text.config = slice(object);
    bool is_param = false, pickled = false;
    std::optional<TensorMeta> meta;
    for (auto field : object) {
      const std::string_view key = field.unescaped_key();
      ondemand::value value = field.value();
      const Trail::Step step(document.trail, key);
      if (key == "path_name")
        text.record = std::string(folder) + string_in(value);
      else if (key == "is_param")
        is_param = value.get_bool();
      else if (key == "use_pickle")
        pickled = value.get_bool();
      else if (key == "tensor_meta" && !value.is_null())
        meta = read_tensor_meta(document, value.get_object(), source_.symbols);
    }
    const auto* record = source_.original(text.record);
    if (!record)
      document.fail(fmt::format("names record '{}', which the file does not have", text.record));

    StateEntry state{.name = name, .tensor = {}};
    const auto role = roles_.find(name);
    const bool weight = folder == kWeights;
    const StateRole what = role != roles_.end() ? role->second
                           : is_param           ? StateRole::parameter
                           : weight             ? StateRole::buffer
                                                : StateRole::constant;
    state.kind = what == StateRole::parameter  ? StateKind::parameter
                 : what == StateRole::constant ? StateKind::constant
                                               : StateKind::buffer;
    state.persistent = what != StateRole::other_buffer;
    text.opaque =
        pickled || !meta || meta->type.layout != c10::kStrided || !has_device(meta->type.device);
    if (text.opaque) {
      state.tensor = stand_in(meta ? &*meta : nullptr);
    } else {
      if (const std::string why = why_outside(*meta, record->record.size); !why.empty())
        document.fail(why);
      const c10::Storage stored = source_.storages->of_original(text.record);
      state.tensor = tensor_in(source_.storages->on(meta->type.device, stored), *meta);
    }
    const StateId id = editor_.add_state(std::move(state));
    text.entry = editor_.state().pointer(id);
    source_.state.resize(id.value + 1);
    source_.state[id.value] = std::move(text);
  }

  Pt2Source& source_;
  Editor& editor_;
  const StateRoles& roles_;
};

}  // namespace

void read_state(Pt2Source& source, Editor& editor, const StateRoles& roles) {
  StateReader reader(source, editor, roles);
  reader.config(kWeightsConfig, kWeights);
  reader.config(kConstantsConfig, kConstants);
}

}  // namespace refx
