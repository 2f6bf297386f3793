// Files that were made to mislead: what refx and torch would read differently, and what would
// crash.

#include <gtest/gtest.h>

#include <filesystem>

#include "archive/files.h"
#include "kit.h"
#include "refx/pt2.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* models = std::getenv("REFX_MODELS");
    if (!models || !fs::exists(models)) GTEST_SKIP() << "REFX_MODELS is not a folder";
    records_ = read_all((fs::path(models) / "small.pt2").string());
    std::erase_if(records_, [](const auto& item) { return item.first.starts_with(".data/"); });
  }

  std::string& record(std::string_view name) {
    for (auto& [key, value] : records_)
      if (key == name) return value;
    throw std::runtime_error("no record " + std::string(name));
  }

  std::string& model() { return record("models/model.json"); }

  static void replace(std::string& text, std::string_view from, std::string_view to) {
    const auto at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
  }

  std::string file() const {
    write_with_refx(folder_ / "hostile.pt2", "small", records_);
    return folder_ / "hostile.pt2";
  }

  void expect_refused(std::string_view why) const {
    const std::string said = error_of([&] { load(file()); });
    EXPECT_NE(said.find(why), said.npos) << said;
    EXPECT_NE(said.find("hostile.pt2"), said.npos) << said;
  }

  Contents records_;
  Folder folder_;
};

TEST_F(Hostile, ABrokenObjectIsNotAnAbsentMember) {
  model() = R"({"schema_version":{"major":8},"x" 1,"graph_module":{}})";
  expect_refused("record 'models/model.json': ");
}

TEST_F(Hostile, KeysThatStandTwiceAreRefused) {
  load(file());
  const std::string whole = model();
  replace(model(), "\"graph_module\": {", "\"graph_module\": {}, \"graph\\u005fmodule\": {");
  expect_refused("the key 'graph_module' stands twice");
  model() = whole;
  std::string& config = record("data/weights/model_weights_config.json");
  replace(config, "\"path_name\":", "\"path_name\": \"weight_1\", \"path_name\":");
  expect_refused("the key 'path_name' stands twice");
}

}  // namespace
}  // namespace refx::testing
