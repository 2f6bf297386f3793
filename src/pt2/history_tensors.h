// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "graph_json/tensor_meta.h"
#include "ir/content.h"
#include "pt2/history_json.h"
#include "pt2/source.h"

namespace refx {

// Makes the tensors that a history names by number, and the contents of storages that are not
// records of the file. Every index and size is checked before it is used.
class HistoryTensors {
 public:
  HistoryTensors(const Pt2Source& source, const HistoryJson& json);

  // A tensor that a step wrote.
  at::TensorBase tensor(std::uint64_t index);
  // A storage that is a part of a tensor that the file contains.
  std::shared_ptr<Content> slice(std::uint64_t index) { return slice(index, 0); }
  // A storage whose contents are not in the file.
  std::shared_ptr<Content> detached(const dom::element& item);

 private:
  std::shared_ptr<Content> slice(std::uint64_t index, int depth);
  c10::Storage storage(std::uint64_t index);
  const TensorMeta& meta(std::uint64_t index);

  const Pt2Source& source_;
  const Archive& archive_;
  const HistoryJson& json_;
  std::unordered_map<std::string, TensorMeta> metas_;  // by their text
  // By number.
  std::unordered_map<std::uint64_t, at::TensorBase> made_tensors_;
  std::unordered_map<std::uint64_t, c10::Storage> made_storages_;
  std::uint64_t sliced_ = 0, stored_ = 0;  // bytes of all slices so far, and of all records
  std::uint64_t detached_ = 0;             // of all detached tensors so far
};

}  // namespace refx
