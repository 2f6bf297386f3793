// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <xxhash.h>

#include "graph_json/json.h"
#include "ir/detached.h"
#include "pt2/hash_text.h"
#include "pt2/history_file.h"
#include "pt2/slices.h"
#include "pt2/stored_tensor.h"
#include "pt2/write_steps.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/restore.h"

namespace refx {

namespace {

class HistoryWriter {
 public:
  HistoryWriter(Image& image, const Model& model, const Pt2Source& source)
      : image_(image),
        model_(model),
        source_(source),
        origin_(model),
        slices_(find_slices(model)) {}

  void write() {
    const std::string fits =
        program_fingerprint(image_.find(kModelRecord)->memory, image_.find(kWeightsConfig)->memory,
                            image_.find(kConstantsConfig)->memory);
    const std::string records = original_records();
    const StepWriter writer(model_, origin_,
                            [this](const at::TensorBase& tensor) { return this->tensor(tensor); });
    std::string steps;
    if (const Record* old = source_.archive->find(kHistory)) steps.reserve(old->size);
    writer.append_steps(steps);
    const std::string places = writer.places();
    std::string out;
    JsonList root(out, '{', '}');
    root.key("format") += detached_.empty() ? "1" : "2";
    append_json(root.key("fits"), fits);
    root.key("next_step") += std::to_string(Restorer::next_step(model_));
    if (!fingerprint_.empty()) append_json(root.key("original"), fingerprint_);
    root.key("records") += records;
    list(root.key("storages"), storages_);
    list(root.key("tensors"), tensors_);
    root.key("places") += places;
    out.reserve(out.size() + steps.size() + 16);
    root.key("steps") += steps;
    root.close();
    image_.add(std::string(kHistory), std::move(out));
  }

 private:
  static void list(std::string& out, const std::vector<std::string>& items) {
    JsonList list(out, '[', ']');
    for (const std::string& item : items) list.next() += item;
  }

  // ---- tensors
  // ------------------------------------------------------------------------------------

  std::size_t storage(const at::TensorBase& tensor) {
    const void* key = key_of_storage(tensor);
    if (auto it = storage_index_.find(key); it != storage_index_.end()) return it->second;
    std::string text;
    if (std::string record = image_.record_of(tensor); !record.empty()) {
      text = fmt::format("{{\"record\": {}}}", json_quoted(record));
    } else if (auto it = original_storage_.find(key); it != original_storage_.end()) {
      text = fmt::format("{{\"original\": {}}}", json_quoted(it->second));
    } else if (auto slice = slices_.find(key); slice != slices_.end()) {
      text = slice_text(slice->second);
    } else {
      const std::string name = fmt::format("refx/tensors/{}", kept_++);
      text = fmt::format("{{\"record\": {}}}", json_quoted(image_.keep(tensor, name)));
    }
    storages_.push_back(std::move(text));
    return storage_index_[key] = storages_.size() - 1;
  }

  std::string slice_text(const StorageSlice& slice) {
    const std::size_t whole = this->tensor(slice.whole);
    return fmt::format(
        "{{\"whole\": {}, \"dim\": {}, \"start\": {}, \"length\": {}, \"bytes\": {}, \"hash\": "
        "\"{}\"}}",
        whole, slice.piece.dim, slice.piece.start, slice.piece.length, slice.size,
        hash_text(slice.hash));
  }

  static std::string detached_text(const Detached& detached) {
    return fmt::format("{{\"name\": {}, \"dtype\": {}, \"bytes\": {}, \"hash\": \"{}\"}}",
                       json_quoted(detached.name()), static_cast<int>(detached.dtype()),
                       detached.size(), hash_text(detached.hash()));
  }

  std::size_t tensor(const at::TensorBase& tensor) {
    auto [it, is_new] = tensor_index_.try_emplace(tensor.unsafeGetTensorImpl());
    if (!is_new) return it->second;
    const std::size_t in = storage(tensor);
    std::string text = fmt::format("{{\"storage\": {}, \"meta\": ", in);
    append_stored_meta(text, tensor);
    tensors_.push_back(text + "}");
    return tensor_index_[tensor.unsafeGetTensorImpl()] = tensors_.size() - 1;
  }

  // ---- the original
  // -------------------------------------------------------------------------------

  std::string original_records() {
    std::vector<std::string> records;
    if (was_original(model_, origin_, source_)) {
      map_original_storages([&](std::size_t id) { return source_.state[id].record; });
      for (const auto& original : source_.records)
        records.push_back(original_record(original.record.name, original.blob, &original));
      const auto skeleton = source_.original_skeleton();
      if (skeleton) {
        image_.add("refx/skeleton", *skeleton);
        fingerprint_ =
            source_.whole ? source_.fingerprint_of_original() : source_.noted_fingerprint;
      }
    } else {
      auto image = std::make_unique<Image>(original_of(model_), source_);
      map_original_storages(
          [&](std::size_t id) { return image->record_of(origin_.state[id]->tensor); });
      for (const Image::Item& item : image->items())
        records.push_back(original_record(item.name, item.blob, nullptr));
      image_.adopt(std::move(image));  // records of it are now ours
    }
    std::string out;
    list(out, records);
    return out;
  }

  template <class F>
  void map_original_storages(F&& record_of) {
    for (std::size_t id = 0; id < origin_.state.size(); ++id) {
      if (!origin_.state[id] || origin_.state[id]->tensor.is_meta()) continue;
      const at::TensorBase& tensor = origin_.state[id]->tensor;
      const auto& [key, name] =
          *original_storage_.try_emplace(key_of_storage(tensor), record_of(id)).first;
      if (const Detached* detached = detached_in(tensor)) detached_[name] = detached;
    }
    for (const auto& [key, name] : original_storage_) storage_of_record_[name] = key;
  }

  std::string original_record(const std::string& name, const Blob& blob,
                              const Pt2Source::OriginalRecord* original) {
    std::string where;
    const auto detached = detached_.find(name);
    const Blob* now = image_.find(name);
    auto storage = storage_of_record_.find(name);
    auto slice =
        storage == storage_of_record_.end() ? slices_.end() : slices_.find(storage->second);
    Blob bytes = blob;
    if (original && original->content && detached == detached_.end() &&
        (now || slice == slices_.end())) {
      original->content->require();
      bytes = Blob{.memory = {static_cast<const char*>(original->content->data()),
                              original->content->size()},
                   .archive = nullptr};
    }
    if (detached != detached_.end()) {
      where = "\"detached\": " + detached_text(*detached->second);
    } else if (now && surely_same(*now, bytes)) {
      where = fmt::format("\"record\": {}", json_quoted(name));
    } else if (slice != slices_.end()) {
      storages_.push_back(slice_text(slice->second));
      where = fmt::format("\"storage\": {}", storages_.size() - 1);
    } else {
      std::string kept = "refx/original/" + name;
      image_.add(kept, bytes);
      where = fmt::format("\"record\": {}", json_quoted(kept));
    }
    if (!original) return fmt::format("{{\"name\": {}, {}}}", json_quoted(name), where);
    const Record& record = original->record;
    return fmt::format("{{\"name\": {}, {}, \"offset\": {}, \"size\": {}, \"crc\": {}}}",
                       json_quoted(name), where, record.offset, record.size, record.crc);
  }

  Image& image_;
  const Model& model_;
  const Pt2Source& source_;
  Origin origin_;
  Slices slices_;
  std::unordered_map<const void*, std::string> original_storage_;
  std::unordered_map<std::string, const void*> storage_of_record_;
  std::unordered_map<std::string, const Detached*> detached_;  // by record
  std::unordered_map<const void*, std::size_t> storage_index_, tensor_index_;
  std::vector<std::string> storages_, tensors_;
  std::size_t kept_ = 0;
  std::string fingerprint_;  // of the original's file, if it is kept
};

}  // namespace

std::string program_fingerprint(std::string_view model, std::string_view weights,
                                std::string_view constants) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (std::string_view text : {model, weights, constants}) {
    const std::uint64_t size = text.size();
    XXH3_64bits_update(state, &size, sizeof size);
    XXH3_64bits_update(state, text.data(), text.size());
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}", hash);
}

void add_history(Image& image, const Model& model, const Pt2Source& source) {
  HistoryWriter(image, model, source).write();
}

}  // namespace refx
