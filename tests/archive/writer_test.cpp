// SPDX-License-Identifier: Apache-2.0

#include "archive/writer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "archive/files.h"
#include "kit.h"
#include "util/shell_word.h"

namespace refx::testing {
namespace {

TEST(ArchiveWriter, GivesTheBytesOfTorch) {
  const Folder folder;
  Contents contents = some_contents();
  write_with_torch(folder / "bert.pt2", contents);
  // torch keeps ".data/version" and "byteorder" for the end even if they are not given.
  write_with_refx(folder / "ours.pt2", "bert", contents);
  EXPECT_TRUE(read_file(folder / "ours.pt2") == read_file(folder / "bert.pt2"));
}

TEST(ArchiveWriter, GivesTheBytesOfTorchForAnyNumberOfRecords) {
  const Folder folder;
  for (const int count : {0, 1, 13, 1000, 66'000}) {
    Contents contents;
    for (int i = 0; i < count; ++i)
      contents.emplace_back("data/weights/weight_" + std::to_string(i), std::string(i % 97, 'x'));
    contents.emplace_back(".data/version", "6\n");
    contents.emplace_back("byteorder", "little");
    write_with_torch(folder / "m.pt2", contents);
    write_with_refx(folder / "ours.pt2", "m", contents);
    EXPECT_TRUE(read_file(folder / "ours.pt2") == read_file(folder / "m.pt2")) << count;
  }
}

// By hand: it takes 9 GB of disk and half a minute.
TEST(ArchiveWriter, DISABLED_GivesTheBytesOfTorchAboveFourGigabytes) {
  const Folder folder;
  const Contents contents = {
      {"data/weights/weight_0", std::string((std::size_t{1} << 32) + 1000, 'x')},
      {"data/weights/weight_1", "beyond"},
      {"empty", ""},
      {".data/version", "6\n"},
      {"byteorder", "little"}};
  write_with_torch(folder / "m.pt2", contents);
  write_with_refx(folder / "ours.pt2", "m", contents);
  const std::string compare =
      "cmp " + shell_word(folder / "m.pt2") + " " + shell_word(folder / "ours.pt2");
  EXPECT_EQ(std::system(compare.c_str()), 0);
  EXPECT_EQ(read_all(folder / "ours.pt2").size(), 6u);
}

TEST(ArchiveWriter, CopiesRecordsOfAnotherArchiveOverThatArchive) {
  const Folder folder;
  const std::string path = folder / "m.pt2";
  write_with_torch(path, some_contents());
  const std::string before = read_file(path);
  {
    const auto archive = Archive::open(path);
    ArchiveWriter writer(path, archive->root());
    for (const Record& record : archive->records())
      writer.add(record.name, {.archive = archive, .record = &record});
    writer.finish();
    EXPECT_EQ(archive->read(archive->at("archive_format")), "pt2");
  }
  EXPECT_TRUE(read_file(path) == before);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"m.pt2"});
}

TEST(ArchiveWriter, WithoutFinishLeavesNothing) {
  const Folder folder;
  { ArchiveWriter(folder / "new.pt2", "new").add("a", {.memory = "1"}); }
  EXPECT_TRUE(folder.names().empty());
}

TEST(ArchiveWriter, RefusesDamageInWhatItCopies) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  std::string bytes = read_file(folder / "m.pt2");
  const auto offset = Archive::open(folder / "m.pt2")->at("data/weights/weight_1").offset;
  bytes[offset + 500'000] ^= 4;
  write_file(folder / "m.pt2", bytes);
  const auto archive = Archive::open(folder / "m.pt2");
  write_file(folder / "out.pt2", "old");
  const std::string error = error_of([&] {
    ArchiveWriter writer(folder / "out.pt2", "out");
    writer.add("x", {.archive = archive, .record = &archive->at("data/weights/weight_1")});
    writer.finish();
  });
  EXPECT_NE(error.find("m.pt2: record 'data/weights/weight_1' is damaged (CRC-32 is "),
            std::string::npos)
      << error;
  EXPECT_EQ(read_file(folder / "out.pt2"), "old");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"m.pt2", "out.pt2"}));
}

TEST(ArchiveWriter, RefusesNamesTwiceAndNamesThatAreNoPaths) {
  const Folder folder;
  ArchiveWriter writer(folder / "m.pt2", "m");
  writer.add("a", {.memory = "1"});
  const std::string error = error_of([&] { writer.add("a", {.memory = "2"}); });
  EXPECT_NE(error.find("record 'a' is added twice"), std::string::npos) << error;
  for (const char* name : {"", "/a", "a/", "a//b", "../a", "a/./b", "a\nb"}) {
    ArchiveWriter other(folder / "m.pt2", "m");
    EXPECT_THROW(other.add(name, {.memory = "2"}), Error) << name;
  }
  for (const char* root : {"", "a/b", ".."})
    EXPECT_THROW(ArchiveWriter(folder / "m.pt2", root), Error) << root;
}

TEST(ArchiveWriter, CannotGoOnAfterAFailure) {
  const Folder folder;
  ArchiveWriter writer(folder / "m.pt2", "m");
  EXPECT_THROW(writer.add("..", {.memory = "1"}), Error);
  EXPECT_THROW(writer.finish(), InternalError);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Skeleton, WithTheDataIsTheFile) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  const auto archive = Archive::open(folder / "m.pt2");
  std::vector<Blob> data;
  for (const Record& record : archive->records())
    data.push_back({.archive = archive, .record = &record});
  data[1] = {.memory = archive->read(archive->records()[1])};
  const std::string skeleton = archive->skeleton();
  write_from_skeleton(folder / "again.pt2", skeleton, archive->records(), data);
  EXPECT_TRUE(read_file(folder / "again.pt2") == read_file(folder / "m.pt2"));

  std::string other(archive->records()[0].size, 'q');
  data[0] = {.memory = other};
  const auto rebuild = [&] {
    write_from_skeleton(folder / "again.pt2", skeleton, archive->records(), data);
  };
  EXPECT_NE(error_of(rebuild).find("record 'data/weights/weight_0' has CRC-32"), std::string::npos);
  other.pop_back();
  data[0].memory = other;
  EXPECT_NE(error_of(rebuild).find("has 255 bytes, should have 256"), std::string::npos);
  data.pop_back();
  EXPECT_THROW(rebuild(), Error);
  EXPECT_TRUE(read_file(folder / "again.pt2") == read_file(folder / "m.pt2"));
}

TEST(Skeleton, RefusesPlacesThatItDoesNotHave) {
  const Folder folder;
  write_file(folder / "m.pt2", "untouched");
  const std::string data = "data";
  const Blob blob{.memory = data};
  const auto write = [&](std::uint64_t offset) {
    return error_of([&] {
      write_from_skeleton(folder / "m.pt2", "skeleton", {{"a", offset, 4, 0xadf3f363}}, {blob});
    });
  };
  EXPECT_NE(write(3).find("makes no archive"), std::string::npos);
  EXPECT_NE(write(9).find("record 'a' cannot be at 9"), std::string::npos);
  EXPECT_NE(write(~std::uint64_t{0}), "");
  EXPECT_EQ(read_file(folder / "m.pt2"), "untouched");
}

}  // namespace
}  // namespace refx::testing
