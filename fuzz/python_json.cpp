// SPDX-License-Identifier: Apache-2.0

#include "python_json.h"

#include <simdjson.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>

#include "target.h"

extern char** environ;

namespace refx::fuzz {

namespace {

namespace dom = simdjson::dom;

// read_json.py in another process, queried over a socket.
class Python {
 public:
  Python() {
    const char* script = std::getenv("REFX_READ_JSON");
    if (!script) return;
    int ends[2];
    REFX_EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no socket");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {0, 1})
      posix_spawn_file_actions_adddup2(&actions, ends[1], descriptor);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    const char* arguments[] = {"python3", script, nullptr};
    pid_t child = 0;
    REFX_EXPECT(posix_spawnp(&child, "python3", &actions, nullptr, const_cast<char**>(arguments),
                             environ) == 0,
                "python3 does not start");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
  }

  bool is_here() const { return socket_ >= 0; }

  std::string read(std::string_view json) const {
    std::uint64_t size = json.size();
    send(reinterpret_cast<const char*>(&size), sizeof size);
    send(json.data(), json.size());
    receive(reinterpret_cast<char*>(&size), sizeof size);
    std::string out(size, '\0');
    receive(out.data(), out.size());
    return out;
  }

 private:
  void send(const char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t n = write(socket_, data, size);
      REFX_EXPECT(n > 0, "Python is gone");
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  void receive(char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t n = ::read(socket_, data, size);
      REFX_EXPECT(n > 0, "Python is gone");
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  }

  int socket_ = -1;
};

// The same form as in read_json.py.
void append(std::string& out, const dom::element& element) {
  switch (element.type()) {
    case dom::element_type::OBJECT:
      out += '{';
      for (const auto& [key, value] : element.get_object()) {
        out += std::to_string(key.size()) + ':';
        out += key;
        append(out, value);
      }
      out += '}';
      break;
    case dom::element_type::ARRAY:
      out += '[';
      for (const auto& value : element.get_array()) append(out, value);
      out += ']';
      break;
    case dom::element_type::STRING: {
      const std::string_view text = element.get_string();
      out += "s" + std::to_string(text.size()) + ':';
      out += text;
      break;
    }
    case dom::element_type::DOUBLE:
      out += "d" + std::to_string(std::bit_cast<std::uint64_t>(element.get_double().value())) + ' ';
      break;
    case dom::element_type::INT64:
      out += "i" + std::to_string(element.get_int64().value()) + ' ';
      break;
    case dom::element_type::UINT64:
      out += "i" + std::to_string(element.get_uint64().value()) + ' ';
      break;
    case dom::element_type::BOOL:
      out += element.get_bool().value() ? 't' : 'f';
      break;
    case dom::element_type::NULL_VALUE:
      out += 'n';
      break;
  }
}

}  // namespace

void compare_with_python(std::string_view json) {
  static const Python python;
  if (!python.is_here()) return;
  dom::parser parser;
  std::string ours;
  append(ours, parser.parse(json.data(), json.size()));
  REFX_EXPECT(ours == python.read(json), "Python reads another document");
}

}  // namespace refx::fuzz
