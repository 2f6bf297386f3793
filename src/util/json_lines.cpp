#include "util/json_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "refx/error.h"

namespace refx {

void read_json_lines(const std::string& path,
                     const std::function<void(const simdjson::dom::element&)>& read) {
  std::ifstream file(path);
  simdjson::dom::parser parser;
  for (std::string line; std::getline(file, line);) {
    simdjson::dom::element element;
    if (parser.parse(simdjson::padded_string(line)).get(element)) continue;
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
  // After a line that was cut short, a new one begins.
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
