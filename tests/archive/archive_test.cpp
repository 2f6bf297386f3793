// SPDX-License-Identifier: Apache-2.0

#include "archive/archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "archive/files.h"
#include "ir/content.h"
#include "kit.h"

namespace refx::testing {
namespace {

TEST(Archive, ListsAndReadsRecords) {
  const Folder folder;
  Contents contents = some_contents();
  write_with_torch(folder / "bert.pt2", contents);
  const auto archive = Archive::open(folder / "bert.pt2");
  EXPECT_EQ(archive->root(), "bert");
  EXPECT_EQ(archive->path(), folder / "bert.pt2");
  ASSERT_EQ(archive->records().size(), contents.size() + 1);
  EXPECT_EQ(archive->records().back().name, ".data/serialization_id");
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const Record& record = archive->records()[i];
    EXPECT_EQ(record.name, contents[i].first);
    EXPECT_TRUE(archive->read(record) == contents[i].second) << record.name;
    EXPECT_EQ(record.offset % 64, 0u);
    EXPECT_EQ(archive->find(record.name), &record);
  }
  EXPECT_EQ(archive->find("nothing"), nullptr);
  const std::string error = error_of([&] { archive->at("nothing"); });
  EXPECT_NE(error.find("bert.pt2: has no record 'nothing'"), std::string::npos) << error;
}

TEST(Archive, WritesIntoAMappedRecordStayInItsCopy) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  const std::string before = read_file(folder / "m.pt2");
  const auto archive = Archive::open(folder / "m.pt2");
  const Record& record = archive->at("data/weights/weight_0");
  const auto first = archive->map(record);
  const auto second = archive->map(record, 1);
  EXPECT_EQ(archive->map(record, 0), first);
  EXPECT_NE(first, second);
  first->require();
  std::memset(first->data(), 'X', first->size());
  second->require();
  EXPECT_EQ(*static_cast<const char*>(second->data()), 'w');
  EXPECT_EQ(archive->read(record)[0], 'w');
  EXPECT_EQ(*static_cast<const char*>(archive->map(record)->data()), 'X');
  EXPECT_TRUE(read_file(folder / "m.pt2") == before);
}

// Of pages that are a file's, and not ours.
std::size_t resident_of_files() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::size_t kb = 0; word == "RssFile:" && status >> kb) return kb << 10;
  return 0;
}

TEST(Archive, WhatWasReadAndLetGoTakesNoMemory) {
  constexpr std::size_t size = 64 << 20;
  const Folder folder;
  write_with_refx(folder / "m.pt2", "m", {{"a", std::string(size, 'a')}});
  const auto archive = Archive::open(folder / "m.pt2");
  const auto content = archive->map(archive->at("a"));
  auto* const bytes = static_cast<char*>(content->data());
  const std::size_t before = resident_of_files();
  content->require();
  EXPECT_LT(resident_of_files(), before + size / 4);  // checked past the mapping
  EXPECT_EQ(std::count(bytes, bytes + size, 'a'), size);
  EXPECT_GT(resident_of_files(), before + size / 2);
  content->let_go();
  EXPECT_LT(resident_of_files(), before + size / 4);

  bytes[size / 2] = 'b';
  EXPECT_EQ(std::count(bytes, bytes + size, 'a'), size - 1);
  content->let_go();
  EXPECT_LT(resident_of_files(), before + size / 4);
  EXPECT_EQ(bytes[size / 2], 'b');
  EXPECT_EQ(std::count(bytes, bytes + size, 'a'), size - 1);
}

TEST(Archive, LivesAsLongAsItsContents) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  auto archive = Archive::open(folder / "m.pt2");
  std::weak_ptr<const Archive> watched = archive;
  auto content = archive->map(archive->at("data/weights/weight_0"));
  archive.reset();
  std::filesystem::remove(folder / "m.pt2");
  content->require();
  EXPECT_EQ(*static_cast<const char*>(content->data()), 'w');
  content.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Archive, FindsDamageWhenTheRecordIsFirstUsed) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  std::string bytes = read_file(folder / "m.pt2");
  bytes[Archive::open(folder / "m.pt2")->at("data/weights/weight_1").offset + 77] ^= 1;
  write_file(folder / "m.pt2", bytes);
  const auto archive = Archive::open(folder / "m.pt2");
  const Record& damaged = archive->at("data/weights/weight_1");
  EXPECT_EQ(archive->read(archive->at("data/weights/weight_0")).size(), 256u);
  const auto content = archive->map(damaged);
  for (int i = 0; i < 2; ++i) {
    const std::string error = error_of([&] { archive->read(damaged); });
    EXPECT_NE(error.find("m.pt2: record 'data/weights/weight_1' is damaged (CRC-32 is "),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("get a fresh copy of the file"), std::string::npos);
    EXPECT_EQ(error_of([&] { content->require(); }), error);
  }
}

TEST(Archive, MayBeSharedByThreads) {
  const Folder folder;
  write_with_torch(folder / "m.pt2", some_contents());
  const Contents expected = read_all(folder / "m.pt2");
  const auto archive = Archive::open(folder / "m.pt2");
  std::vector<Contents> read(4), mapped(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (const Record& record : archive->records()) {
        read[i].emplace_back(record.name, archive->read(record));
        const auto content = archive->map(record, i % 2);
        content->require();
        mapped[i].emplace_back(record.name,
                               std::string(static_cast<const char*>(content->data()), record.size));
      }
    });
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(read[i], expected) << "thread " << i;
    EXPECT_EQ(mapped[i], expected) << "thread " << i;
  }
}

class ChangingArchive : public ::testing::Test {
 protected:
  ChangingArchive() { write_with_refx(path_, "m", some_contents()); }

  const Folder folder_;
  const std::string path_ = folder_ / "m.pt2";
};

TEST_F(ChangingArchive, NoticesBytesThatWereWrittenIntoIt) {
  const auto archive = Archive::open(path_);
  archive->require_unchanged();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // as fine as the kernel's clock is
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(100).put('x');
  EXPECT_NE(error_of([&] { archive->require_unchanged(); }).find("m.pt2: was changed by someone"),
            std::string::npos);
}

TEST_F(ChangingArchive, NoticesThatItGrewOrShrank) {
  const auto then = std::filesystem::last_write_time(path_);
  for (const int by : {-1, 1}) {
    const auto archive = Archive::open(path_);
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) + by);
    std::filesystem::last_write_time(path_, then);
    EXPECT_NE(error_of([&] { archive->require_unchanged(); }), "no error");
    write_with_refx(path_, "m", some_contents());
  }
}

TEST_F(ChangingArchive, MayBeReplacedMovedAndRemoved) {
  const auto archive = Archive::open(path_);
  write_with_refx(path_, "m", {{"other", "contents"}});
  archive->require_unchanged();
  const auto other = Archive::open(path_);
  std::filesystem::rename(path_, folder_ / "n.pt2");
  std::filesystem::permissions(folder_ / "n.pt2", std::filesystem::perms::owner_read);
  other->require_unchanged();
  std::filesystem::remove(folder_ / "n.pt2");
  other->require_unchanged();
}

TEST(Archive, OpensTenThousandRecords) {
  const Folder folder;
  Contents contents;
  for (int i = 0; i < 10'000; ++i)
    contents.emplace_back("data/weights/weight_" + std::to_string(i), std::string(i % 300, 'x'));
  write_with_refx(folder / "m.pt2", "m", contents);
  EXPECT_EQ(Archive::open(folder / "m.pt2")->records().size(), 10'001u);
}

}  // namespace
}  // namespace refx::testing
