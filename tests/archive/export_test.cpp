// SPDX-License-Identifier: Apache-2.0

// Files of the installed torch.export.save, written again from their records.

#include <gtest/gtest.h>

#include <cstdlib>

#include "archive/archive.h"
#include "archive/files.h"
#include "archive/writer.h"
#include "util/shell_word.h"

namespace refx::testing {
namespace {

TEST(TorchExport, ItsFilesAreReproducedBitForBit) {
  const char* given = std::getenv("REFX_PYTHON");
  const std::string python = shell_word(given ? given : ".venv/bin/python");
  const Folder folder, out;
  const std::string has_torch =
      python + " -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(\"torch\"))'";
  if (std::system((has_torch + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no torch in " << python;
  const std::string to = shell_word(folder.path().string());
  ASSERT_EQ(std::system((python + " tests/archive/export.py " + to).c_str()), 0);

  for (const std::string& name : folder.names()) {
    const auto archive = Archive::open(folder / name);
    EXPECT_EQ(archive->root(), std::filesystem::path(name).stem());
    ArchiveWriter writer(out / name, archive->root());
    std::vector<Blob> data;
    for (const Record& record : archive->records()) {
      data.push_back({.archive = archive, .record = &record});
      if (record.name != ".data/serialization_id") writer.add(record.name, data.back());
    }
    writer.finish();
    EXPECT_TRUE(read_file(out / name) == read_file(folder / name)) << name;
    write_from_skeleton(out / "skeleton", archive->skeleton(), archive->records(), data);
    EXPECT_TRUE(read_file(out / "skeleton") == read_file(folder / name)) << name;
  }
  EXPECT_EQ(folder.names().size(), 3u);
}

}  // namespace
}  // namespace refx::testing
