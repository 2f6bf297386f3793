// SPDX-License-Identifier: Apache-2.0

#include "util/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "refx/error.h"

namespace refx {

int open_regular(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for one.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    throw Error(
        fmt::format("{}: cannot be opened ({})", path, std::generic_category().message(errno)));
  if (S_ISREG(status.st_mode)) return file;
  close(file);
  throw Error(fmt::format("{}: cannot be read ({})", path,
                          S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a regular file"));
}

}  // namespace refx
