// SPDX-License-Identifier: Apache-2.0

#include "pt2/source.h"

#include <fmt/format.h>

#include <algorithm>

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

namespace {

template <class T>
std::vector<const T*> values_of(const Table<T>& table) {
  std::vector<const T*> values(table.id_limit());
  for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = table.find(Id<T>(i));
  return values;
}

template <class T, class Text>
bool are_those(const std::vector<const T*>& values, const std::vector<Text>& texts,
               std::shared_ptr<const T> Text::*value) {
  for (std::size_t i = 0; i < std::max(values.size(), texts.size()); ++i)
    if ((i < values.size() ? values[i] : nullptr) !=
        (i < texts.size() ? (texts[i].*value).get() : nullptr))
      return false;
  return true;
}

}  // namespace

Origin::Origin(const Model& model)
    : nodes(values_of(model.graph())), state(values_of(model.state())) {
  // Of the steps that wrote an object the first says what it was.
  const std::vector<StepId> steps = model.history().ids();
  for (auto id = steps.rbegin(); id != steps.rend(); ++id)
    for (const Edit& edit : model.history()[*id].edits) {
      if (const auto* node = std::get_if<Change<Node>>(&edit))
        nodes.at(node->id.value) = node->before.get();
      else if (const auto* entry = std::get_if<Change<StateEntry>>(&edit))
        state.at(entry->id.value) = entry->before.get();
    }
}

bool was_original(const Model& model, const Origin& origin, const Pt2Source& source) {
  return model.mutations() == source.mutations &&
         are_those(origin.nodes, source.nodes, &Pt2Source::NodeText::node) &&
         are_those(origin.state, source.state, &Pt2Source::StateText::entry) &&
         std::all_of(origin.state.begin(), origin.state.end(),
                     [](const StateEntry* entry) { return !entry || is_untouched(*entry); });
}

bool is_original(const Model& model, const Pt2Source& source) {
  return model.history().empty() && was_original(model, Origin(model), source);
}

}  // namespace refx
