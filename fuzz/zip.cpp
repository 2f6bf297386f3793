// SPDX-License-Identifier: Apache-2.0

// Archives: an archive that refx opens has no other bytes, and other readers see the same records.

#include <caffe2/serialize/in_memory_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <zip.h>

#include <map>

#include "archive/archive.h"
#include "archive/writer.h"
#include "refx/error.h"
#include "scratch.h"
#include "target.h"

namespace refx::fuzz {

namespace {

using Records = std::map<std::string, std::string>;  // by name, without the root folder

// Records + skeleton = file.
void check_parts(const std::shared_ptr<const Archive>& archive, std::string_view bytes) {
  std::vector<Blob> data;
  for (const Record& record : archive->records())
    data.push_back({.memory = bytes.substr(record.offset, record.size)});
  const std::string again = scratch() / "again.pt2";
  try {
    write_from_skeleton(again, archive->skeleton(), archive->records(), data);
  } catch (const Error&) {
    return;  // a CRC that is wrong
  }
  REFX_EXPECT(read_file(again) == bytes, "the records and the skeleton are not the file");
}

// The records as miniz reads them; torch uses miniz.
void compare_with_torch(const Records& ours, std::string_view bytes) {
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader;
  try {
    reader = std::make_unique<caffe2::serialize::PyTorchStreamReader>(
        std::make_shared<caffe2::serialize::MemoryReadAdapter>(bytes.data(),
                                                               static_cast<off_t>(bytes.size())));
  } catch (const std::exception&) {
    return;  // torch opens less than we do
  }
  for (const std::string& name : reader->getAllRecords()) {
    if (name.ends_with('/')) continue;
    REFX_EXPECT(ours.count(name), "torch sees a record that refx does not: " + name);
  }
  for (const auto& [name, content] : ours) {
    try {
      const auto [data, size] = reader->getRecord(name);
      const std::string_view theirs(static_cast<const char*>(data.get()), size);
      REFX_EXPECT(theirs == content, "torch reads other bytes in " + name);
    } catch (const c10::Error&) {  // torch reads less than we do
    }
  }
}

void compare_with_libzip(const Records& ours, const std::string& root, std::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!archive) {
    zip_source_free(source);
    return;
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &stat) != 0) continue;
    const std::string full = stat.name;
    if (full.ends_with('/')) continue;
    const bool inside = full.starts_with(root + "/");
    const auto found = ours.find(inside ? full.substr(root.size() + 1) : full);
    if (found == ours.end()) continue;  // its content is damaged: refx does not read it
    std::string theirs(stat.size, '\0');
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    if (!file) continue;
    if (zip_fread(file, theirs.data(), theirs.size()) == static_cast<zip_int64_t>(theirs.size()))
      REFX_EXPECT(theirs == found->second, "libzip reads other bytes in " + full);
    zip_fclose(file);
  }
  zip_discard(archive);
}

}  // namespace

void run_zip(std::string_view bytes) {
  const auto archive = Archive::open(put("in.pt2", bytes));
  Records readable, all;
  for (const Record& record : archive->records()) {
    all.emplace(record.name, bytes.substr(record.offset, record.size));
    try {
      readable.emplace(record.name, archive->read(record));
    } catch (const Error&) {
    }
  }
  REFX_EXPECT(all.size() == archive->records().size(), "two records have one name");
  check_parts(archive, bytes);
  compare_with_torch(all, bytes);
  compare_with_libzip(readable, archive->root(), bytes);
}

}  // namespace refx::fuzz
