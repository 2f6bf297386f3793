// SPDX-License-Identifier: Apache-2.0

#include "archive/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "refx/error.h"

namespace refx {

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel has it
constexpr int kMostNames = 100;
constexpr std::int64_t kWriteBack = 8 << 20;

template <typename Call>
int retried(Call call) {
  int result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string error_text(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_at_once(const std::string& path, const std::string& why) {
  throw Error(fmt::format("cannot write {}: {}", path, why));
}

// Where a path leads if it is a link, which may point to a file that does not exist yet.
fs::path follow_links(const std::string& path) {
  fs::path file = path;
  std::error_code ignored;
  for (int i = 0; i < kMostLinks; ++i) {
    if (!fs::is_symlink(fs::symlink_status(file, ignored))) return file;
    std::error_code error;
    const fs::path target = fs::read_symlink(file, error);
    if (error) fail_at_once(path, error.message());
    file = file.parent_path() / target;
  }
  fail_at_once(path, error_text(ELOOP));
}

std::string random_name() {
  std::random_device random;
  return fmt::format(".refx-{:08x}{:08x}", random(), random());
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  const fs::path file = follow_links(path);
  name_ = file.filename();
  folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
  if (path.empty()) fail_at_once("''", "no file name given");
  struct stat status;
  exists_ = stat(file.c_str(), &status) == 0;
  if (name_.empty() || (exists_ && S_ISDIR(status.st_mode)))
    fail_at_once(path, "it is a folder; give the name of a file");
  if (exists_ && !S_ISREG(status.st_mode)) fail_at_once(path, "it is not a regular file");
  if (exists_ && faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) != 0)
    fail_at_once(path, error_text(errno) + "; it is unchanged");
  try {
    open_temporary();
    take_over_permissions();
  } catch (...) {
    drop();
    throw;
  }
}

AtomicFile::~AtomicFile() { drop(); }

void AtomicFile::drop() noexcept {
  if (!temporary_.empty()) unlinkat(folder_descriptor_, temporary_.c_str(), 0);
  if (descriptor_ >= 0) close(descriptor_);
  if (folder_descriptor_ >= 0) close(folder_descriptor_);
}

void AtomicFile::fail(int error) const {
  fail_at_once(path_, fmt::format("{}; {}", error_text(error),
                                  exists_ ? path_ + " is unchanged" : "nothing was written"));
}

void AtomicFile::open_temporary() {
  const char* folder = folder_.c_str();
  folder_descriptor_ = retried([&] { return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (folder_descriptor_ < 0 && errno == EACCES)  // may still be written to
    folder_descriptor_ = retried([&] { return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC); });
  if (folder_descriptor_ < 0 && errno == ENOENT)
    fail_at_once(path_, fmt::format("there is no folder '{}'; create it first", folder_));
  if (folder_descriptor_ < 0) fail(errno);

  // A nameless file gets its name through /proc.
  if (access("/proc/self/fd", X_OK) == 0)
    descriptor_ = retried(
        [&] { return openat(folder_descriptor_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666); });
  for (int i = 0; descriptor_ < 0 && i < kMostNames; ++i) {
    const std::string name = random_name();
    descriptor_ = retried([&] {
      return openat(folder_descriptor_, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    });
    if (descriptor_ >= 0)
      temporary_ = name;
    else if (errno != EEXIST)
      break;
  }
  if (descriptor_ < 0) fail(errno);
}

void AtomicFile::take_over_permissions() {
  struct stat old, now;
  if (!exists_ || fstatat(folder_descriptor_, name_.c_str(), &old, 0) != 0) return;
  if (fstat(descriptor_, &now) != 0) fail(errno);
  // Only root may give a file away; anyone else keeps it, as with any other editor.
  if ((old.st_uid != now.st_uid || old.st_gid != now.st_gid) &&
      fchown(descriptor_, old.st_uid, old.st_gid) != 0 && errno != EPERM)
    fail(errno);
  // Not the bits by which a program runs as its owner: these are other bytes.
  if (fchmod(descriptor_, old.st_mode & 0777) != 0) fail(errno);
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    if (written == 0) fail(EIO);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    written_ += written;
  }
  if (written_ - started_ >= kWriteBack) start_writing_back();
}

// So that the disk is busy while the rest is made, and commit() waits for little. Where the kernel
// does not do that, commit() waits for all of it; what the disk refuses is lost.
void AtomicFile::start_writing_back() {
  if (sync_file_range(descriptor_, started_, written_ - started_, SYNC_FILE_RANGE_WRITE) != 0 &&
      (errno == EIO || errno == ENOSPC || errno == EDQUOT))
    fail(errno);
  started_ = written_;
}

// False if there is such a name already.
bool AtomicFile::link_as(const std::string& name) {
  const std::string self = fmt::format("/proc/self/fd/{}", descriptor_);
  if (linkat(AT_FDCWD, self.c_str(), folder_descriptor_, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
    return true;
  if (errno != EEXIST) fail(errno);
  return false;
}

void AtomicFile::replace_target() {
  if (temporary_.empty()) {
    if (!exists_ && link_as(name_)) return;
    for (int i = 0; temporary_.empty() && i < kMostNames; ++i)
      if (const std::string name = random_name(); link_as(name)) temporary_ = name;
    if (temporary_.empty()) fail(EEXIST);
  }
  if (renameat(folder_descriptor_, temporary_.c_str(), folder_descriptor_, name_.c_str()) != 0)
    fail(errno);
  temporary_.clear();
}

void AtomicFile::commit() {
  if (retried([&] { return fsync(descriptor_); }) != 0) fail(errno);
  replace_target();
  // EBADF: a folder that may not be read; EINVAL: a file system that has nothing to sync there.
  if (retried([&] { return fsync(folder_descriptor_); }) != 0 && errno != EBADF && errno != EINVAL)
    throw Error(
        fmt::format("{} is written, but may not survive a power failure: {} on syncing its folder",
                    path_, error_text(errno)));
}

void write_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace refx
