// SPDX-License-Identifier: Apache-2.0

#include "archive/writer.h"

#include <c10/util/hash.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "archive/output_file.h"
#include "archive/zip_format.h"
#include "refx/error.h"

namespace refx {

namespace {

using zip::store;

constexpr std::uint64_t kAlignment = 64;
constexpr std::string_view kIdName = ".data/serialization_id";

template <typename Int>
Int capped(std::uint64_t value) {
  return static_cast<Int>(std::min<std::uint64_t>(value, static_cast<Int>(-1)));
}

// The 64-bit values that do not fit into their 32-bit fields; empty if all do.
std::string sizes64(std::uint64_t size, std::uint64_t packed, std::uint64_t header) {
  std::string values;
  if (size >= zip::kMax32) {
    store(values, size);
    store(values, packed);
  }
  if (header >= zip::kMax32) store(values, header);
  if (values.empty()) return values;
  std::string out;
  store(out, zip::kSizes64);
  store(out, static_cast<std::uint16_t>(values.size()));
  return out + values;
}

// An extra field that moves the data, which follow it at `position` + 4 bytes, to the next
// boundary.
std::string padding(std::uint64_t position) {
  const std::uint64_t start = position + 4;
  const auto size = static_cast<std::uint16_t>((kAlignment - start % kAlignment) % kAlignment);
  std::string out = "FB";
  store(out, size);
  return out + std::string(size, 'Z');
}

}  // namespace

struct ArchiveWriter::Impl {
  Output out;
  std::string path, root;
  std::string directory;
  std::uint64_t entries = 0;
  // PyTorch's id depends on the order in which this very container walks the names.
  std::unordered_set<std::string> names;
  std::uint64_t combined_crc = 0;
  bool whole = true;  // no call failed half-way, none is to follow the last

  Impl(const std::string& path, std::string root) : out(path), path(path), root(std::move(root)) {}

  void add(std::string_view name, const Blob& blob);
  void add_descriptor(std::uint32_t crc, std::uint64_t size, bool wide);
  void add_entry(const std::string& full_name, std::uint16_t flags, std::uint32_t crc,
                 std::uint64_t size, std::uint64_t header);
  void add_id();
  void add_end();
};

ArchiveWriter::ArchiveWriter(const std::string& path, std::string root) {
  if (zip::name_fault(root).size() || root.find('/') != std::string::npos)
    throw Error(
        fmt::format("cannot write {}: '{}' cannot name an archive's root folder", path, root));
  impl_ = std::make_unique<Impl>(path, std::move(root));
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::add(std::string_view name, const Blob& blob) {
  REFX_CHECK(impl_->whole, "archive writer used after its end");
  impl_->whole = false;
  impl_->add(name, blob);
  impl_->whole = true;
}

void ArchiveWriter::finish() {
  REFX_CHECK(impl_->whole, "archive writer used after its end");
  impl_->whole = false;
  if (!impl_->names.contains(std::string(kIdName))) impl_->add_id();
  impl_->add_end();
  impl_->out.commit();
}

void ArchiveWriter::Impl::add(std::string_view name, const Blob& blob) {
  const std::string full_name = fmt::format("{}/{}", root, name);
  if (const auto fault = zip::name_fault(full_name); !fault.empty())
    throw Error(fmt::format("cannot write {}: record '{}': {}", path, name, fault));
  if (!names.emplace(name).second)
    throw Error(fmt::format("cannot write {}: record '{}' is added twice", path, name));

  const std::uint64_t header = out.position();
  const std::uint64_t size = blob.size();
  const std::uint16_t flags = size == 0 ? zip::kUtf8 : zip::kUtf8 | zip::kHasDescriptor;
  const std::string wide = sizes64(size, 0, header);  // torch does not know the packed size yet
  const std::string pad = padding(header + zip::kLocalHeaderSize + full_name.size() + wide.size());

  std::string bytes;
  store(bytes, zip::kLocalHeader);
  store<std::uint16_t>(bytes, 0);  // version needed
  store(bytes, flags);
  bytes.append(18, '\0');  // method, time, date, and what the descriptor holds: CRC, sizes
  store(bytes, static_cast<std::uint16_t>(full_name.size()));
  store(bytes, static_cast<std::uint16_t>(wide.size() + pad.size()));
  out.write(bytes + full_name + wide + pad);

  const std::uint32_t crc = out.write(blob);
  if (size != 0) add_descriptor(crc, size, !wide.empty());
  add_entry(full_name, flags, crc, size, header);
}

void ArchiveWriter::Impl::add_descriptor(std::uint32_t crc, std::uint64_t size, bool wide) {
  std::string bytes;
  store(bytes, zip::kDescriptor);
  store(bytes, crc);
  for (int i = 0; i < 2; ++i) {  // packed and not
    if (wide)
      store(bytes, size);
    else
      store(bytes, static_cast<std::uint32_t>(size));
  }
  out.write(bytes);
  combined_crc = c10::hash_combine(combined_crc, crc);
}

void ArchiveWriter::Impl::add_entry(const std::string& full_name, std::uint16_t flags,
                                    std::uint32_t crc, std::uint64_t size, std::uint64_t header) {
  const std::string wide = sizes64(size, size, header);
  store(directory, zip::kEntry);
  store<std::uint32_t>(directory, 0);  // versions made by and needed
  store(directory, flags);
  directory.append(6, '\0');  // method, time, date
  store(directory, crc);
  store(directory, capped<std::uint32_t>(size));
  store(directory, capped<std::uint32_t>(size));
  store(directory, static_cast<std::uint16_t>(full_name.size()));
  store(directory, static_cast<std::uint16_t>(wide.size()));
  directory.append(10, '\0');  // comment, part, attributes
  store(directory, capped<std::uint32_t>(header));
  directory += full_name + wide;
  ++entries;
}

void ArchiveWriter::Impl::add_id() {
  std::uint64_t combined_names = 0;
  for (const std::string& name : names)
    combined_names = c10::hash_combine(combined_names, std::hash<std::string>()(name));
  const std::string id = fmt::format("{:020}{:020}", combined_names, combined_crc);
  add(kIdName, {.memory = id});
}

void ArchiveWriter::Impl::add_end() {
  const std::uint64_t begin = out.position();
  const std::uint64_t size = directory.size();
  std::string& bytes = directory;
  store(bytes, zip::kEnd64);
  store<std::uint64_t>(bytes, zip::kEnd64Size - 12);
  store<std::uint16_t>(bytes, 0x031e);  // made by
  store<std::uint16_t>(bytes, 45);      // version needed
  bytes.append(8, '\0');                // parts
  store(bytes, entries);
  store(bytes, entries);
  store(bytes, size);
  store(bytes, begin);

  store(bytes, zip::kLocator64);
  store<std::uint32_t>(bytes, 0);
  store(bytes, begin + size);
  store<std::uint32_t>(bytes, 1);

  store(bytes, zip::kEnd);
  store<std::uint32_t>(bytes, 0);
  store(bytes, capped<std::uint16_t>(entries));
  store(bytes, capped<std::uint16_t>(entries));
  store(bytes, capped<std::uint32_t>(size));
  store(bytes, capped<std::uint32_t>(begin));
  store<std::uint16_t>(bytes, 0);
  out.write(bytes);
}

}  // namespace refx
