#include "scratch.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "target.h"

namespace refx::fuzz {

namespace fs = std::filesystem;

namespace {

struct Scratch {
  Scratch() {
    const fs::path memory = "/dev/shm";
    std::string name =
        ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "refx-fuzz-XXXXXX").string();
    REFX_EXPECT(mkdtemp(name.data()), "no folder can be made at " + name);
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

const fs::path& scratch() {
  static const Scratch folder;
  return folder.path;
}

std::string put(std::string_view name, std::string_view bytes) {
  std::string path = scratch() / name;
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  REFX_EXPECT(
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "no file can be written at " + path);
  close(file);
  return path;
}

std::string get(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace refx::fuzz
