// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "archive/files.h"

namespace refx::testing {

// The built program, driven from outside.

std::string contents(const std::filesystem::path& path);

// A file of tests/goldens, which `make goldens` writes. Fails the test if it does not exist.
std::string golden(const std::string& path);

// Drives the built program (its path is in REFX_PROGRAM) as a user does, in a folder of its own.
class Program : public ::testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out, err;
  };

  void SetUp() override;

  // `refx <arguments>`, as a shell reads them.
  Result run(const std::string& arguments) const;
  // Any command line of bash, in which $refx is the program.
  Result shell(const std::string& command) const;
  // Everything that `refx <arguments>` writes to a terminal; `setting` comes before it.
  std::string on_terminal(const std::string& arguments, const std::string& setting = "") const;

  // The program refuses with this message, writes nothing else, and leaves every file alone.
  void expect_error(const std::string& arguments, const std::string& message) const;
  // The commands that `refx --help` lists.
  std::vector<std::string> commands() const;
  // Names and bytes of all files in the folder.
  std::string files() const;

  std::string program_;
  const Folder place_;
  const std::filesystem::path folder_ = place_.path();
};

// The same with the files that make_models.py wrote to REFX_MODELS:
//   small.pt2   attention, a linear with batch norm, two linears with a tied weight
//   other.pt2   the same with one bias changed
//   plain.pt2   a ReLU
//   branch.pt2  torch.cond, which the executor does not run, and two linears
class ProgramOnFiles : public Program {
 protected:
  void SetUp() override;
};

// Throws if it is not JSON.
void check_json(const std::string& text);

}  // namespace refx::testing
