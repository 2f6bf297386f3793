// SPDX-License-Identifier: Apache-2.0

#include "archive/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "archive/files.h"
#include "kit.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

TEST(AtomicFile, AppearsOnlyWhenItIsWhole) {
  const Folder folder;
  AtomicFile file(folder / "a");
  file.write("hel");
  file.write("lo");
  EXPECT_TRUE(folder.names().empty());
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "hello");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, ReplacesAndKeepsPermissions) {
  const Folder folder;
  write_file(folder / "a", "old");
  chmod((folder / "a").c_str(), 0640);
  write_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(mode_of(folder / "a"), 0640u);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

// Other bytes do not run as the owner of those that were there.
TEST(AtomicFile, DropsTheRightsOfAProgram) {
  const Folder folder;
  write_file(folder / "a", "old");
  chmod((folder / "a").c_str(), 07755);
  write_atomically(folder / "a", "new");
  EXPECT_EQ(mode_of(folder / "a"), 0755u);
}

TEST(AtomicFile, ANewOneObeysTheUmask) {
  const Folder folder;
  const mode_t before = umask(027);
  write_atomically(folder / "a", "new");
  umask(before);
  EXPECT_EQ(mode_of(folder / "a"), 0640u);
}

TEST(AtomicFile, SomeoneElseMayCreateTheFileMeanwhile) {
  const Folder folder;
  AtomicFile file(folder / "a");
  file.write("ours");
  write_file(folder / "a", "theirs");
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "ours");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, FollowsLinks) {
  const Folder folder;
  fs::create_directory(folder / "there");
  write_file(folder / "there/file", "old");
  fs::create_symlink("there/link", folder / "a");
  fs::create_symlink("file", folder / "there/link");
  write_atomically(folder / "a", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "a"));
  EXPECT_TRUE(fs::is_symlink(folder / "there/link"));
  EXPECT_EQ(read_file(folder / "there/file"), "new");

  fs::create_symlink("there/fresh", folder / "dangling");
  write_atomically(folder / "dangling", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_file(folder / "there/fresh"), "new");

  fs::create_symlink("loop", folder / "loop");
  EXPECT_NE(error_of([&] { write_atomically(folder / "loop", "new"); }).find("symbolic links"),
            std::string::npos);
}

TEST(AtomicFile, WorksOnRelativePaths) {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  {
    AtomicFile file("a");
    fs::current_path(before);  // it stays in the folder where it began
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(AtomicFile, SaysWhyAPathCannotBeWritten) {
  const Folder folder;
  const auto error = [&](const std::string& path) {
    return error_of([&] { write_atomically(path, "new"); });
  };
  EXPECT_EQ(error(folder / "no/a"), "cannot write " + (folder / "no/a") + ": there is no folder '" +
                                        (folder / "no") + "'; create it first");
  EXPECT_EQ(error(folder.path()),
            "cannot write " + folder.path().string() + ": it is a folder; give the name of a file");
  EXPECT_NE(error(folder.path().string() + "/").find("it is a folder"), std::string::npos);
  EXPECT_NE(error("/dev/null").find("it is not a regular file"), std::string::npos);
  EXPECT_NE(error("").find("no file name given"), std::string::npos);
  write_file(folder / "file", "old");
  EXPECT_NE(error(folder / "file/a").find("Not a directory"), std::string::npos)
      << error(folder / "file/a");
  EXPECT_NE(error(folder / std::string(300, 'n')).find("File name too long"), std::string::npos);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

// Within: root, who may write everything, is no longer root.
class Nobody {
 public:
  Nobody() : before_(geteuid()) { EXPECT_EQ(seteuid(before_ == 0 ? 65534 : before_), 0); }
  ~Nobody() { EXPECT_EQ(seteuid(before_), 0); }

 private:
  uid_t before_;
};

TEST(AtomicFile, RefusesWhatMayNotBeWritten) {
  const Folder folder;
  write_file(folder / "a", "old");
  chmod((folder / "a").c_str(), 0444);
  chmod(folder.path().c_str(), 0777);
  const Nobody nobody;
  EXPECT_NE(error_of([&] { write_atomically(folder / "a", "new"); }).find("Permission denied"),
            std::string::npos);
  EXPECT_NE(error_of([&] { write_atomically("/refx-test", "new"); }).find("Permission denied"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "a"), "old");
}

// Within: writing more than `bytes` fails like on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST(AtomicFile, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const Folder folder;
  write_file(folder / "a", "old");
  const std::string big(100'000, 'x');
  {
    const SmallDisk disk(50'000);
    EXPECT_EQ(
        error_of([&] { write_atomically(folder / "a", big); }),
        "cannot write " + (folder / "a") + ": File too large; " + (folder / "a") + " is unchanged");
    EXPECT_NE(error_of([&] { write_atomically(folder / "b", big); }).find("; nothing was written"),
              std::string::npos);
    EXPECT_NE(error_of([&] {
                write_with_refx(folder / "a", "a", {{"x", big}});
              }).find("is unchanged"),
              std::string::npos);
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace refx::testing
