// SPDX-License-Identifier: Apache-2.0

// libzip is ten times slower at opening an archive, so it is not asked each time; but what it finds
// inconsistent, we must refuse as well.

#include <gtest/gtest.h>
#include <zip.h>

#include <random>

#include "archive/directory.h"
#include "archive/files.h"
#include "refx/error.h"

namespace refx::testing {
namespace {

bool libzip_refuses(std::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (archive)
    zip_discard(archive);
  else
    zip_source_free(source);
  zip_error_fini(&error);
  return archive == nullptr;
}

bool we_refuse(std::string_view bytes) {
  try {
    read_directory("m.pt2", bytes);
    return false;
  } catch (const Error&) {
    return true;
  }
}

class Libzip : public ::testing::Test {
 protected:
  Libzip() {
    const Folder folder;
    write_with_torch(folder / "m.pt2", {{"data/weights/weight_0", "0123456789"}, {"empty", ""}});
    bytes_ = read_file(folder / "m.pt2");
  }

  void compare(std::string_view bytes, const std::string& what) {
    const bool refused = libzip_refuses(bytes);
    refused_ += refused;
    EXPECT_TRUE(!refused || we_refuse(bytes)) << what;
  }

  std::string bytes_;
  int refused_ = 0;
};

TEST_F(Libzip, AcceptsWhatTorchWrites) {
  EXPECT_FALSE(libzip_refuses(bytes_));
  EXPECT_FALSE(we_refuse(bytes_));
}

TEST_F(Libzip, RefusesNoFlippedBitThatWeAccept) {
  for (std::size_t bit = 0; bit < 8 * bytes_.size(); ++bit) {
    std::string broken = bytes_;
    broken[bit / 8] ^= static_cast<char>(1 << bit % 8);
    compare(broken, "bit " + std::to_string(bit));
  }
  EXPECT_GT(refused_, 1000);
}

TEST_F(Libzip, RefusesNoGarbageThatWeAccept) {
  std::mt19937 random(2);
  for (int i = 0; i < 10'000; ++i) {
    std::string broken = bytes_;
    for (unsigned k = 1 + random() % 4; k-- > 0;) {
      const std::size_t begin = random() % broken.size();
      const std::size_t end = std::min(broken.size(), begin + 1 + random() % 8);
      const char value = random() % 3 == 0 ? '\xff' : static_cast<char>(random());
      std::fill(broken.begin() + begin, broken.begin() + end, value);
    }
    compare(broken, "case " + std::to_string(i));
  }
  EXPECT_GT(refused_, 1000);
}

}  // namespace
}  // namespace refx::testing
