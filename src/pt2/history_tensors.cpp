// SPDX-License-Identifier: Apache-2.0

#include "pt2/history_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/detached.h"
#include "ir/devices.h"
#include "ir/piece.h"
#include "pt2/hash_text.h"
#include "pt2/history_file.h"
#include "pt2/stored_tensor.h"
#include "pt2/value_json.h"
#include "util/limits.h"

namespace refx {

namespace {

std::uint64_t bytes_of(const Piece& piece, const at::TensorBase& whole) {
  const auto size = static_cast<std::uint64_t>(whole.size(piece.dim));
  return size == 0 ? 0 : whole.nbytes() / size * static_cast<std::uint64_t>(piece.length);
}

void check(const TensorMeta& meta, std::uint64_t bytes) {
  if (meta.type.layout != c10::kStrided || meta.type.sizes.size() > limits::kDims)
    throw Error("a tensor of the history is not one that refx keeps");
  if (const std::string why = why_outside(meta, bytes); !why.empty()) throw Error(why);
  // An expanded tensor repeats elements, so that few bytes can describe a tensor of any size. A
  // transformation or a comparison that makes it contiguous would then fill the memory.
  std::uint64_t stands_for = c10::elementSize(meta.type.dtype);
  for (const Dim& size : meta.type.sizes)
    if (__builtin_mul_overflow(stands_for, static_cast<std::uint64_t>(size.value), &stands_for))
      stands_for = std::numeric_limits<std::uint64_t>::max();
  if (stands_for > std::max(bytes, limits::kExpandedBytes))
    throw Error("a tensor of the history repeats its elements too often");
}

}  // namespace

HistoryTensors::HistoryTensors(const Pt2Source& source, const HistoryJson& json)
    : source_(source), archive_(*source.archive), json_(json) {
  for (const Record& record : archive_.records()) stored_ += record.size;
}

at::TensorBase HistoryTensors::tensor(std::uint64_t index) {
  const TensorMeta& meta = this->meta(index);
  // Steps that name the same tensor get the same object, as in the process that saved them.
  at::TensorBase& tensor = made_tensors_[index];
  if (tensor.defined()) return tensor;
  const c10::Storage storage = this->storage(get_in<std::uint64_t>(json_.tensor(index), "storage"));
  check(meta, storage.nbytes());
  if (!has_device(meta.type.device))
    throw Error(
        fmt::format("tensors of its history are on {}, which is not here", meta.type.device.str()));
  return tensor = tensor_in(source_.storages->on(meta.type.device, storage), meta);
}

c10::Storage HistoryTensors::storage(std::uint64_t index) {
  const dom::element& item = json_.storage(index);
  c10::Storage& storage = made_storages_[index];
  if (storage) return storage;
  if (const auto name = find_in<std::string_view>(item, "record")) {
    storage = source_.storages->of_record(archive_.at(*name));
  } else if (const auto original = find_in<std::string_view>(item, "original")) {
    if (!source_.original(*original))
      throw Error(fmt::format("there was no record '{}' in the original", *original));
    storage = source_.storage_of_original(*original);
  } else {
    storage = storage_of(slice(index));
  }
  return storage;
}

std::shared_ptr<Content> HistoryTensors::detached(const dom::element& item) {
  if (json_.format() < 2) throw Error("detached tensors are of format 2");
  const auto bytes = get_in<std::uint64_t>(item, "bytes");
  // Written so that the sum cannot overflow.
  if (bytes == 0 || bytes > limits::kDetachedBytes - detached_)
    throw Error(fmt::format("a tensor of {} bytes was not detached", bytes));
  detached_ += bytes;
  return std::make_shared<Detached>(text_in(item, "name"),
                                    read_dtype(get_in<dom::element>(item, "dtype")), bytes,
                                    read_hash(text_in(item, "hash")));
}

// The tensor that contains the slice may itself be stored as a slice, when a merged weight was
// merged again.
std::shared_ptr<Content> HistoryTensors::slice(std::uint64_t index, int depth) {
  if (depth > limits::kNesting) throw Error("slices are nested too deeply");
  const dom::element& item = json_.storage(index);
  Piece piece;
  piece.dim = get_in<std::int64_t>(item, "dim");
  piece.start = get_in<std::int64_t>(item, "start");
  piece.length = get_in<std::int64_t>(item, "length");
  const auto bytes = get_in<std::uint64_t>(item, "bytes");
  const auto number = get_in<std::uint64_t>(item, "whole");
  const TensorMeta& meta = this->meta(number);
  const auto of = get_in<std::uint64_t>(json_.tensor(number), "storage");
  const auto name = find_in<std::string_view>(json_.storage(of), "record");
  const c10::Storage storage =
      name ? source_.storages->unshared(archive_.at(*name)) : storage_of(slice(of, depth + 1));
  check(meta, storage.nbytes());
  at::TensorBase tensor = tensor_in(storage, meta);
  if (tensor.nbytes() > storage.nbytes() || !is_inside(piece, tensor) ||
      bytes_of(piece, tensor) != bytes)
    throw Error(fmt::format("storages[{}] is not inside its tensor", index));
  // Each slice is copied when it is needed. Without a limit, a small file with many slices of one
  // tensor could fill the memory.
  if ((sliced_ += bytes) > stored_ * limits::kSlicesOfFile)
    throw Error("its slices are many times the size of the file");
  return slice_content(std::move(tensor), piece, bytes, read_hash(text_in(item, "hash")),
                       std::string(name.value_or(kHistory)));
}

// Parses the metadata of a tensor with the reader for the other tensors of the file, which needs
// its own document. Many weights have equal metadata, which is parsed once.
const TensorMeta& HistoryTensors::meta(std::uint64_t index) {
  const dom::element& item = json_.tensor(index);
  std::string text = simdjson::minify(get_in<dom::element>(item, "meta"));
  if (const auto known = metas_.find(text); known != metas_.end()) return known->second;
  const simdjson::padded_string padded(text);
  JsonDocument document(archive_.path(), kHistory, std::string_view(padded));
  Symbols symbols;
  TensorMeta meta;
  document.read([&](ondemand::object& root) { meta = read_tensor_meta(document, root, symbols); });
  return metas_.emplace(std::move(text), std::move(meta)).first->second;
}

}  // namespace refx
