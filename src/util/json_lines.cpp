// SPDX-License-Identifier: Apache-2.0

#include "util/json_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "refx/error.h"
#include "util/regular_file.h"

namespace refx {

void read_json_lines(const std::string& path,
                     const std::function<void(const simdjson::dom::element&)>& read) {
  if (!std::filesystem::exists(path)) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(open_regular(path), "r"),
                                                             std::fclose);
  if (!file) throw Error(fmt::format("{}: cannot be opened ({})", path, std::strerror(errno)));
  simdjson::dom::parser parser;
  char* line = nullptr;
  std::size_t capacity = 0;
  const std::unique_ptr<char*, void (*)(char**)> owner(&line,
                                                       [](char** text) { std::free(*text); });
  for (ssize_t size = 0; (size = getline(&line, &capacity, file.get())) >= 0;) {
    simdjson::dom::element element;
    if (parser.parse(line, static_cast<std::size_t>(size)).get(element)) continue;
    try {
      if (element.is_object()) read(element);
    } catch (const simdjson::simdjson_error&) {
    }
  }
}

void append_line(const std::string& path, std::string_view line) {
  const auto fail = [&] {
    throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  };
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) fail();
  // A killed process may have left an incomplete last line: start a new one.
  char last = '\n';
  const off_t size = lseek(file, 0, SEEK_END);
  if (size > 0 && pread(file, &last, 1, size - 1) != 1) last = '\n';
  const std::string text = (last == '\n' ? "" : "\n") + std::string(line) + "\n";
  const ssize_t written = write(file, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    close(file);
    fail();
  }
  close(file);
}

}  // namespace refx
