// SPDX-License-Identifier: Apache-2.0

#include "archive/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "archive/zip_format.h"
#include "refx/error.h"

namespace refx {

namespace {

using zip::load;

struct Extent {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t entries = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(const std::string& path, std::string_view file) : path_(path), file_(file) {}

  std::vector<DirectoryEntry> read() {
    directory_ = find_directory();
    std::vector<DirectoryEntry> entries;
    entries.reserve(directory_.entries);
    std::uint64_t position = directory_.begin;
    for (std::uint64_t i = 0; i < directory_.entries; ++i) {
      const DirectoryEntry entry = read_entry(position);
      if (!is_folder(entry)) entries.push_back(entry);
    }
    if (position != directory_.end) fail("its directory holds more than its entries");
    check_layout();
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return a.data != b.data ? a.data < b.data : a.header < b.header;
    });
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(
        fmt::format("{}: damaged zip archive ({}); get a fresh copy of the file", path_, what));
  }

  [[noreturn]] void fail_ambiguous(const char* what) const {
    throw Error(
        fmt::format("{}: {}, so that other programs could read another archive in it; "
                    "torch.export.save writes no such files",
                    path_, what));
  }

  [[noreturn]] void fail(std::string_view name, const std::string& what) const {
    throw Error(
        fmt::format("{}: record '{}' cannot be used: {}; was it written by torch.export.save?",
                    path_, printable(name), what));
  }

  [[noreturn]] void fail_no_zip() const {
    const char* seems = "no directory at its end";
    if (file_.empty())
      seems = "it is empty";
    else if (file_.substr(0, 4) == "PK\3\4")
      seems = "it begins like one, but its end is missing: cut off";
    else if (file_[0] == '\x80')
      seems = "it looks like a pickle, as torch.save wrote before version 1.6";
    throw Error(fmt::format("{}: not a zip archive ({}); was it written by torch.export.save?",
                            path_, seems));
  }

  static std::string printable(std::string_view name) {
    std::string out(name.substr(0, 200));
    for (char& c : out)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return out;
  }

  static bool is_folder(const DirectoryEntry& entry) {
    return entry.size == 0 && entry.name.ends_with('/');
  }

  bool has(std::uint64_t position, std::uint64_t size) const {
    return position <= file_.size() && size <= file_.size() - position;
  }

  const char* at(std::uint64_t position) const { return file_.data() + position; }

  bool signature(std::uint64_t position, std::uint64_t size, std::uint32_t expected) const {
    return has(position, size) && load<std::uint32_t>(at(position)) == expected;
  }

  // The end record, the last of the file. Only its comment could come after it.
  std::uint64_t find_end() const {
    if (file_.size() < zip::kEndSize) fail_no_zip();
    const std::uint64_t last = file_.size() - zip::kEndSize;
    const std::uint64_t first = last > zip::kMax16 ? last - zip::kMax16 : 0;
    for (std::uint64_t position = last + 1; position-- > first;)
      if (signature(position, zip::kEndSize, zip::kEnd) &&
          load<std::uint16_t>(at(position + 20)) == last - position) {
        if (position != last) fail_ambiguous("it has a comment");
        return position;
      }
    fail_no_zip();
  }

  Extent find_directory() const {
    const std::uint64_t end = find_end();
    if (load<std::uint16_t>(at(end + 4)) != 0 || load<std::uint16_t>(at(end + 6)) != 0)
      fail("it is one part of several");
    const std::uint64_t entries = load<std::uint16_t>(at(end + 10));
    const std::uint64_t size = load<std::uint32_t>(at(end + 12));
    const std::uint64_t begin = load<std::uint32_t>(at(end + 16));
    if (load<std::uint16_t>(at(end + 8)) != entries) fail("its numbers of entries differ");

    Extent extent{begin, end, entries};
    std::uint64_t stated = size;
    if (end >= zip::kLocator64Size &&
        signature(end - zip::kLocator64Size, zip::kLocator64Size, zip::kLocator64)) {
      extent = find_directory64(end - zip::kLocator64Size, stated);
      const bool same = (entries == zip::kMax16 || entries == extent.entries) &&
                        (size == zip::kMax32 || size == stated) &&
                        (begin == zip::kMax32 || begin == extent.begin);
      if (!same) fail("its two end records differ");
    }
    if (extent.begin > extent.end || extent.end - extent.begin != stated)
      fail("its directory is not where its end record says");
    if (extent.entries > stated / zip::kEntrySize)
      fail(fmt::format("its directory cannot hold {} entries", extent.entries));
    return extent;
  }

  Extent find_directory64(std::uint64_t locator, std::uint64_t& stated) const {
    const std::uint64_t end = load<std::uint64_t>(at(locator + 8));
    if (load<std::uint32_t>(at(locator + 4)) != 0 || load<std::uint32_t>(at(locator + 16)) != 1)
      fail("it is one part of several");
    // The record states its own size, without its first 12 bytes.
    if (end > locator || locator - end != zip::kEnd64Size ||
        !signature(end, zip::kEnd64Size, zip::kEnd64) ||
        load<std::uint64_t>(at(end + 4)) != locator - end - 12)
      fail("its 64-bit end record is not where its locator says");
    if (load<std::uint32_t>(at(end + 16)) != 0 || load<std::uint32_t>(at(end + 20)) != 0)
      fail("it is one part of several");
    const std::uint64_t entries = load<std::uint64_t>(at(end + 32));
    if (load<std::uint64_t>(at(end + 24)) != entries) fail("its numbers of entries differ");
    stated = load<std::uint64_t>(at(end + 40));
    return {load<std::uint64_t>(at(end + 48)), end, entries};
  }

  // The 64-bit values of an entry, for those of `values` that are at their 32-bit maximum, in
  // order.
  void read_sizes64(std::string_view name, std::string_view extra,
                    std::initializer_list<std::uint64_t*> values) const {
    std::string_view wide;
    while (!extra.empty()) {
      if (extra.size() < 4) fail(name, "its extra fields are cut off");
      const auto id = load<std::uint16_t>(extra.data());
      const auto size = load<std::uint16_t>(extra.data() + 2);
      extra.remove_prefix(4);
      if (size > extra.size()) fail(name, "its extra fields are cut off");
      if (id == zip::kSizes64) {
        if (wide.data()) fail(name, "it has its sizes twice");
        wide = extra.substr(0, size);
      }
      extra.remove_prefix(size);
    }
    for (std::uint64_t* value : values) {
      if (*value != zip::kMax32) continue;
      if (!wide.data()) continue;  // just that large: checked against the file like any other
      if (wide.size() < 8) fail(name, "its 64-bit sizes are cut off");
      *value = load<std::uint64_t>(wide.data());
      wide.remove_prefix(8);
    }
  }

  DirectoryEntry read_entry(std::uint64_t& position) {
    if (directory_.end - position < zip::kEntrySize ||
        !signature(position, zip::kEntrySize, zip::kEntry))
      fail("its directory is cut off");
    const char* p = at(position);
    const std::uint64_t name_size = load<std::uint16_t>(p + 28);
    const std::uint64_t extra_size = load<std::uint16_t>(p + 30);
    const std::uint64_t total = zip::kEntrySize + name_size + extra_size;
    if (total > directory_.end - position) fail("its directory is cut off");
    if (load<std::uint16_t>(p + 32) != 0) fail_ambiguous("a record has a comment");
    position += total;

    DirectoryEntry entry;
    entry.name = std::string_view(p + zip::kEntrySize, name_size);
    entry.crc = load<std::uint32_t>(p + 16);
    std::uint64_t packed = load<std::uint32_t>(p + 20);
    entry.size = load<std::uint32_t>(p + 24);
    entry.header = load<std::uint32_t>(p + 42);
    read_sizes64(entry.name, std::string_view(p + zip::kEntrySize + name_size, extra_size),
                 {&entry.size, &packed, &entry.header});
    check_kind(entry.name, load<std::uint16_t>(p + 8), load<std::uint16_t>(p + 10));
    if (packed != entry.size) fail(entry.name, "it is stored, but its two sizes differ");
    if (load<std::uint16_t>(p + 34) != 0) fail(entry.name, "it is in another part");
    std::string_view plain = entry.name;
    if (is_folder(entry))
      plain.remove_suffix(1);
    else if (load<std::uint32_t>(p + 38) & zip::kFolderAttribute)
      fail(entry.name, "it says that it is a folder");  // PyTorch would read nothing of it
    if (const auto fault = zip::name_fault(plain); !fault.empty())
      fail(entry.name, std::string(fault));
    read_header(entry, p);
    entry.has_descriptor = load<std::uint16_t>(p + 8) & zip::kHasDescriptor;
    layout_.push_back(entry);
    return entry;
  }

  void check_kind(std::string_view name, std::uint16_t flags, std::uint16_t method) const {
    if (flags & 0x2041) fail(name, "it is encrypted");
    if (method != 0)
      fail(name, fmt::format("it is compressed (method {}){}", method,
                             name.find("/code/") == name.npos ? "" : ", as in a TorchScript file"));
    constexpr std::uint16_t deflate_options = 6;  // without meaning here
    const unsigned unknown = flags & ~unsigned{zip::kHasDescriptor | zip::kUtf8 | deflate_options};
    if (unknown) fail(name, fmt::format("unknown flags {:#x}", unknown));
  }

  // `listed` is the entry in the directory.
  void read_header(DirectoryEntry& entry, const char* listed) const {
    const auto flags = load<std::uint16_t>(listed + 8);
    const auto outside = [&] { fail(entry.name, "it lies outside of the file's data"); };
    if (entry.header > directory_.begin || directory_.begin - entry.header < zip::kLocalHeaderSize)
      outside();
    const char* p = at(entry.header);
    const std::uint64_t name_size = load<std::uint16_t>(p + 26);
    const std::uint64_t extra_size = load<std::uint16_t>(p + 28);
    const std::uint64_t before = zip::kLocalHeaderSize + name_size + extra_size;
    if (load<std::uint32_t>(p) != zip::kLocalHeader) fail(entry.name, "it has no header");
    const std::uint64_t room = directory_.begin - entry.header;
    if (before > room || entry.size > room - before) outside();
    entry.data = entry.header + before;

    const std::string_view name(p + zip::kLocalHeaderSize, name_size);
    std::uint64_t packed = load<std::uint32_t>(p + 18);
    std::uint64_t size = load<std::uint32_t>(p + 22);
    const auto crc = load<std::uint32_t>(p + 14);
    read_sizes64(entry.name, std::string_view(p + zip::kLocalHeaderSize + name_size, extra_size),
                 {&size, &packed});
    // With a descriptor behind the data, the header before it may leave these open.
    const bool open = (flags & zip::kHasDescriptor) && crc == 0 && size == 0 && packed == 0;
    const bool same = crc == entry.crc && size == entry.size && packed == entry.size;
    // Version, then flags, method, time and date.
    if (name != entry.name || load<std::uint16_t>(p + 4) > load<std::uint16_t>(listed + 6) ||
        load<std::uint64_t>(p + 6) != load<std::uint64_t>(listed + 8) || !(open || same))
      fail(entry.name, "its header and the directory differ");
  }

  // From the first byte to the directory: header, data, descriptor, and nothing between them.
  void check_layout() {
    std::sort(layout_.begin(), layout_.end(),
              [](const auto& a, const auto& b) { return a.header < b.header; });
    std::uint64_t position = 0;  // behind the data of `last`
    const DirectoryEntry* last = nullptr;
    const auto up_to = [&](std::uint64_t next) {
      if (next < position) fail("its records overlap");
      const std::string_view between = file_.substr(position, next - position);
      if (last && last->has_descriptor ? !describes(between, *last) : !between.empty())
        fail_ambiguous("it has bytes outside of its records");
    };
    for (const DirectoryEntry& entry : layout_) {
      up_to(entry.header);
      position = entry.data + entry.size;
      last = &entry;
    }
    up_to(directory_.begin);
  }

  // CRC and the two sizes, in 32 or 64 bits, with or without a signature.
  static bool describes(std::string_view bytes, const DirectoryEntry& entry) {
    if (bytes.size() == 16 || bytes.size() == 24) {
      if (load<std::uint32_t>(bytes.data()) != zip::kDescriptor) return false;
      bytes.remove_prefix(4);
    }
    const char* p = bytes.data();
    if (bytes.size() == 12)
      return load<std::uint32_t>(p) == entry.crc && load<std::uint32_t>(p + 4) == entry.size &&
             load<std::uint32_t>(p + 8) == entry.size;
    return bytes.size() == 20 && load<std::uint32_t>(p) == entry.crc &&
           load<std::uint64_t>(p + 4) == entry.size && load<std::uint64_t>(p + 12) == entry.size;
  }

  const std::string& path_;
  std::string_view file_;
  Extent directory_;
  std::vector<DirectoryEntry> layout_;  // with the folders
};

}  // namespace

std::vector<DirectoryEntry> read_directory(const std::string& path, std::string_view file) {
  return DirectoryReader(path, file).read();
}

}  // namespace refx
