// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "archive/archive.h"
#include "refx/edit.h"

namespace refx {

class Content;

// The memory behind records of a file: one storage for each, however many tensors are in it.
class Storages {
 public:
  explicit Storages(std::shared_ptr<const Archive> archive) : archive_(std::move(archive)) {}

  c10::Storage of_record(const Record& record);  // of the archive
  // The same bytes in memory of their own: what is written to the other is not seen here.
  c10::Storage unshared(const Record& record);
  c10::Storage of_content(const std::shared_ptr<Content>& content);
  // The same bytes on this device, copied there once; the storage itself if it is there already.
  c10::Storage on(c10::Device device, const c10::Storage& storage);
  // The record that the storage was made of; null for any other memory.
  const Record* record_of(const c10::Storage& storage) const;

 private:
  std::shared_ptr<const Archive> archive_;
  std::unordered_map<std::string, c10::Storage> of_record_, unshared_;
  std::unordered_map<const Content*, c10::Storage> of_content_;
  std::unordered_map<const void*, const Record*> records_;
  std::map<std::pair<const void*, int>, c10::Storage> moved_;  // by the index of the device
};

// The bytes of a part of another tensor, dense; made when they are first needed.
// They must have this hash (see content_hash), or Error says that `name` was changed since.
std::shared_ptr<Content> slice_content(at::TensorBase whole, const Piece& piece, std::size_t size,
                                       std::array<std::uint64_t, 2> hash, std::string name);

}  // namespace refx
