// SPDX-License-Identifier: Apache-2.0

#include "archive/archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <numeric>
#include <system_error>
#include <unordered_map>

#include "archive/checksum.h"
#include "archive/directory.h"
#include "archive/mapping.h"
#include "ir/content.h"
#include "refx/error.h"
#include "util/regular_file.h"

namespace refx {

namespace {

constexpr std::uint64_t kReadableAfterData = 64;
constexpr std::size_t kCopies = 2;
constexpr std::size_t kPart = 1 << 18;  // stays in the cache

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// By name, without regard to case: that is how PyTorch looks for a record.
bool before(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return static_cast<unsigned char>(lower(x)) < static_cast<unsigned char>(lower(y));
  });
}

}  // namespace

struct Archive::Impl {
  int descriptor = -1;
  struct stat opened;  // the file then
  std::unique_ptr<Mapping> file;
  std::vector<std::size_t> by_name;  // records in the order of `before`
  std::unique_ptr<std::atomic<bool>[]> checked;

  std::mutex mutex;  // for what follows
  std::array<std::unique_ptr<Mapping>, kCopies> copies;
  std::array<std::unordered_map<std::size_t, std::weak_ptr<Content>>, kCopies> contents;

  ~Impl() {
    if (descriptor >= 0) close(descriptor);
  }

  struct stat status(const std::string& path) const {
    struct stat now;
    if (fstat(descriptor, &now) != 0)
      throw Error(
          fmt::format("{}: cannot be read ({})", path, std::generic_category().message(errno)));
    return now;
  }
};

// A record's bytes in a private mapping of the file, or, where they lie too crooked in it for a
// tensor, in memory of their own.
class Archive::MappedRecord : public Content {
 public:
  static constexpr std::uint64_t kAlignment = 16;

  MappedRecord(std::shared_ptr<const Archive> archive, std::size_t index, char* bytes)
      : archive_(std::move(archive)), index_(index), bytes_(bytes) {
    if (record().offset % kAlignment != 0) own_ = std::make_unique<Mapping>(record().size);
  }

  void* data() const override { return own_ ? own_->data() : bytes_; }
  std::size_t size() const override { return record().size; }

 protected:
  void provide() override {
    // The file's bytes: those of the mapping may have been written to by now.
    if (own_)
      archive_->copy(record(), own_->data());
    else
      archive_->check_file(index_);
  }

  void let_go() override {
    if (!own_) drop_clean_pages(bytes_, size());
  }

 private:
  const Record& record() const { return archive_->records_[index_]; }

  std::shared_ptr<const Archive> archive_;
  std::size_t index_;
  char* bytes_;
  std::unique_ptr<Mapping> own_;
};

Archive::Archive() : impl_(std::make_unique<Impl>()) {}
Archive::~Archive() = default;

std::shared_ptr<const Archive> Archive::open(const std::string& path) {
  const std::shared_ptr<Archive> archive(new Archive());
  archive->path_ = path;
  archive->impl_->descriptor = open_regular(path);
  archive->read_structure();
  return archive;
}

std::shared_ptr<const Archive> Archive::open(const std::string& path, int descriptor) {
  const std::shared_ptr<Archive> archive(new Archive());
  archive->path_ = path;
  archive->impl_->descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  archive->read_structure();
  return archive;
}

void Archive::read_structure() {
  const std::string& path = path_;
  Impl& impl = *impl_;
  impl.opened = impl.status(path);
  const auto size = static_cast<std::uint64_t>(impl.opened.st_size);
  impl.file = std::make_unique<Mapping>(path, impl.descriptor, size, Mapping::Use::kRead);

  const auto entries = read_directory(path, std::string_view(impl.file->data(), size));
  if (entries.empty())
    throw Error(path + ": the zip archive holds no records; was it written by torch.export.save?");

  const std::string_view first = entries.front().name;
  const std::string_view folder = first.substr(0, first.find('/') + 1);
  if (folder.empty())
    throw Error(fmt::format("{}: record '{}' is in no folder; was it written by torch.export.save?",
                            path, first));
  root_ = folder.substr(0, folder.size() - 1);
  records_.reserve(entries.size());
  impl.checked = std::make_unique<std::atomic<bool>[]>(entries.size());
  for (const DirectoryEntry& entry : entries) {
    if (!entry.name.starts_with(folder))
      throw Error(
          fmt::format("{}: record '{}' is not in folder '{}' like the others; was it written by "
                      "torch.export.save?",
                      path, entry.name, root_));
    REFX_CHECK(size - entry.data - entry.size >= kReadableAfterData, "a directory this short");
    records_.push_back(
        {std::string(entry.name.substr(folder.size())), entry.data, entry.size, entry.crc});
  }
  index_names();
}

void Archive::index_names() {
  auto& index = impl_->by_name;
  index.resize(records_.size());
  std::iota(index.begin(), index.end(), std::size_t{0});
  std::sort(index.begin(), index.end(), [&](std::size_t a, std::size_t b) {
    return before(records_[a].name, records_[b].name);
  });
  for (std::size_t i = 1; i < index.size(); ++i) {
    const std::string &a = records_[index[i - 1]].name, &b = records_[index[i]].name;
    if (a == b)
      throw Error(
          fmt::format("{}: record '{}' is there twice; get a fresh copy of the file", path_, a));
    if (!before(a, b))
      throw Error(
          fmt::format("{}: records '{}' and '{}' differ in case alone, and PyTorch takes "
                      "one for the other; torch.export.save writes no such files",
                      path_, std::min(a, b), std::max(a, b)));
  }
}

const Record* Archive::find(std::string_view name) const {
  const auto& index = impl_->by_name;
  const auto found = std::lower_bound(
      index.begin(), index.end(), name,
      [&](std::size_t i, std::string_view wanted) { return before(records_[i].name, wanted); });
  return found == index.end() || records_[*found].name != name ? nullptr : &records_[*found];
}

const Record& Archive::at(std::string_view name) const {
  if (const Record* record = find(name)) return *record;
  throw Error(
      fmt::format("{}: has no record '{}'; was it written by torch.export.save?", path_, name));
}

std::size_t Archive::index_of(const Record& record) const {
  const Record* found = find(record.name);
  REFX_CHECK(found && found->offset == record.offset,
             fmt::format("record '{}' is not one of {}", record.name, path_));
  return static_cast<std::size_t>(found - records_.data());
}

template <class F>
void Archive::check_once(std::size_t index, F&& crc) const {
  std::atomic<bool>& checked = impl_->checked[index];
  if (checked.load(std::memory_order_acquire)) return;
  check(records_[index], crc());
  checked.store(true, std::memory_order_release);
}

void Archive::check(const Record& record, std::uint32_t crc) const {
  if (crc != record.crc) fail_damaged(path_, record, crc);
}

void Archive::check_file(std::size_t index) const {
  check_once(index, [&] {
    const Record& record = records_[index];
    const std::size_t most = std::min<std::uint64_t>(record.size, kPart);
    const auto part = std::make_unique_for_overwrite<char[]>(most);
    std::uint32_t crc = 0;
    for (std::uint64_t done = 0; done < record.size;) {
      const std::size_t size =
          read_part(record, done, part.get(), std::min<std::uint64_t>(record.size - done, most));
      crc = crc32(crc, part.get(), size);
      done += size;
    }
    return crc;
  });
}

std::string_view Archive::read(const Record& record) const {
  const std::size_t index = index_of(record);
  const std::string_view bytes(impl_->file->data() + records_[index].offset, records_[index].size);
  check_once(index, [&] { return crc32(0, bytes.data(), bytes.size()); });
  return bytes;
}

std::size_t Archive::read_part(const Record& record, std::uint64_t from, char* to,
                               std::size_t most) const {
  ssize_t size;
  do {
    size = pread(impl_->descriptor, to, most, static_cast<off_t>(record.offset + from));
  } while (size < 0 && errno == EINTR);
  if (size <= 0)
    throw Error(fmt::format(
        "{}: record '{}' cannot be read ({})", path_, record.name,
        size == 0 ? "the file became shorter" : std::generic_category().message(errno)));
  return static_cast<std::size_t>(size);
}

void Archive::copy(const Record& record, char* to) const {
  const Record& own = records_[index_of(record)];
  for (std::uint64_t done = 0; done < own.size;)
    done += read_part(own, done, to + done, own.size - done);
  check(own, crc32(0, to, own.size));
}

std::shared_ptr<Content> Archive::map(const Record& record, int copy) const {
  REFX_CHECK(copy >= 0 && static_cast<std::size_t>(copy) < kCopies, "an archive has two copies");
  const std::size_t index = index_of(record);
  const std::lock_guard lock(impl_->mutex);
  std::weak_ptr<Content>& known = impl_->contents[copy][index];
  if (auto content = known.lock()) return content;
  std::unique_ptr<Mapping>& mapping = impl_->copies[copy];
  if (!mapping)
    mapping = std::make_unique<Mapping>(path_, impl_->descriptor, impl_->file->size(),
                                        Mapping::Use::kPrivateWrite);
  auto content = std::make_shared<MappedRecord>(shared_from_this(), index,
                                                mapping->data() + records_[index].offset);
  known = content;
  return content;
}

std::string Archive::skeleton() const {
  std::string out;
  std::uint64_t position = 0;
  const auto up_to = [&](std::uint64_t end) {
    out.append(impl_->file->data() + position, end - position);
  };
  for (const Record& record : records_) {
    up_to(record.offset);
    position = record.offset + record.size;
  }
  up_to(impl_->file->size());
  return out;
}

void Archive::require_unchanged() const {
  const struct stat now = impl_->status(path_), &then = impl_->opened;
  if (now.st_size == then.st_size && now.st_mtim.tv_sec == then.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == then.st_mtim.tv_nsec)
    return;
  throw Error(
      fmt::format("{}: was changed by someone else while it was in use, so that results "
                  "may be of neither form; start again with the file as it is now",
                  path_));
}

}  // namespace refx
