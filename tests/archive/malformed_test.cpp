// SPDX-License-Identifier: Apache-2.0

#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <random>

#include "archive/archive.h"
#include "archive/checksum.h"
#include "archive/files.h"
#include "archive/writer.h"
#include "archive/zip_format.h"
#include "ir/content.h"
#include "kit.h"

namespace refx::testing {
namespace {

using zip::store;

// An entry of a zip that PyTorch would not write: sizes before the data, no padding. What is set
// replaces what would be right.
struct Entry {
  std::string name;
  std::string data;
  std::uint16_t flags = 0, method = 0;
  std::optional<std::uint32_t> crc = {}, size = {}, packed = {}, header = {};
  std::string extra = {};                         // in the directory
  std::optional<std::string> header_name = {};    // before the data
  std::optional<std::uint32_t> header_size = {};  // before the data
  std::uint32_t attributes = 0;
};

struct End {
  std::optional<std::uint16_t> entries = {};
  std::optional<std::uint32_t> size = {}, begin = {};
  std::string before = {};
  std::string comment = {};
};

std::string make_zip(const std::vector<Entry>& entries, const End& end = {}) {
  std::string out, directory;
  for (const Entry& entry : entries) {
    const auto header = static_cast<std::uint32_t>(out.size());
    const auto size = static_cast<std::uint32_t>(entry.data.size());
    const std::uint32_t crc = entry.crc.value_or(crc32(0, entry.data.data(), entry.data.size()));
    const auto common = [&](std::string& to, std::uint32_t stated, std::uint32_t packed) {
      store<std::uint16_t>(to, 10);
      store(to, entry.flags);
      store(to, entry.method);
      store<std::uint32_t>(to, 0);
      store(to, crc);
      store(to, packed);
      store(to, stated);
    };
    const std::string name = entry.header_name.value_or(entry.name);
    store(out, zip::kLocalHeader);
    common(out, entry.header_size.value_or(entry.size.value_or(size)),
           entry.header_size.value_or(entry.packed.value_or(size)));
    store(out, static_cast<std::uint16_t>(name.size()));
    store<std::uint16_t>(out, 0);
    out += name + entry.data;

    store(directory, zip::kEntry);
    store<std::uint16_t>(directory, 10);
    common(directory, entry.size.value_or(size), entry.packed.value_or(size));
    store(directory, static_cast<std::uint16_t>(entry.name.size()));
    store(directory, static_cast<std::uint16_t>(entry.extra.size()));
    directory.append(6, '\0');
    store(directory, entry.attributes);
    store(directory, entry.header.value_or(header));
    directory += entry.name + entry.extra;
  }
  const auto begin = static_cast<std::uint32_t>(out.size());
  out += directory + end.before;
  store(out, zip::kEnd);
  store<std::uint32_t>(out, 0);
  const std::uint16_t count = end.entries.value_or(static_cast<std::uint16_t>(entries.size()));
  store(out, count);
  store(out, count);
  store(out, end.size.value_or(static_cast<std::uint32_t>(directory.size())));
  store(out, end.begin.value_or(begin));
  store(out, static_cast<std::uint16_t>(end.comment.size()));
  return out + end.comment;
}

// The 64-bit end record and its locator.
std::string end64(std::uint64_t position, std::uint64_t entries, std::uint64_t size,
                  std::uint64_t begin, std::uint64_t located) {
  std::string out;
  store(out, zip::kEnd64);
  store<std::uint64_t>(out, zip::kEnd64Size - 12);
  store<std::uint32_t>(out, 45);
  store<std::uint64_t>(out, 0);
  store(out, entries);
  store(out, entries);
  store(out, size);
  store(out, begin);
  store(out, zip::kLocator64);
  store<std::uint32_t>(out, 0);
  store(out, position + located);
  store<std::uint32_t>(out, 1);
  return out;
}

std::string wide_extra(std::initializer_list<std::uint64_t> values) {
  std::string out;
  store(out, zip::kSizes64);
  store(out, static_cast<std::uint16_t>(8 * values.size()));
  for (const std::uint64_t value : values) store(out, value);
  return out;
}

class Malformed : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "m.pt2"; }

  Contents read(std::string_view bytes) {
    write_file(path(), bytes);
    return read_all(path());
  }

  void expect_error(std::string_view bytes, const std::string& text) {
    const std::string error = error_of([&] { read(bytes); });
    EXPECT_EQ(error.find(path() + ": "), 0u) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error << "\nshould say: " << text;
  }

  Folder folder_;
};

TEST_F(Malformed, AZipOfAnotherWriterIsRead) {
  const std::vector<Entry> entries = {{"r/", ""}, {"r/a", "one"}, {"r/b/", ""}, {"r/b/c", "two"}};
  const std::string bytes = make_zip(entries);
  EXPECT_EQ(read(bytes), (Contents{{"a", "one"}, {"b/c", "two"}}));

  const auto archive = Archive::open(path());
  EXPECT_EQ(archive->root(), "r");
  const Record& record = archive->at("b/c");
  ASSERT_NE(record.offset % 8, 0u);
  const auto content = archive->map(record);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(content->data()) % 16, 0u);
  content->require();
  EXPECT_EQ(std::string_view(static_cast<const char*>(content->data()), content->size()), "two");

  write_from_skeleton(folder_ / "again", archive->skeleton(), archive->records(),
                      {{.memory = "one"}, {.memory = "two"}});
  EXPECT_TRUE(read_file(folder_ / "again") == bytes);
}

TEST_F(Malformed, RecordsInAnotherOrderThanTheDirectoryAreRead) {
  std::string bytes = make_zip({{"r/a", "one"}, {"r/b", "two"}});
  const std::size_t directory = bytes.size() - zip::kEndSize - 2 * (zip::kEntrySize + 3);
  const std::string first = bytes.substr(directory, zip::kEntrySize + 3);
  bytes.erase(directory, first.size());
  bytes.insert(directory + first.size(), first);
  EXPECT_EQ(read(bytes), (Contents{{"a", "one"}, {"b", "two"}}));
}

TEST_F(Malformed, FilesThatAreNotArchives) {
  EXPECT_EQ(error_of([&] { Archive::open(folder_ / "no.pt2"); }),
            (folder_ / "no.pt2") + ": cannot be opened (No such file or directory)");
  EXPECT_EQ(error_of([&] { Archive::open(folder_.path()); }),
            folder_.path().string() + ": cannot be read (it is a folder)");
  EXPECT_NE(error_of([&] { Archive::open("/dev/zero"); }).find("not a regular file"),
            std::string::npos);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { Archive::open(folder_ / "pipe"); }).find("not a regular file"),
            std::string::npos);
  expect_error("", "not a zip archive (it is empty); was it written by torch.export.save?");
  expect_error("\x80\x02" + std::string(100, '.'), "it looks like a pickle");
  expect_error("PK\3\4" + std::string(100, '.'), "its end is missing");
  expect_error(std::string(100, '.'), "not a zip archive (no directory at its end)");
  expect_error(std::string(200'000, '.'), "not a zip archive (no directory at its end)");
  expect_error(make_zip({}), "holds no records");
  expect_error(make_zip({{"r/", ""}}), "holds no records");
}

TEST_F(Malformed, Names) {
  expect_error(make_zip({{"r/a", "1"}, {"r/b", "2"}, {"r/a", "1"}}), "record 'a' is there twice");
  expect_error(make_zip({{"", "1"}}), "it has no name");
  for (const char* name : {"/a", "r//a", "r/../a", "..", "r/..", "r/./a", "./a"})
    expect_error(make_zip({{name, "1"}}), "its name is not a plain path");
  expect_error(make_zip({{"r/a/", "1"}}), "its name is not a plain path");
  expect_error(make_zip({{"r/\x1b[2J", "1"}}),
               "record 'r/?[2J' cannot be used: its name has control");
  expect_error(make_zip({{std::string("r/a\0b", 5), "1"}}), "its name has control characters");
  expect_error(make_zip({{"a", "1"}}), "record 'a' is in no folder");
  expect_error(make_zip({{"r/a", "1"}, {"s/b", "1"}}), "record 's/b' is not in folder 'r'");
  expect_error(make_zip({{"r/a", "1"}, {"rb", "1"}}), "record 'rb' is not in folder 'r'");
  expect_error(make_zip({{"r/a\\b", "1"}}), "its name has a backslash");
}

// PyTorch's reader, which looks for names without regard to case and for an end record without
// regard to the length of its comment.
std::string torch_reads(const std::string& path, const std::string& name) {
  auto [data, size] = caffe2::serialize::PyTorchStreamReader(path).getRecord(name);
  return {static_cast<const char*>(data.get()), size};
}

TEST_F(Malformed, NamesThatTorchTakesForOneAnother) {
  const std::vector<Entry> both = {{"r/models/MODEL.json", "other"},
                                   {"r/models/model.json", "one"},
                                   {"r/.data/version", "6"},
                                   {"r/version", "6"}};
  write_file(path(), make_zip(both));
  EXPECT_EQ(torch_reads(path(), "models/model.json"), torch_reads(path(), "models/MODEL.json"));
  expect_error(make_zip(both),
               "records 'models/MODEL.json' and 'models/model.json' differ in case");
}

TEST_F(Malformed, ARecordThatSaysItIsAFolder) {
  const std::vector<Entry> entries = {{.name = "r/a", .data = "one", .attributes = 0x10},
                                      {"r/version", "6"}};
  write_file(path(), make_zip(entries));
  EXPECT_NE(torch_reads(path(), "a"), "one");  // but whatever was in the memory before
  expect_error(make_zip(entries), "it says that it is a folder");
}

TEST_F(Malformed, AnotherDirectoryHiddenInTheComment) {
  const std::uint32_t place = zip::kLocalHeaderSize + 3;  // of the hidden records: the data of z
  const std::uint32_t second = place + zip::kLocalHeaderSize + 3 + 4;
  std::vector<Entry> evil = {{.name = "r/a", .data = "evil", .header = place},
                             {.name = "r/version", .data = "6", .header = second}};
  const std::size_t length = second - place + zip::kLocalHeaderSize + 9 + 1;
  const std::string hidden = make_zip(evil).substr(0, length);
  const std::vector<Entry> entries = {{"r/z", hidden}, {"r/a", "good"}, {"r/version", "6"}};
  const auto begin = static_cast<std::uint32_t>(make_zip(entries).size());
  // Its end record has no comment, but a byte follows: a careful reader passes it over.
  const std::string directory = make_zip(evil, {.begin = begin}).substr(length);
  const std::string bytes = make_zip(entries, {.comment = directory + "x"});
  write_file(path(), bytes);
  EXPECT_EQ(torch_reads(path(), "a"), "evil");
  expect_error(bytes, "it has a comment");
  expect_error(make_zip({{"r/a", "1"}}, {.comment = "harmless"}), "it has a comment");
}

TEST_F(Malformed, BytesThatBelongToNoRecord) {
  const std::vector<Entry> one = {{"r/a", "1"}};
  std::string before = make_zip({{.name = "r/a", .data = "1", .header = 1}}, {.begin = 35});
  expect_error("x" + before, "bytes outside of its records");
  std::string behind = make_zip(one, {.begin = 35});
  expect_error(behind.insert(zip::kLocalHeaderSize + 4, "x"), "bytes outside of its records");
  // A descriptor is read where the flags say so, and must be right.
  std::string descriptor;
  store(descriptor, zip::kDescriptor);
  store(descriptor, crc32(0, "1", 1));
  store<std::uint32_t>(descriptor, 1);
  store<std::uint32_t>(descriptor, 1);
  const std::vector<Entry> flagged = {{.name = "r/a", .data = "1", .flags = zip::kHasDescriptor}};
  const auto with = [&](const std::vector<Entry>& entries, std::string text) {
    const std::size_t place = zip::kLocalHeaderSize + 4;
    return make_zip(entries, {.begin = static_cast<std::uint32_t>(place + text.size())})
        .insert(place, text);
  };
  EXPECT_EQ(read(with(flagged, descriptor)), (Contents{{"a", "1"}}));
  EXPECT_EQ(read(with(flagged, descriptor.substr(4))), (Contents{{"a", "1"}}));
  expect_error(with(one, descriptor), "bytes outside of its records");
  expect_error(with(flagged, ""), "bytes outside of its records");
  descriptor[8] = 2;
  expect_error(with(flagged, descriptor), "bytes outside of its records");
}

TEST_F(Malformed, Entries) {
  expect_error(make_zip({{.name = "r/a", .data = "1", .method = 8}}),
               "it is compressed (method 8); was");
  expect_error(make_zip({{.name = "r/code/a.py", .data = "1", .method = 8}}),
               "it is compressed (method 8), as in a TorchScript file; was");
  expect_error(make_zip({{.name = "r/a", .data = "1", .flags = 1}}), "it is encrypted");
  expect_error(make_zip({{.name = "r/a", .data = "1", .flags = 0x20}}), "unknown flags 0x20");
  expect_error(make_zip({{.name = "r/a", .data = "1", .crc = 5}}),
               "record 'a' is damaged (CRC-32 is 83dcefb7, should be 00000005)");
  expect_error(make_zip({{.name = "r/a", .data = "1", .packed = 5}}), "its two sizes differ");
  expect_error(make_zip({{.name = "r/a", .data = "1", .size = 5, .packed = 5}}), "outside");
  expect_error(make_zip({{.name = "r/a", .data = "1", .size = ~0u, .packed = ~0u}}), "outside");
  expect_error(make_zip({{.name = "r/a", .data = "1", .header = 3}}), "it has no header");
  expect_error(make_zip({{.name = "r/a", .data = "1", .header = 34}}), "outside");
  expect_error(make_zip({{.name = "r/a", .data = "1", .header = ~0u}}), "outside");
  expect_error(make_zip({{.name = "r/a", .data = "1", .header_name = "r/b"}}), "differ");
  expect_error(make_zip({{.name = "r/a", .data = "1", .header_name = "r/abc"}}), "differ");
  expect_error(make_zip({{.name = "r/a", .data = "123", .header_size = 2}}), "differ");
}

TEST_F(Malformed, SixtyFourBitSizes) {
  const auto with = [&](std::string extra) {
    return make_zip({{.name = "r/a",
                      .data = "1",
                      .size = ~0u,
                      .packed = ~0u,
                      .extra = extra,
                      .header_size = 1}});
  };
  EXPECT_EQ(read(with(wide_extra({1, 1}))), (Contents{{"a", "1"}}));
  expect_error(with(wide_extra({1})), "its 64-bit sizes are cut off");
  expect_error(with(wide_extra({1, 2})), "its two sizes differ");
  expect_error(with(wide_extra({1, 1}) + wide_extra({1, 1})), "it has its sizes twice");
  expect_error(with(wide_extra({1, 1}).substr(0, 15)), "its extra fields are cut off");
  expect_error(with("abc"), "its extra fields are cut off");
  for (const std::uint64_t size :
       {std::uint64_t{1} << 62, ~std::uint64_t{0}, ~std::uint64_t{0} - 40})
    expect_error(with(wide_extra({size, size})), "outside");
}

TEST_F(Malformed, Overlaps) {
  // The second entry's header and data lie in the data of the first.
  const std::string inner = make_zip({{"r/b", "inner"}}).substr(0, zip::kLocalHeaderSize + 3 + 5);
  std::string bytes = make_zip({{"r/a", inner}, {"r/b", "inner"}});
  const std::size_t offset = bytes.size() - zip::kEndSize - 3 - 4;
  std::string place;
  store<std::uint32_t>(place, zip::kLocalHeaderSize + 3);
  bytes.replace(offset, 4, place);
  expect_error(bytes, "its records overlap");
  // Both are the same data.
  std::string twice = make_zip({{"r/a", "1"}, {"r/b", "1"}});
  twice.replace(twice.size() - zip::kEndSize - 3 - 4, 4, 4, '\0');
  expect_error(twice, "differ");
}

TEST_F(Malformed, Ends) {
  const std::vector<Entry> one = {{"r/a", "1"}};
  expect_error(make_zip(one, {.entries = 0}), "more than its entries");
  expect_error(make_zip(one, {.entries = 2}), "cannot hold 2 entries");
  expect_error(make_zip(one, {.entries = 0xffff}), "cannot hold 65535 entries");
  expect_error(make_zip(one, {.size = 48}), "not where its end record says");
  expect_error(make_zip(one, {.size = ~0u}), "not where its end record says");
  expect_error(make_zip(one, {.begin = 5}), "not where its end record says");
  expect_error(make_zip(one, {.begin = ~0u}), "not where its end record says");
  expect_error(make_zip(one, {.before = "x"}), "not where its end record says");
  expect_error(make_zip(one) + "x", "not a zip archive");
  expect_error("x" + make_zip(one), "not where its end record says");
}

TEST_F(Malformed, SixtyFourBitEnds) {
  const std::vector<Entry> one = {{"r/a", "1"}};
  const std::uint64_t begin = zip::kLocalHeaderSize + 4, size = zip::kEntrySize + 3;
  const auto with = [&](std::uint64_t entries, std::uint64_t stated_size,
                        std::uint64_t stated_begin, std::uint64_t located) {
    return make_zip(one,
                    {.entries = 0xffff,
                     .size = ~0u,
                     .begin = ~0u,
                     .before = end64(begin + size, entries, stated_size, stated_begin, located)});
  };
  constexpr std::uint64_t most = ~std::uint64_t{0};
  EXPECT_EQ(read(with(1, size, begin, 0)), (Contents{{"a", "1"}}));
  expect_error(with(most, size, begin, 0), "cannot hold 18446744073709551615 entries");
  expect_error(with(std::uint64_t{1} << 40, size, begin, 0), "cannot hold");
  expect_error(with(1, most, begin, 0), "not where its end record says");
  expect_error(with(1, size, most, 0), "not where its end record says");
  expect_error(with(1, size, begin, 1), "not where its locator says");
  expect_error(with(1, size, begin, most - 1000), "not where its locator says");
  expect_error(make_zip(one, {.entries = 2, .before = end64(begin + size, 1, size, begin, 0)}),
               "its two end records differ");
  // Python's zipfile does not look where the locator says, but right before it.
  std::string longer = with(1, size, begin, 0);
  longer.insert(begin + size + zip::kEnd64Size, 8, '\0');
  longer[begin + size + 4] += 8;
  expect_error(longer, "its 64-bit end record is not where its locator says");
}

// In place: replacing a file makes some file systems sync it.
void overwrite(const std::string& path, std::string_view bytes) {
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A small archive as torch writes it.
std::string small_archive(const std::string& path) {
  write_with_torch(path, {{"data/weights/weight_0", "0123456789"}, {"empty", ""}, {"b", "x"}});
  return read_file(path);
}

TEST_F(Malformed, CutOffAnywhere) {
  const std::string bytes = small_archive(path());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::filesystem::resize_file(path(), bytes.size() - size - 1);
    EXPECT_THROW(Archive::open(path()), Error) << bytes.size() - size - 1;
  }
}

TEST_F(Malformed, NoFlippedBitChangesWhatIsRead) {
  std::string bytes = small_archive(path());
  const Contents before = read_all(path());
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    overwrite(path(), bytes);
    try {
      EXPECT_EQ(read_all(path()), before) << "bit " << bit;
    } catch (const Error&) {
      ++refused;
    }
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_GT(refused, 0);
  RecordProperty("refused", refused);
}

TEST_F(Malformed, NoGarbageCrashes) {
  const std::string bytes = small_archive(path());
  const Contents whole = read_all(path());
  std::mt19937 random(1);
  int read = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string broken = bytes;
    for (unsigned k = random() % 6; k-- > 0;) {
      const std::size_t at = random() % broken.size();
      const char value = random() % 3 == 0 ? '\xff' : static_cast<char>(random());
      for (std::size_t j = at; j < std::min(broken.size(), at + random() % 9); ++j)
        broken[j] = value;
    }
    overwrite(path(), broken);
    const std::string error = error_of([&] { EXPECT_EQ(read_all(path()), whole); });
    if (error == "no error") {
      ++read;
      continue;
    }
    ++refused;
    EXPECT_EQ(error.find(path() + ": "), 0u) << error;
  }
  // What was hit decides: padding and times of day do not matter, all else does.
  EXPECT_GT(read, 300);
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace refx::testing
