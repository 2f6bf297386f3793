// SPDX-License-Identifier: Apache-2.0

// Files that an earlier refx wrote (tests/data): they open, show their steps, and go back.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "archive/files.h"
#include "kit.h"
#include "refx/original.h"
#include "refx/pt2.h"
#include "refx/reverse.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = "tests/data/pt2";

std::string path_of(const std::string& name) { return kFolder / (name + ".pt2"); }

std::string log_of(const Model& model) {
  std::ostringstream text;
  for (const Step& step : model.history()) text << step << '\n';
  return text.str();
}

// "encoder.all": the files with steps, by name.
std::vector<std::string> rewritten_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".log") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class OldFiles : public ::testing::TestWithParam<std::string> {
 protected:
  Model opened() const { return load(path_of(GetParam())); }
  // The file that was first transformed.
  static std::string original_path() { return path_of(GetParam().substr(0, GetParam().find('.'))); }

  // The model as it comes back from a file.
  Model saved(const Model& model) const {
    save(model, folder_ / "saved.pt2");
    return load(folder_ / "saved.pt2");
  }

  void expect_goes_back(Model model) const {
    reverse_all(model);
    validate(model);
    EXPECT_EQ(content(model), content(load(original_path())));
    save(model, folder_ / "back.pt2");
    EXPECT_TRUE(read_file(folder_ / "back.pt2") == read_file(original_path()))
        << "not the bytes of " << original_path();
  }

  const Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Data, OldFiles, ::testing::ValuesIn(rewritten_files()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// The first histories did not note it yet.
TEST_P(OldFiles, TheOriginalIsProvenWhereItWasNoted) {
  Model model = opened();
  reverse_all(model);
  EXPECT_EQ(is_proven_original(model), GetParam().starts_with("untidy"));
}

TEST_P(OldFiles, Open) {
  const Model model = opened();
  validate(model);
  check_contents(model);
  EXPECT_EQ(log_of(model), read_file(kFolder / (GetParam() + ".log")));
}

TEST_P(OldFiles, TheirStepsLeadToTheProgramThatPyTorchSees) {
  Model model = opened(), seen = load(path_of(GetParam()), {.history = false});
  EXPECT_TRUE(seen.history().empty());
  const auto x = tensors_in(model.forward(random_inputs(model)));
  const auto y = tensors_in(seen.forward(random_inputs(model)));
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(at::equal(x[i], y[i]));
}

TEST_P(OldFiles, ComputeWhatTheirOriginalsDo) {
  const Model original = load(original_path());
  expect_same_results(original, opened(), random_inputs(original));
}

TEST_P(OldFiles, GoBackAtOnce) { expect_goes_back(opened()); }

TEST_P(OldFiles, GoBackAfterBeingSavedAgain) {
  const Model model = saved(opened());
  EXPECT_EQ(log_of(model), log_of(opened()));
  EXPECT_EQ(content(model), content(opened()));
  expect_goes_back(model);
}

TEST_P(OldFiles, GoBackStepByStepFromEachEnd) {
  for (const bool newest_first : {true, false}) {
    Model model = opened();
    for (int i = 0; !model.history().empty(); ++i) {
      ASSERT_LT(i, 100);
      const auto steps = model.history().ids();
      reverse(model, newest_first ? steps.back() : steps.front());
      model = saved(model);
    }
    expect_goes_back(model);
  }
}

TEST_P(OldFiles, EachStepGoesBackAlone) {
  const Model original = load(original_path());
  for (const Dependents policy : {Dependents::reapply, Dependents::cascade})
    for (StepId id : opened().history().ids()) {
      Model model = opened();
      reverse(model, id, {.dependents = policy, .discard_changes = false});
      EXPECT_FALSE(model.history().contains(id));
      validate(model);
      const std::string less = content(model);
      model = saved(model);
      EXPECT_EQ(content(model), less) << "step " << id.value;
      expect_same_results(original, model, random_inputs(original));
      expect_goes_back(model);
    }
}

// What is left when steps are taken out today is what was left then.
TEST(OldFiles, ReversedInPartAreWhatTheyWereThen) {
  struct Case {
    const char *from, *what, *to;
  };
  for (const auto& [from, what, to] : {Case{"encoder.all", "1", "encoder.middle"},
                                       Case{"convolutions.all", "2", "convolutions.middle"},
                                       Case{"bfloat16.all", "merge-linears", "bfloat16.middle"}}) {
    Model model = load(path_of(from));
    reverse(model, what);
    const Model then = load(path_of(to));
    EXPECT_EQ(content(model), content(then)) << from;
    EXPECT_EQ(log_of(model), log_of(then)) << from;
  }
}

TEST(OldFiles, CoverEveryTransformation) {
  std::string logs;
  for (const std::string& name : rewritten_files()) logs += read_file(kFolder / (name + ".log"));
  for (const auto& transformation : registry()) {
    // Younger than these files.
    if (dynamic_cast<const Rule*>(transformation.get()) ||
        dynamic_cast<const InlineSubgraphs*>(transformation.get()) ||
        dynamic_cast<const StoreLinearTransposed*>(transformation.get()))
      continue;
    EXPECT_NE(logs.find(transformation->name()), std::string::npos) << transformation->name();
  }
}

}  // namespace
}  // namespace refx::testing
