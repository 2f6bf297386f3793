// SPDX-License-Identifier: Apache-2.0
#pragma once

// archive/: zip archives as PyTorch writes them. Read by mapping, checked, written whole or not at
// all.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

class Content;

// One stored file of an archive. Its name is without the archive's root folder.
struct Record {
  std::string name;
  std::uint64_t offset = 0;  // of its data in the file
  std::uint64_t size = 0;
  std::uint32_t crc = 0;

  bool operator==(const Record&) const = default;
};

// A zip as PyTorch writes them: everything stored, under one root folder. The file is mapped; its
// structure is checked on opening, the contents of a record when they are first used.
class Archive : public std::enable_shared_from_this<Archive> {
 public:
  // Throws Error that names the file and what is wrong with it.
  static std::shared_ptr<const Archive> open(const std::string& path);
  // A file that is open already, under whatever name; `path` is for messages.
  static std::shared_ptr<const Archive> open(const std::string& path, int descriptor);
  ~Archive();

  const std::string& path() const { return path_; }
  const std::string& root() const { return root_; }  // "bert" of "bert/models/model.json"
  const std::vector<Record>& records() const { return records_; }  // in the order of their data
  const Record* find(std::string_view name) const;                 // null if there is none
  const Record& at(std::string_view name) const;  // throws Error that names the missing record

  // The bytes of a record, checked against its CRC. They live as long as the archive, and at least
  // 64 bytes after them can be read.
  std::string_view read(const Record& record) const;

  // Bytes of a record from `from` on, as many as are to be had at once and at least one, past the
  // mapping: of a mapped page that was read, the memory would count as ours. Not checked.
  std::size_t read_part(const Record& record, std::uint64_t from, char* to, std::size_t most) const;

  // All of it as a copy, which is what is checked: nobody can change it afterwards.
  void copy(const Record& record, char* to) const;

  // The record's bytes as memory for a tensor: private to it (a write never reaches the file),
  // shared by all calls with one record and `copy`, and checked when they are first required.
  // `copy` 0 and 1 do not see each other's writes.
  std::shared_ptr<Content> map(const Record& record, int copy = 0) const;

  // All bytes of the file that are not a record's data, in order: headers, padding, directory.
  // Together with the records' data they are the file.
  std::string skeleton() const;

  // Throws Error if the file was written into since it was opened: what was checked need not be
  // what was used. A file that was replaced or removed is still there for us, unchanged.
  void require_unchanged() const;

 private:
  struct Impl;
  class MappedRecord;

  Archive();
  void read_structure();
  void index_names();
  std::size_t index_of(const Record& record) const;
  void check(const Record& record, std::uint32_t crc) const;
  template <class F>
  void check_once(std::size_t index, F&& crc) const;
  void check_file(std::size_t index) const;  // past the mapping

  std::string path_, root_;
  std::vector<Record> records_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refx
