// SPDX-License-Identifier: Apache-2.0

#include "refx/values.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "archive/archive.h"
#include "archive/writer.h"
#include "io/pickle.h"
#include "refx/error.h"
#include "util/regular_file.h"

namespace refx {

namespace {

using c10::IValue;

constexpr const char* kAdvice =
    "refx reads tensors, numbers, strings and None in plain tuples, lists and dicts: write such a "
    "value with torch.save((x, y), path)";

IValue read_archive(const Archive& archive) {
  const Record* pickle = archive.find("data.pkl");
  if (!pickle) throw Error("it is an archive, but has no record 'data.pkl'");
  if (const Record* order = archive.find("byteorder"); order && archive.read(*order) == "big")
    throw Error("it was written by a big-endian machine");
  std::unordered_map<std::string, c10::Storage> storages;
  std::string bytes(pickle->size, '\0');
  archive.copy(*pickle, bytes.data());
  return read_pickle(bytes, [&](const std::string& key) {
    auto it = storages.find(key);
    if (it == storages.end()) {
      const Record& record = archive.at("data/" + key);
      const at::Tensor copy = at::empty({static_cast<std::int64_t>(record.size)}, at::kByte);
      archive.copy(record, static_cast<char*>(copy.data_ptr()));
      it = storages.emplace(key, copy.storage()).first;
    }
    return it->second;
  });
}

void check_format(std::string_view start) {
  if (start.starts_with("PK")) return;
  if (start.starts_with("\x80"))
    throw Error("it is a bare pickle, or in the format of torch.save before 1.6");
  throw Error("it is not what torch.save writes");
}

std::string start_of(const std::string& path) {
  const int file = open_regular(path);
  std::string start(4, '\0');
  const ssize_t n = pread(file, start.data(), start.size(), 0);
  close(file);
  return start.substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
}

// A file that has a path and no name.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("refx", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw Error(fmt::format("cannot create a memory file: {}", std::strerror(errno)));
    while (!bytes.empty()) {
      const ssize_t n = write(descriptor_, bytes.data(), bytes.size());
      if (n <= 0) {
        close(descriptor_);
        throw Error(fmt::format("cannot write a memory file: {}", std::strerror(errno)));
      }
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

IValue read_checked(const std::string& path, const std::string& name) {
  const std::string start = start_of(path);
  try {
    check_format(start);
    return read_archive(*Archive::open(path));
  } catch (const Error& error) {
    std::string what = error.what();
    if (path != name) replace_all(what, path, name);
    if (!what.starts_with(name)) what = name + ": " + what;
    throw Error(what + "; " + kAdvice);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}; {}", name, error.what_without_backtrace(), kAdvice));
  }
}

}  // namespace

IValue read_values(const std::string& path) { return read_checked(path, path); }

IValue parse_values(std::string_view bytes, const std::string& name) {
  const MemoryFile file(bytes);
  return read_checked(file.path(), name);
}

void write_values(const std::string& path, const IValue& value) {
  const Pickle pickle = write_pickle(value);
  ArchiveWriter writer(path, "archive");
  const auto add = [&](const std::string& name, std::string_view bytes) {
    writer.add(name, {.memory = bytes, .archive = nullptr, .record = nullptr});
  };
  add("data.pkl", pickle.bytes);
  add("byteorder", "little");
  for (std::size_t i = 0; i < pickle.tensors.size(); ++i)
    add(fmt::format("data/{}", i),
        {static_cast<const char*>(pickle.tensors[i].const_data_ptr()), pickle.tensors[i].nbytes()});
  add("version", "3\n");
  writer.finish();
}

}  // namespace refx
