// SPDX-License-Identifier: Apache-2.0

// Saving over an archive while the system fails it: killed at every system call, and every call
// answered with an error. strace injects both into a child that was forked before it saves.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "archive/archive.h"
#include "archive/files.h"
#include "archive/writer.h"
#include "refx/error.h"

namespace refx::testing {
namespace {

bool is_traced(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("TracerPid:")) return std::stoi(line.substr(10)) != 0;
  return false;
}

// strace, attached to the process; false if it cannot be.
bool attach(pid_t process, const std::vector<std::string>& faults, pid_t& tracer) {
  tracer = fork();
  if (tracer == 0) {
    std::vector<std::string> words = {"strace", "-qq",      "-f", "-p", std::to_string(process),
                                      "-o",     "/dev/null"};
    for (const std::string& fault : faults) words.insert(words.end(), {"-e", "inject=" + fault});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    dup2(open("/dev/null", O_WRONLY), 2);
    execvp("strace", arguments.data());
    _exit(127);
  }
  while (!is_traced(process)) {
    if (waitpid(tracer, nullptr, WNOHANG) != 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct End {
  enum Kind { kSaved, kFailed, kKilled, kNotTraced } kind;
  std::string error = {};
};

template <class Save>
End run_with(const std::vector<std::string>& faults, const Save& save) {
  int channel[2];
  if (pipe(channel) != 0) return {End::kNotTraced};
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where only root may trace who is not its child
    raise(SIGSTOP);
    try {
      save();
    } catch (const Error& error) {
      // A fault may hit this write as well.
      while (::write(channel[1], error.what(), std::strlen(error.what())) < 0) {
      }
      _exit(1);
    } catch (...) {
      _exit(2);
    }
    _exit(0);
  }
  close(channel[1]);
  waitpid(child, nullptr, WUNTRACED);
  pid_t tracer;
  const bool traced = attach(child, faults, tracer);
  kill(child, traced ? SIGCONT : SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (traced) waitpid(tracer, nullptr, 0);
  End end{End::kNotTraced};
  char text[4096];
  for (ssize_t size; (size = read(channel[0], text, sizeof(text))) > 0;)
    end.error.append(text, size);
  close(channel[0]);
  if (traced && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) end.kind = End::kKilled;
  if (traced && WIFEXITED(status) && WEXITSTATUS(status) == 0) end.kind = End::kSaved;
  if (traced && WIFEXITED(status) && WEXITSTATUS(status) == 1) end.kind = End::kFailed;
  return end;
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("strace -qq -o /dev/null true 2>/dev/null") != 0)
      GTEST_SKIP() << "strace is missing or may not trace";
    write_with_torch(path_, some_contents());
    before_ = read_file(path_);
    source_ = Archive::open(path_);
    save();
    after_ = read_file(path_);
    ASSERT_NE(before_, after_);
  }

  // As a user saves over the model that is open: its records, and one that is new.
  void save() const {
    ArchiveWriter writer(path_, source_->root());
    for (const Record& record : source_->records())
      if (record.name != ".data/serialization_id")
        writer.add(record.name, {.archive = source_, .record = &record});
    writer.add("refx/history.json", {.memory = "[]"});
    if (!large_.empty()) writer.add("refx/tensors/0", {.memory = large_});
    writer.finish();
  }

  void restore() const {
    for (const std::string& name : folder_.names()) std::filesystem::remove(folder_ / name);
    if (exists_) write_file(path_, before_);
  }

  End run(std::vector<std::string> faults) const {
    restore();
    faults.insert(faults.end(), always_.begin(), always_.end());
    return run_with(faults, [&] { save(); });
  }

  bool is_old() const {
    return exists_ ? read_file(path_) == before_ : !std::filesystem::exists(path_);
  }
  bool is_new() const { return read_file(path_) == after_; }

  std::vector<std::string> leftovers() const {
    std::vector<std::string> names = folder_.names();
    std::erase(names, "m.pt2");
    return names;
  }

  // Kills the save at each such call in turn. Returns how many there were.
  int kill_at_each(const std::string& call) {
    for (int n = 1;; ++n) {
      const std::string fault = call + ":signal=KILL:when=" + std::to_string(n);
      const End end = run({fault});
      if (end.kind == End::kSaved) {
        EXPECT_TRUE(is_new() && leftovers().empty()) << fault;
        return n - 1;
      }
      EXPECT_EQ(end.kind, End::kKilled) << fault << ": " << end.error;
      EXPECT_TRUE(is_old() || is_new()) << fault;
      for (const std::string& name : leftovers()) {
        // Only between its naming and its renaming, unless it had to have a name from the start.
        EXPECT_TRUE(call == "renameat" || !always_.empty()) << fault << " leaves " << name;
        EXPECT_TRUE(name.starts_with(".refx-"));
      }
      if (HasFailure() || n > 100) return n;
    }
  }

  // Answers each such call in turn with the error. Returns how many there were.
  int fail_each(const std::string& call, const std::string& error, const std::string& text) {
    for (int n = 1;; ++n) {
      const std::string fault = call + ":error=" + error + ":when=" + std::to_string(n);
      const End end = run({fault});
      EXPECT_TRUE(leftovers().empty()) << fault << " leaves " << leftovers()[0];
      if (end.kind == End::kSaved) {
        EXPECT_TRUE(is_new()) << fault;
        return n - 1;
      }
      EXPECT_EQ(end.kind, End::kFailed) << fault;
      EXPECT_NE(end.error.find(text), std::string::npos) << fault << ": " << end.error;
      EXPECT_NE(end.error.find("m.pt2"), std::string::npos) << fault << ": " << end.error;
      // The last to be synced is the folder, when the new file is in its place already.
      const bool written = end.error.find("is written, but may not survive") != std::string::npos;
      EXPECT_TRUE(written ? is_new() : is_old()) << fault << ": " << end.error;
      if (HasFailure() || n > 100) return n;
    }
  }

  Folder folder_;
  std::string path_ = folder_ / "m.pt2";
  std::string before_, after_;
  std::shared_ptr<const Archive> source_;
  bool exists_ = true;
  std::vector<std::string> always_;
  std::string large_;
};

TEST_F(Faults, KilledAtAnyCallTheFileIsOldOrNew) {
  EXPECT_EQ(kill_at_each("openat"), 2);
  EXPECT_EQ(kill_at_each("fchmod"), 1);
  EXPECT_GE(kill_at_each("write"), 3);
  EXPECT_EQ(kill_at_each("fsync"), 2);
  EXPECT_EQ(kill_at_each("linkat"), 1);
  EXPECT_EQ(kill_at_each("renameat"), 1);
  EXPECT_GE(kill_at_each("close"), 2);
}

TEST_F(Faults, KilledAtAnyCallANewFileIsWholeOrAbsent) {
  exists_ = false;
  EXPECT_GE(kill_at_each("write"), 3);
  EXPECT_EQ(kill_at_each("fsync"), 2);
  EXPECT_EQ(kill_at_each("linkat"), 1);
  EXPECT_EQ(kill_at_each("renameat"), 0);
}

TEST_F(Faults, AnErrorIsReportedAndLeavesTheOldFileAlone) {
  EXPECT_GE(fail_each("write", "ENOSPC", ": No space left on device; "), 3);
  EXPECT_GE(fail_each("write", "EDQUOT", ": Disk quota exceeded; "), 3);
  EXPECT_GE(fail_each("pread64", "EIO", "cannot be read (Input/output error)"), 10);
  EXPECT_EQ(fail_each("fsync", "EIO", "Input/output error"), 2);
  EXPECT_EQ(fail_each("fchmod", "EPERM", "Operation not permitted"), 1);
  EXPECT_EQ(fail_each("linkat", "ENOSPC", "No space left on device"), 1);
  EXPECT_EQ(fail_each("renameat", "EIO", "Input/output error"), 1);
}

TEST_F(Faults, AnErrorLeavesNoNewFile) {
  exists_ = false;
  EXPECT_GE(fail_each("write", "EIO", ": Input/output error; nothing was written"), 3);
  EXPECT_EQ(fail_each("linkat", "EACCES", "Permission denied"), 1);
}

TEST_F(Faults, WithoutNamelessFilesItIsTheSame) {
  always_ = {"openat:error=EOPNOTSUPP:when=2"};
  EXPECT_EQ(run({}).kind, End::kSaved);
  EXPECT_TRUE(is_new() && leftovers().empty());
  EXPECT_GE(kill_at_each("write"), 3);
  EXPECT_EQ(kill_at_each("linkat"), 0);
  EXPECT_EQ(kill_at_each("renameat"), 1);
  EXPECT_GE(fail_each("write", "ENOSPC", "No space left on device"), 3);
  EXPECT_EQ(fail_each("fsync", "EIO", "Input/output error"), 2);
  EXPECT_EQ(fail_each("renameat", "EACCES", "Permission denied"), 1);
}

TEST_F(Faults, WhatTheDiskRefusesBeforeTheEndIsReported) {
  large_.assign(20 << 20, 'x');
  save();
  after_ = read_file(path_);
  EXPECT_EQ(fail_each("sync_file_range", "EIO", ": Input/output error; "), 2);
  EXPECT_EQ(fail_each("sync_file_range", "ENOSPC", ": No space left on device; "), 2);
  EXPECT_EQ(fail_each("sync_file_range", "ENOSYS", ""), 0);  // nor is it needed
  EXPECT_EQ(kill_at_each("sync_file_range"), 2);
}

TEST_F(Faults, InterruptedCallsAreMadeAgain) {
  for (const char* call : {"openat", "pread64", "write", "fsync"})
    for (int n = 1; n <= 3; ++n) {
      const End end = run({std::string(call) + ":error=EINTR:when=" + std::to_string(n)});
      EXPECT_EQ(end.kind, End::kSaved) << call << ' ' << n << ": " << end.error;
      EXPECT_TRUE(is_new() && leftovers().empty()) << call << ' ' << n;
    }
}

}  // namespace
}  // namespace refx::testing
