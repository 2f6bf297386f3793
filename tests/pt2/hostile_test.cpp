// SPDX-License-Identifier: Apache-2.0

// Files that were made to mislead: what refx and torch would read differently, and what would
// crash.

#include <gtest/gtest.h>

#include <filesystem>

#include "archive/files.h"
#include "kit.h"
#include "pt2/history_file.h"
#include "refx/pt2.h"
#include "refx/registry.h"
#include "refx/reverse.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* models = std::getenv("REFX_MODELS");
    if (!models || !fs::exists(models)) GTEST_SKIP() << "REFX_MODELS is not a folder";
    small_ = (fs::path(models) / "small.pt2").string();
    take(small_);
  }

  void take(const std::string& path) {
    records_ = read_all(path);
    std::erase_if(records_,
                  [](const auto& item) { return item.first == ".data/serialization_id"; });
  }

  // The records of the model with a step of every transformation that has a site in it.
  void take_rewritten() {
    Model model = load(small_);
    for (const auto& transformation : registry()) (*transformation)(model);
    save(model, folder_ / "rewritten.pt2");
    take(folder_ / "rewritten.pt2");
  }

  std::string& record(std::string_view name) {
    for (auto& [key, value] : records_)
      if (key == name) return value;
    throw std::runtime_error("no record " + std::string(name));
  }

  // What refx/history.json says of the rest, made right again.
  void refit() {
    std::string& history = record(kHistory);
    const auto at = history.find("\"fits\": \"") + 9;
    history.replace(at, 16,
                    program_fingerprint(model(), record(kWeightsConfig), record(kConstantsConfig)));
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

  std::string small_;
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
  expect_refused("the key 'graph_module' appears twice");
  model() = whole;
  std::string& config = record(kWeightsConfig);
  replace(config, "\"path_name\":", "\"path_name\": \"weight_1\", \"path_name\":");
  expect_refused("the key 'path_name' appears twice");
}

TEST_F(Hostile, TheProgramIsWhatTheHistoryMakesOfTheOriginal) {
  take_rewritten();
  load(file());
  replace(model(), "aten.relu.default", "aten.neg.default");
  refit();
  expect_refused("record 'models/model.json' is not what the steps of its history make");
}

TEST_F(Hostile, TheWeightsAreThoseOfTheHistory) {
  take_rewritten();
  const Contents whole = records_;
  replace(record(kWeightsConfig), "\"is_param\": true", "\"is_param\": false");
  refit();
  expect_refused("model_weights_config.json' is not what the steps");

  records_ = whole;  // another record for a weight
  const std::string& config = record(kWeightsConfig);
  const auto at = config.find("weight_", config.find("path_name"));
  const std::string weight = config.substr(at, config.find('"', at) - at);
  std::string other = record(std::string(kWeights) + weight);
  other[0] ^= 1;
  records_.emplace_back("data/weights/weight_x", other);
  replace(record(kWeightsConfig), "\"" + weight + "\"", "\"weight_x\"");
  refit();
  expect_refused("model_weights_config.json' is not what the steps");

  records_ = whole;  // a weight that only PyTorch sees
  replace(record(kWeightsConfig), "{\"config\": {",
          "{\"config\": {\"more\": {\"path_name\": \"" + weight +
              "\", \"is_param\": true, "
              "\"use_pickle\": true, \"tensor_meta\": null}, ");
  refit();
  expect_refused("model_weights_config.json' is not what the steps");
}

TEST_F(Hostile, RecordsThatOnlyTorchReadsAreRefused) {
  take_rewritten();
  records_.emplace_back("extra/more.txt", "more");
  expect_refused("record 'extra/more.txt' is not what the steps");
  take(small_);
  records_.emplace_back("data/weights/model.pt", "a pickle");
  expect_refused("'data/weights/model.pt' is of an older format");
}

TEST_F(Hostile, TensorsOfOneRecordHaveOneType) {
  std::string& config = record(kWeightsConfig);
  replace(config, "\"weight_1\"", "\"weight_0\"");
  const auto second = config.find("\"dtype\": ", config.find("\"dtype\": ") + 1);
  config.replace(second, 9, "\"dtype\": 6, \"was\": ");
  expect_refused("record 'data/weights/weight_0' has tensors of two dtypes");
}

TEST_F(Hostile, AListOfTensorsIsNotATensor) {
  for (const std::string_view config : {kWeightsConfig, kConstantsConfig}) {
    take(small_);
    const std::string name(config.substr(config.rfind('/') + 1));
    replace(record(config), "{\"config\": {",
            "{\"config\": {\"more\": {\"path_name\": \"" + name +
                "\", \"is_param\": false, \"use_pickle\": true, \"tensor_meta\": null}" +
                (config == kWeightsConfig ? ", " : ""));
    expect_refused("record '" + std::string(config) + "' lists the tensors and holds none");
  }
}

TEST_F(Hostile, ArgumentsGoToTheirNames) {
  const auto swap = [&](std::string_view a, std::string_view b) {
    replace(model(), a, "\"name\": \"\"");
    replace(model(), b, a);
    replace(model(), "\"name\": \"\"", b);
  };
  const std::string whole = model();
  swap("\"name\": \"input\"", "\"name\": \"weight\"");
  expect_refused("argument 'weight' stands where torch takes 'input'");
}

TEST_F(Hostile, TensorsHaveFewDimensions) {
  const std::string whole = model();
  const auto with = [&](std::string_view size, int count) {
    std::string list = "[";
    for (int i = 0; i < count; ++i) list += (i ? ", " : "") + std::string(size);
    model() = whole;
    replace(model(), "\"sizes\": [", "\"sizes\": " + list + "], \"was\": [");
  };
  const auto expression = [](const std::string& text) {
    return "{\"as_expr\": {\"expr_str\": \"" + text + "\", \"hint\": null}}";
  };
  with(expression("Symbol('s0')"), 20'000);
  expect_refused("a tensor of more than 64 dimensions");
  with(expression(std::string(20'000, 's')), 1);
  expect_refused("a symbolic size of 20000 characters, and refx takes 10000");
}

TEST_F(Hostile, TheReversedFileIsWhatItsDirectorySays) {
  take_rewritten();
  const Contents whole = records_;
  const auto refused = [&](std::string_view why) {
    write_file(folder_ / "back.pt2", "untouched");
    const std::string said = error_of([&] {
      Model model = load(file());
      reverse_all(model);
      save(model, folder_ / "back.pt2");
    });
    EXPECT_NE(said.find(why), said.npos) << said;
    EXPECT_EQ(read_file(folder_ / "back.pt2"), "untouched");
  };
  // Another name for a record in its header and the directory, so that PyTorch finds no such weight
  // or another one.
  std::string& skeleton = record("refx/skeleton");
  for (int i = 0; i < 2; ++i) replace(skeleton, "weights/weight_9", "weights/weight_x");
  refused("is not the file that was first transformed");
  const auto noted = record(kHistory).find("\"original\": ");
  record(kHistory).erase(noted, record(kHistory).find("\"records\"") - noted);
  refused("an archive of other records");

  record("refx/skeleton") = whole[0].second;
  refused("cannot write");
}

TEST_F(Hostile, WhatIsProvenToBeTheOriginal) {
  const Model untouched = load(small_);
  EXPECT_TRUE(is_proven_original(untouched));
  take_rewritten();
  Model model = load(file());
  EXPECT_FALSE(is_proven_original(model));
  reverse_all(model);
  EXPECT_TRUE(is_proven_original(model));
}

}  // namespace
}  // namespace refx::testing
