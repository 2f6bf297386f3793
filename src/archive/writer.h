// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"

namespace refx {

// Bytes that go into an archive: memory, or a record of another archive, which is copied from file
// to file without being mapped, and checked on the way.
struct Blob {
  std::string_view memory = {};
  std::shared_ptr<const Archive> archive = nullptr;  // if set: its `record`
  const Record* record = nullptr;

  std::uint64_t size() const { return record ? record->size : memory.size(); }
};

// Writes an archive as torch.export.save does (stored, aligned to 64 bytes), to a temporary file
// that takes the place of `path` in finish(). Until then, and after any failure, whatever was at
// `path` is untouched and no other file is left behind. Throws Error, but not from its destructor.
class ArchiveWriter {
 public:
  ArchiveWriter(const std::string& path, std::string root);
  ~ArchiveWriter();

  void add(std::string_view name, const Blob& blob);  // without the root folder
  // The hash that PyTorch keeps of the records, then directory, sync and rename.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A file from its skeleton (see Archive::skeleton) and the data of its records in order, with the
// same promises. `records` holds the names, offsets, sizes and CRCs that the file has: what was
// written is read again, and what differs is an Error.
void write_from_skeleton(const std::string& path, std::string_view skeleton,
                         const std::vector<Record>& records, const std::vector<Blob>& data);

}  // namespace refx
