// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "archive/files.h"
#include "refx/pt2.h"
#include "refx/registry.h"

namespace refx::testing {

// A folder with small.pt2, as torch wrote it (see tests/cli/make_models.py).
class SmallFile : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    const char* models = std::getenv("REFX_MODELS");
    if (!models || !fs::exists(models)) GTEST_SKIP() << "REFX_MODELS is not a folder";
    fs::copy_file(fs::path(models) / "small.pt2", file("small.pt2"));
  }

  std::string file(const std::string& name) const { return folder_ / name; }

  // A model with a step of every transformation that has a site in it.
  Model rewritten() const {
    Model model = load(file("small.pt2"));
    for (const auto& transformation : registry()) (*transformation)(model);
    EXPECT_GE(model.history().size(), 3u);
    return model;
  }

  Folder folder_;
};

}  // namespace refx::testing
