#include "pt2/source.h"

#include <fmt/format.h>

#include "ir/content.h"
#include "refx/error.h"
#include "util/fingerprint.h"

namespace refx {

const Pt2Source::OriginalRecord* Pt2Source::original(std::string_view name) const {
  auto it = record_index.find(std::string(name));
  return it == record_index.end() ? nullptr : &records[it->second];
}

c10::Storage Pt2Source::storage_of_original(std::string_view name) const {
  const OriginalRecord* found = original(name);
  REFX_CHECK(found, fmt::format("no record '{}'", name));
  return found->content ? storages->of_content(found->content)
                        : storages->of_record(*found->blob.record);
}

std::string_view Pt2Source::text(std::string_view record) const {
  const OriginalRecord* found = original(record);
  if (!found || !found->blob.record)
    throw Error(fmt::format("{}: there is no record '{}'; the file is not from torch.export.save",
                            archive->path(), record));
  return archive->read(*found->blob.record);
}

std::string Pt2Source::place_of(std::string_view record) const {
  const OriginalRecord* found = original(record);
  return found && found->blob.record ? found->blob.record->name : std::string(record);
}

std::optional<std::string> Pt2Source::original_skeleton() const {
  if (whole) return archive->skeleton();
  if (skeleton) return std::string(archive->read(*skeleton));
  return std::nullopt;
}

std::string Pt2Source::fingerprint_of_original() const {
  const auto skeleton = original_skeleton();
  REFX_CHECK(skeleton, "the original is not kept");
  std::string text = *skeleton;
  for (const auto& [record, blob, content] : records)
    text += fmt::format("{}:{} {} {} {};", record.name.size(), record.name, record.offset,
                        record.size, record.crc);
  return fingerprint(text);
}

std::string_view Pt2Source::sample_inputs() const {
  return original(kSampleInputs) ? text(kSampleInputs) : std::string_view();
}

bool is_untouched(const StateEntry& entry) { return version_of(entry.tensor) == 0; }

bool is_original(const Model& model, const Pt2Source& source) {
  if (!model.history().empty() || model.mutations() != source.mutations) return false;
  auto same = [](const auto& table, const auto& texts, auto pointer) {
    if (table.size() != texts.size()) return false;
    for (auto id : table)
      if (id.value >= texts.size() || table.pointer(id) != texts[id.value].*pointer) return false;
    return true;
  };
  if (!same(model.graph(), source.nodes, &Pt2Source::NodeText::node) ||
      !same(model.state(), source.state, &Pt2Source::StateText::entry))
    return false;
  for (StateId id : model.state())
    if (!is_untouched(model.state()[id])) return false;
  return true;
}

}  // namespace refx
