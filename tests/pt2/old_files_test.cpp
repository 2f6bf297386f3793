// SPDX-License-Identifier: Apache-2.0

// Files that an earlier refx wrote (tests/data): they open, show their steps, and go back.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "archive/archive.h"
#include "archive/files.h"
#include "kit.h"
#include "refx/explain.h"
#include "refx/old_names.h"
#include "refx/pt2.h"
#include "refx/reverse.h"
#include "refx/verify.h"
#include "transforms/apply.h"

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
  EXPECT_EQ(is_proven_original(model), GetParam().starts_with("untidy") ||
                                           GetParam().starts_with("written-out") ||
                                           GetParam().starts_with("norms"));
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

TEST_P(OldFiles, EachStepIsReversedAlone) {
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

// Its approximate step is marked by a parameter, as earlier versions did.
TEST(OldFiles, KeepTheMarkOfApproximateSteps) {
  const std::string path = path_of("untidy.lossy");
  const Model model = load(path);
  const auto labels = read_log(path).value();
  ASSERT_EQ(labels.size(), model.history().size());
  std::size_t approximate = 0;
  for (const Step& step : model.history()) {
    const bool is_exact = step.transformation == "remove-no-ops";
    approximate += !is_exact;
    EXPECT_EQ(step.numerics, is_exact ? Numerics::preserved : Numerics::approximate) << step;
    EXPECT_EQ(is_lossy(step), !is_exact) << step;
  }
  EXPECT_GT(approximate, 0u);
  EXPECT_LT(approximate, labels.size());
  const Folder folder;
  save(model, folder / "again.pt2");
  const auto steps_in = [](const std::string& file) {
    const auto archive = Archive::open(file);
    return std::string(archive->read(archive->at("refx/history.json")));
  };
  EXPECT_EQ(steps_in(folder / "again.pt2"), steps_in(path)) << "as it was: nothing is stated twice";
  Model reversed = model;
  reverse_all(reversed);
  save(reversed, folder / "back.pt2");
  EXPECT_TRUE(read_file(folder / "back.pt2") == read_file(path_of("untidy")));
}

// The rules of this file have other names today.
class RenamedRules : public ::testing::Test {
 protected:
  Model model_ = load(path_of("written-out.all"));
};

TEST_F(RenamedRules, AreFoundByBothNames) {
  for (const OldName& known : old_names()) {
    EXPECT_EQ(find_transformation(known.old).name(), known.current);
    EXPECT_EQ(explain(known.old), explain(known.current));
    EXPECT_EQ(ships_as_exact(known.old), ships_as_exact(known.current)) << known.old;
  }
  EXPECT_TRUE(ships_as_exact("silu-written-out"));
  EXPECT_FALSE(ships_as_exact("linear-in-bf16"));
  EXPECT_EQ(error_of([] { find_transformation("silu-writen-out"); }),
            "there is no transformation 'silu-writen-out'; did you mean 'fuse-silu'?");
}

TEST_F(RenamedRules, TheirStepsAreSelectedByBothNames) {
  for (const char* name : {"linear-written-out", "fuse-linear"})
    EXPECT_EQ(model_.history().select(name), std::vector{StepId(2)}) << name;
  EXPECT_FALSE(is_lossy(model_.history()[StepId(2)]));
  EXPECT_EQ(maker_of(model_.history()[StepId(2)]), &find_transformation("fuse-linear"));
}

TEST_F(RenamedRules, ApplyAgainWhereAStepBelowIsReversed) {
  reverse(model_, "change-true-div-to-mul-by-inverse");
  EXPECT_EQ(log_of(model_),
            "2  linear-written-out  add\n4  silu-written-out  mul\n5  fuse-attention  matmul_2\n");
}

TEST_F(RenamedRules, AreReversedByTheTransformationAndRedone) {
  const std::string all = content(model_);
  for (const char* name : {"fuse-silu", "attention-written-out"}) {
    const Transformation& rule = find_transformation(name);
    EXPECT_FALSE(rule.get_transformed_nodes(model_).empty()) << name;
    const Outcome outcome = rule(model_, Reverse::yes);
    EXPECT_EQ(outcome.reversal.reversed.size(), 1u) << name;
  }
  EXPECT_EQ(log_of(model_),
            "1  change-true-div-to-mul-by-inverse  div\n2  linear-written-out  add\n");
  redo(model_);
  redo(model_);
  EXPECT_EQ(content(model_), all);
  reverse(model_, "fuse-silu");
  apply(model_, find_transformation("silu-written-out"));
  EXPECT_EQ(model_.history().back().transformation, "fuse-silu");
  EXPECT_TRUE(verify(model_).passed()) << to_text(verify(model_));
  reverse_all(model_);
  EXPECT_EQ(content(model_), content(load(path_of("written-out"))));
}

TEST(OldFiles, CoverEveryTransformation) {
  std::string logs;
  for (const std::string& name : rewritten_files()) logs += read_file(kFolder / (name + ".log"));
  for (const auto& transformation : registry()) {
    // Younger than these files, or a rule when they were written.
    if (dynamic_cast<const Rule*>(transformation.get()) ||
        all_names(transformation->name()).size() > 1 ||
        dynamic_cast<const InlineSubgraphs*>(transformation.get()) ||
        dynamic_cast<const StoreLinearTransposed*>(transformation.get()))
      continue;
    EXPECT_NE(logs.find(transformation->name()), std::string::npos) << transformation->name();
  }
}

}  // namespace
}  // namespace refx::testing
