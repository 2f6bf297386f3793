// SPDX-License-Identifier: Apache-2.0

#include "archive/files.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "archive/archive.h"
#include "archive/writer.h"

namespace refx::testing {

namespace fs = std::filesystem;

Folder::Folder() {
  std::string name = fs::temp_directory_path() / "refx-XXXXXX";
  path_ = mkdtemp(name.data());
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(path_)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Contents some_contents() {
  std::string large(700'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 3);
  return {{"data/weights/weight_0", std::string(256, 'w')},
          {"data/weights/weight_1", large},
          {"data/weights/weight_2", ""},
          {"models/model.json", R"({"graph_module": {}})"},
          {"data/sample_inputs/model.pt", "PK\3\4 not a header"},
          {"extra/" + std::string(300, 'n'), "long name"},
          {"archive_format", "pt2"},
          {"archive_version", "0"},
          {".data/version", "6\n"},
          {"byteorder", "little"}};
}

void write_with_torch(const std::string& path, const Contents& contents) {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  writer.setMinVersion(6);
  for (const auto& [name, bytes] : contents) writer.writeRecord(name, bytes.data(), bytes.size());
  writer.writeEndOfFile();
}

void write_with_refx(const std::string& path, const std::string& root, const Contents& contents) {
  ArchiveWriter writer(path, root);
  for (const auto& [name, bytes] : contents) writer.add(name, {.memory = bytes});
  writer.finish();
}

Contents read_all(const std::string& path) {
  const auto archive = Archive::open(path);
  Contents out;
  for (const Record& record : archive->records())
    out.emplace_back(record.name, archive->read(record));
  return out;
}

}  // namespace refx::testing
