// SPDX-License-Identifier: Apache-2.0

#include "pt2/image.h"

#include <fmt/format.h>

#include "graph_json/json.h"
#include "graph_json/write_graph.h"
#include "ir/detached.h"
#include "pt2/stored_tensor.h"
#include "refx/error.h"

namespace refx {

namespace {

const void* storage_key(const at::TensorBase& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::string config_entry(const StateEntry& entry, std::string_view path_name) {
  std::string out;
  JsonList fields(out, '{', '}');
  append_json(fields.key("path_name"), path_name);
  fields.key("is_param") += entry.kind == StateKind::parameter ? "true" : "false";
  fields.key("use_pickle") += "false";
  append_stored_meta(fields.key("tensor_meta"), entry.tensor);
  fields.close();
  return out;
}

}  // namespace

Image::Image(const Model& model, const Pt2Source& source) : source_(source) {
  for (const auto& text : source.state)
    if (!text.opaque && text.entry) original_.emplace(storage_key(text.entry->tensor), text.record);
  for (StateId id : model.state())
    if (const StateEntry& entry = model.state()[id]; !is_untouched(entry))
      written_[storage_key(entry.tensor)] = true;

  put_state(model, true);
  put_state(model, false);
  add(std::string(kModelRecord), program_text(model, source));
  for (const auto& original : source.records) {
    const std::string& name = original.record.name;
    if (name.starts_with(kWeights) || name.starts_with(kConstants) || name == kModelRecord ||
        name == kSerializationId)
      continue;
    add(name, original.blob);
  }
}

const Blob* Image::find(std::string_view name) const {
  auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &items_[it->second].blob;
}

void Image::add(std::string name, std::string text) {
  texts_.push_back(std::move(text));
  add(std::move(name), Blob{.memory = texts_.back(), .archive = nullptr});
}

void Image::add(std::string name, Blob blob) {
  if (!index_.emplace(name, items_.size()).second)
    throw InternalError(fmt::format("record '{}' is written twice", name));
  items_.push_back({std::move(name), std::move(blob)});
}

Blob Image::bytes_of(const at::TensorBase& tensor) {
  const auto* key = storage_key(tensor);
  if (!written_.count(key))
    if (const Record* record = source_.storages->record_of(tensor.storage()))
      return Blob{.memory = {}, .archive = source_.archive, .record = record};
  if (detached_in(tensor)) return {};  // of an original: the history says what it was
  require_content(tensor);
  at::Tensor bytes(tensor);
  if (!tensor.is_cpu()) bytes = at::Tensor(bytes_in(tensor.storage())).cpu();
  tensors_.push_back(bytes);
  const c10::Storage& storage = bytes.storage();
  return Blob{.memory = {static_cast<const char*>(storage.data()), storage.nbytes()},
              .archive = nullptr};
}

std::string Image::record_of(const at::TensorBase& tensor) const {
  auto it = storages_.find(storage_key(tensor));
  return it == storages_.end() ? "" : it->second;
}

std::string Image::keep(const at::TensorBase& tensor, const std::string& name) {
  add(name, bytes_of(tensor));
  storages_.emplace(storage_key(tensor), name);
  return name;
}

void Image::put_state(const Model& model, bool weights) {
  const std::string folder(weights ? kWeights : kConstants);
  std::unordered_map<const void*, std::string> names;  // in this folder
  std::size_t next = 0;
  auto fresh = [&] {
    for (;; ++next) {
      std::string name = fmt::format("{}{}_{}", folder, weights ? "weight" : "tensor", next);
      if (!index_.count(name) && !source_.original(name)) return name;
    }
  };

  std::string config;
  JsonList root(config, '{', '}');
  root.key("config");
  JsonList entries(config, '{', '}');
  for (StateId id : model.state()) {
    const StateEntry& entry = model.state()[id];
    const auto* text = id.value < source_.state.size() ? &source_.state[id.value] : nullptr;
    const bool same = text && text->entry == model.state().pointer(id);
    if ((same ? text->record.starts_with(kWeights) : goes_to_weights(entry)) != weights) continue;
    if (same && text->opaque) {
      if (!index_.count(text->record)) add(text->record, source_.original(text->record)->blob);
      entries.key(entry.name) += text->config;
      continue;
    }
    std::string& record = names[storage_key(entry.tensor)];
    if (record.empty()) {
      auto was = original_.find(storage_key(entry.tensor));
      const bool reuse =
          was != original_.end() && was->second.starts_with(folder) && !index_.count(was->second);
      record = reuse ? was->second : fresh();
      add(record, bytes_of(entry.tensor));
      storages_.emplace(storage_key(entry.tensor), record);
    }
    if (same && record == text->record)
      entries.key(entry.name) += text->config;
    else
      entries.key(entry.name) +=
          config_entry(entry, std::string_view(record).substr(folder.size()));
  }
  entries.close();
  root.close();
  add(std::string(weights ? kWeightsConfig : kConstantsConfig), std::move(config));
}

bool goes_to_weights(const StateEntry& entry) {
  return entry.kind == StateKind::parameter ||
         (entry.kind == StateKind::buffer && entry.persistent);
}

bool surely_same(const Blob& a, const Blob& b) {
  if (a.record || b.record) return a.record == b.record && a.archive == b.archive;
  return a.memory == b.memory;
}

}  // namespace refx
