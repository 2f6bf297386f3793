// SPDX-License-Identifier: Apache-2.0

#include "pt2/check_program.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "graph_json/write_graph.h"
#include "ir/content.h"
#include "pt2/image.h"
#include "pt2/read_state.h"
#include "refx/hint.h"

namespace refx {

namespace {

class Checker {
 public:
  Checker(const Pt2Source& source, const Model& model)
      : source_(source), archive_(*source.archive), model_(model) {}

  void check() {
    if (!is_program_text(archive_.read(archive_.at(kModelRecord)), model_, source_))
      differs(kModelRecord);
    config(kWeightsConfig, kWeights);
    config(kConstantsConfig, kConstants);
    if (seen_ != model_.state().size()) differs(kWeightsConfig);
    for (const Record& record : archive_.records()) {
      if (record.name.starts_with("refx/") || is_made(record.name)) continue;
      const auto* original = source_.original(record.name);
      if (!original || original->blob.record != &record) differs(record.name);
    }
    // And the other way round: no record of the original may be missing.
    for (const auto& original : source_.records)
      if (!is_made(original.record.name) && !archive_.find(original.record.name))
        differs(original.record.name);
  }

 private:
  [[noreturn]] void differs(std::string_view record) const {
    throw HintedError(
        fmt::format("{}: record '{}' is not what the steps of its history make of the original: "
                    "PyTorch would see another model than refx; another program has changed it",
                    archive_.path(), record),
        Hint::forget);
  }

  // Records that save() generates. All others are copied from the original, unchanged.
  static bool is_made(std::string_view name) {
    return name.starts_with(kWeights) || name.starts_with(kConstants) || name == kModelRecord ||
           name == kSerializationId;
  }

  void config(std::string_view record, std::string_view folder) {
    JsonDocument document(archive_.path(), record, archive_.read(archive_.at(record)));
    Symbols symbols;
    read_config(document, folder, symbols, [&](const StoredState& stored) {
      if (!is_shown(stored, folder)) differs(record);
      ++seen_;
    });
  }

  bool is_shown(const StoredState& stored, std::string_view folder) {
    const StateId id = model_.state().find(stored.name);
    const Record* record = archive_.find(stored.record);
    if (!id || !record) return false;
    const StateEntry& entry = model_.state()[id];
    const auto* text = id.value < source_.state.size() ? &source_.state[id.value] : nullptr;
    // An entry that no step wrote must have its original text. Comparing pointers suffices, since
    // every write of an entry stores a new object.
    const bool same = text && text->entry == model_.state().pointer(id);
    if (same && text->opaque)
      return stored.config == text->config && stored.record == text->record &&
             source_.original(text->record)->blob.record == record;
    if ((same ? text->record.starts_with(folder)
              : goes_to_weights(entry) == (folder == kWeights)) &&
        holds(*record, entry.tensor))
      return (same && stored.config == text->config) || describes(stored, entry);
    return false;
  }

  static bool describes(const StoredState& stored, const StateEntry& entry) {
    return !stored.pickled && stored.is_param == (entry.kind == StateKind::parameter) &&
           stored.meta && stored.meta->type == *type_of(entry.tensor) &&
           stored.meta->offset == Dim(entry.tensor.storage_offset());
  }

  bool holds(const Record& record, const at::TensorBase& tensor) {
    const c10::Storage& storage = tensor.storage();
    // The tensor is mapped from this record, so that there is nothing to compare.
    if (source_.storages->record_of(storage) == &record) return true;
    if (storage.nbytes() != record.size || !tensor.is_cpu()) return false;
    // Tied tensors share a storage, whose bytes are compared once.
    if (!compared_.emplace(storage.unsafeGetStorageImpl(), &record).second) return true;
    require_content(tensor);
    return record.size == 0 ||
           std::memcmp(storage.data(), archive_.read(record).data(), record.size) == 0;
  }

  const Pt2Source& source_;
  const Archive& archive_;
  const Model& model_;
  std::size_t seen_ = 0;
  std::set<std::pair<const void*, const Record*>> compared_;  // and found to be equal
};

}  // namespace

void check_program_matches_history(const Pt2Source& source, const Model& model) {
  Checker(source, model).check();
}

}  // namespace refx
