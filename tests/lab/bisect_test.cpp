// SPDX-License-Identifier: Apache-2.0

#include "refx/bisect.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "archive/files.h"
#include "kit.h"

namespace refx {
namespace {

using namespace testing;
using Sets = std::vector<std::vector<int>>;

// A transformation of the user's own: multiplies by the next of 0, 1/2, 1. At most of its sites
// nothing comes of it.
class Raise : public ReversibleTransformation {
 public:
  std::string name() const override { return "raise"; }
  Findings find(const Model& model) const override {
    Findings all;
    int i = 0;
    for (NodeId id : model.graph()) {
      const Node& node = model.graph()[id];
      if (node.target != "aten.mul.Scalar") continue;
      if (factor(node) < 1) all.sites.push_back({fmt::format("s{}", i), {id}});
      ++i;
    }
    return all;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    editor.set_arg(site.nodes[0], 1, factor(editor.graph()[site.nodes[0]]) + 0.5);
    return std::nullopt;
  }

 private:
  static double factor(const Node& node) { return *node.args[1].get<double>(); }
};

// s0 … are 0 for an input of ones, and 1 after two steps each. The result is 0 unless all of one of
// these sets are 1.
Model planted(int sites, const Sets& sets) {
  Builder b;
  const NodeId x = b.input("x");
  std::vector<NodeId> s;
  for (int i = 0; i < sites; ++i) s.push_back(b.call("aten.mul.Scalar", {x, 0.0}));
  NodeId sum = b.call("aten.mul.Tensor", {x, 0.0});
  for (const auto& set : sets) {
    NodeId all = b.call("aten.mul.Tensor", {x, 0.5 - static_cast<double>(set.size())});
    for (int i : set) all = b.call("aten.add.Tensor", {all, s[static_cast<std::size_t>(i)]});
    sum = b.call("aten.add.Tensor", {sum, b.call("aten.relu.default", {all})});
  }
  return b.build(sum);
}

Model raised(const Model& original) {
  Model model = original;
  Raise()(model);
  return model;
}

BisectCheck numbers_agree(const Model& model) {
  return check_tolerance(model,
                         {.measure = {.inputs = {{at::ones({1})}, "ones"}}, .tolerance = 1e-3});
}

// The steps that bring these sites to 1: each is built on the one that brought it to 1/2.
std::vector<StepId> steps_at(const Model& model, const std::vector<int>& sites) {
  std::vector<StepId> all;
  for (int i : sites) {
    StepId last;
    for (const Step& step : model.history())
      if (step.site == fmt::format("s{}", i)) last = step.id;
    all.push_back(last);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::vector<StepId>> found(const Bisection& b) {
  std::vector<std::vector<StepId>> all;
  for (const Culprit& culprit : b.culprits) all.push_back(culprit.steps);
  std::sort(all.begin(), all.end());
  return all;
}

// Sets without common sites.
Sets random_sets(int sites, std::mt19937& random) {
  std::vector<int> all(static_cast<std::size_t>(sites));
  for (int i = 0; i < sites; ++i) all[static_cast<std::size_t>(i)] = i;
  std::shuffle(all.begin(), all.end(), random);
  Sets sets;
  const std::size_t count = 1 + random() % 2;
  for (std::size_t i = 0, at = 0; i < count; ++i) {
    const std::size_t size = 1 + random() % 3;
    if (at + size > all.size()) break;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    sets.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    at += size;
  }
  if (sets.empty()) sets.push_back({all[0]});
  return sets;
}

TEST(Bisect, NamesPlantedCulpritsExactly) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int sites = 1 + static_cast<int>(random() % 40);
    const Sets sets = random_sets(sites, random);
    const Model model = raised(planted(sites, sets));
    ASSERT_EQ(model.history().size(), 2u * static_cast<unsigned>(sites));
    const BisectCheck check = numbers_agree(model);
    const Bisection result = bisect(model, check);
    std::vector<std::vector<StepId>> expected;
    for (const auto& set : sets) expected.push_back(steps_at(model, set));
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(found(result), expected) << "seed " << seed << "\n" << to_text(result, model);
    // One step of each set is taken back, and that is enough.
    EXPECT_EQ(result.repair.size(), sets.size());
    EXPECT_TRUE(result.repaired);
    Model repaired = model;
    reverse(repaired, result.repair, {.dependents = Dependents::cascade});
    EXPECT_EQ(check(repaired), BisectVerdict::good);
    EXPECT_TRUE(result.unsure.empty());
  }
}

TEST(Bisect, TakesFewChecks) {
  const Model model = raised(planted(64, {{5, 50}}));
  const Bisection result = bisect(model, numbers_agree(model));
  EXPECT_LE(result.checks, 24u);  // 2 ends, two searches among 128 steps, the set and its parts
}

TEST(Bisect, SaysWhatACulpritIsBuiltOn) {
  const Model model = raised(planted(3, {{1}}));
  const Bisection result = bisect(model, numbers_agree(model));
  ASSERT_EQ(result.culprits.size(), 1u);
  const StepId culprit = result.culprits[0].steps[0];
  ASSERT_EQ(result.culprits[0].built_on.size(), 1u);
  const Step& base = model.history()[result.culprits[0].built_on[0]];
  EXPECT_EQ(base.site, "s1");
  EXPECT_LT(base.id, culprit);
}

// ---- ends --------------------------------------------------------------------------------------

BisectCheck by_ids(std::function<BisectVerdict(const std::set<std::uint32_t>&)> judge) {
  return [judge = std::move(judge)](const Model& form) {
    std::set<std::uint32_t> ids;
    for (const Step& step : form.history()) ids.insert(step.id.value);
    return judge(ids);
  };
}

TEST(Bisect, NothingToFind) {
  const Model model = raised(planted(3, {}));
  const Bisection good = bisect(model, by_ids([](const auto&) { return BisectVerdict::good; }));
  EXPECT_TRUE(good.culprits.empty());
  EXPECT_EQ(to_text(good, model), "the check passes on the model\n");
  const Bisection bad = bisect(model, by_ids([](const auto&) { return BisectVerdict::bad; }));
  EXPECT_TRUE(bad.culprits.empty());
  EXPECT_EQ(to_text(bad, model), "the original fails the check, too: no step is to blame\n");
  EXPECT_EQ(good.checks, 2u);
}

TEST(Bisect, BothEndsMustBeJudged) {
  const Model model = raised(planted(2, {}));
  const auto skips = [&](bool original) {
    return error_of([&] {
      bisect(model, by_ids([&](const auto& ids) {
               return ids.empty() == original ? BisectVerdict::skip : BisectVerdict::bad;
             }));
    });
  };
  EXPECT_EQ(skips(true), "the check skips the original: it must judge both ends of the search");
  EXPECT_EQ(skips(false), "the check skips the model: it must judge both ends of the search");
}

// ---- skips -------------------------------------------------------------------------------------

TEST(Bisect, SearchesAroundFormsThatCannotBeJudged) {
  int exact = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int sites = 4 + static_cast<int>(random() % 20);
    const Model model = raised(planted(sites, {}));
    const auto steps = static_cast<std::uint32_t>(2 * sites);
    const std::uint32_t culprit = 1 + random() % steps, odd = 1 + random() % steps;
    const BisectCheck check = by_ids([&](const std::set<std::uint32_t>& ids) {
      // A third of the forms without some step do not even load.
      std::size_t hash = 0;
      for (std::uint32_t id : ids) hash = hash * 31 + id;
      if (!ids.empty() && ids.size() != steps && !ids.count(odd) && ids.size() > 2 && hash % 3 == 0)
        return BisectVerdict::skip;
      return ids.count(culprit) ? BisectVerdict::bad : BisectVerdict::good;
    });
    const Bisection result = bisect(model, check);
    ASSERT_FALSE(result.culprits.empty()) << seed;
    if (result.unsure.empty()) {
      ASSERT_EQ(result.culprits.size(), 1u) << seed;
      EXPECT_EQ(result.culprits[0].steps, std::vector<StepId>{StepId(culprit)}) << seed;
      ++exact;
    }
    for (const Culprit& c : result.culprits)
      EXPECT_TRUE(std::count(c.steps.begin(), c.steps.end(), StepId(culprit)) ||
                  std::count(c.built_on.begin(), c.built_on.end(), StepId(culprit)))
          << seed;
  }
  EXPECT_GE(exact, 150);
}

TEST(Bisect, SaysWhichStepsItIsNotSureOf) {
  const Model model = raised(planted(2, {}));  // steps 1 to 4; 3 and 4 are built on 1 and 2
  const Bisection result =
      bisect(model, by_ids([](const std::set<std::uint32_t>& ids) {
               if (ids.empty()) return BisectVerdict::good;
               return ids.size() == 4 ? BisectVerdict::bad : BisectVerdict::skip;
             }));
  ASSERT_EQ(result.culprits.size(), 1u);
  EXPECT_EQ(result.culprits[0].steps, result.unsure);
  EXPECT_FALSE(result.repaired);
  EXPECT_NE(to_text(result, model).find("uncertain: "), std::string::npos);
}

// ---- trained since ------------------------------------------------------------------------------

constexpr const char* kTwoLinears = R"(parameter q.weight : f32[8, 16]
parameter k.weight : f32[8, 16]
graph():
    %p_q : f32[8, 16] [num_users=1] = placeholder[target=p_q](state=q.weight)
    %p_k : f32[8, 16] [num_users=1] = placeholder[target=p_k](state=k.weight)
    %x : f32[4, 16] [num_users=2] = placeholder[target=x]
    %q : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q), kwargs = {})
    %k : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_k), kwargs = {})
    return (q, k))";

TEST(Bisect, FormsHaveWhatWasTrainedSince) {
  Model model = parse_filled(kTwoLinears);
  find_transformation("merge-linears")(model);
  for (StateId id : model.state()) at::Tensor(model.state().tensor(id)).fill_(3);
  std::size_t trained = 0;
  const Bisection result = bisect(model, [&](const Model& form) {
    for (StateId id : form.state())
      trained += at::Tensor(form.state().tensor(id)).eq(3).all().item<bool>();
    return form.history().empty() ? BisectVerdict::good : BisectVerdict::bad;
  });
  EXPECT_EQ(trained, 3u);  // the merged weight, and both in the original
  EXPECT_FALSE(result.discards);
  EXPECT_EQ(to_text(result, model).find("discarding"), std::string::npos);
}

TEST(Bisect, TheRepairSaysWhenItDropsWhatWasTrained) {
  Model model = parse_filled(R"(parameter c.weight : f32[4, 3, 3, 3]
parameter bn.weight : f32[4]
parameter bn.bias : f32[4]
buffer bn.running_mean : f32[4]
buffer bn.running_var : f32[4]
graph():
    %p_w : f32[4, 3, 3, 3] [num_users=1] = placeholder[target=p_w](state=c.weight)
    %p_g : f32[4] [num_users=1] = placeholder[target=p_g](state=bn.weight)
    %p_b : f32[4] [num_users=1] = placeholder[target=p_b](state=bn.bias)
    %b_m : f32[4] [num_users=1] = placeholder[target=b_m](state=bn.running_mean)
    %b_v : f32[4] [num_users=1] = placeholder[target=b_v](state=bn.running_var)
    %x : f32[2, 3, 8, 8] [num_users=1] = placeholder[target=x]
    %conv : f32[2, 4, 6, 6] [num_users=1] = call_function[target=aten.conv2d.default](args = (%x, %p_w), kwargs = {})
    %bn : f32[2, 4, 6, 6] [num_users=1] = call_function[target=aten.batch_norm.default](args = (%conv, %p_g, %p_b, %b_m, %b_v, False, 0.1, 1e-05, True), kwargs = {})
    return bn)");
  ASSERT_EQ(find_transformation("fuse-batch-norm-2d-in-conv-2d")(model).steps.size(), 1u);
  for (StateId id : model.state()) at::Tensor(model.state().tensor(id)).fill_(3);
  const Bisection result = bisect(model, [&](const Model& form) {
    return form.history().empty() ? BisectVerdict::good : BisectVerdict::bad;
  });
  EXPECT_TRUE(result.discards);
  EXPECT_EQ(to_text(result, model), R"(the check fails because of this step:
  1  fuse-batch-norm-2d-in-conv-2d  {c,bn}
2 checks; the check passes after
  reverse 1 with the steps that build on it, discarding later changes of weights
)");
  Bisection several = result;
  several.repair = {StepId(1), StepId(2)};
  EXPECT_NE(to_text(several, model).find("reverse 1, 2 with the steps that build on them, "),
            std::string::npos);
}

// ---- a search that was cut short ---------------------------------------------------------------

class BisectJournal : public ::testing::Test {
 protected:
  // Ends like a kill after so many checks.
  Bisection search(std::size_t checks, const std::string& key = "k") {
    std::size_t done = 0;
    const BisectCheck check = [&](const Model& form) {
      if (done++ == checks) throw Error("killed");
      return judge_(form);
    };
    return bisect(model_, check, {.journal = path_, .key = key});
  }

  const testing::Folder folder_;
  const std::string path_ = folder_ / "journal.jsonl";
  const Model model_ = raised(planted(30, {{3, 21}}));
  const BisectCheck judge_ = numbers_agree(model_);
};

TEST_F(BisectJournal, Resumes) {
  const Bisection whole = search(1000);
  EXPECT_FALSE(std::filesystem::exists(path_));
  for (std::size_t cut = 1; cut < whole.checks; ++cut) {
    EXPECT_EQ(error_of([&] { search(cut); }), "killed");
    const Bisection rest = search(1000);
    EXPECT_EQ(found(rest), found(whole));
    EXPECT_EQ(rest.remembered, cut);
    EXPECT_EQ(rest.checks, whole.checks - cut);
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_F(BisectJournal, PassesOverALineThatWasCutShort) {
  EXPECT_EQ(error_of([&] { search(5); }), "killed");
  std::ofstream(path_, std::ios::app) << R"({"key": "ab)";
  EXPECT_EQ(error_of([&] { search(2); }), "killed");  // goes on behind it
  const Bisection rest = search(1000);
  EXPECT_EQ(rest.remembered, 7u);
  EXPECT_EQ(rest.culprits.size(), 1u);
}

TEST_F(BisectJournal, DoesNotTakeTheVerdictsOfAnotherCheck) {
  EXPECT_EQ(error_of([&] { search(5); }), "killed");
  EXPECT_EQ(search(1000, "another").remembered, 0u);
}

TEST_F(BisectJournal, ReportsProgressAndStopsOnRequest) {
  std::vector<std::string> seen;
  const auto stop = [&](const Progress& now) {
    seen.push_back(now.what);
    if (seen.size() == 3) throw Error("stop");
  };
  EXPECT_EQ(error_of([&] { bisect(model_, judge_, {.progress = stop}); }), "stop");
  EXPECT_EQ(seen[0], "check 1: 60 of 60 steps");
  EXPECT_EQ(seen[2], "check 2: 0 of 60 steps");
}

}  // namespace
}  // namespace refx
