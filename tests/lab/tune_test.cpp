// SPDX-License-Identifier: Apache-2.0

#include "refx/tune.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "archive/files.h"
#include "kit.h"
#include "lab/tune/tuned_site.h"
#include "transforms/site_filter.h"

namespace refx {
namespace {

using namespace testing;

// One relu that can be made faster, and one abs that can be made slower.
constexpr const char* kTwoSites = R"(graph():
    %x : f32[64, 256] [num_users=2] = placeholder[target=x]
    %slow0 : f32[64, 256] [num_users=1] = call_function[target=aten.flip.default](args = (%x, [0, 1]), kwargs = {})
    %slow1 : f32[64, 256] [num_users=1] = call_function[target=aten.flip.default](args = (%slow0, [0, 1]), kwargs = {})
    %slow2 : f32[64, 256] [num_users=1] = call_function[target=aten.clamp_min.default](args = (%slow1, 0), kwargs = {})
    %a : f32[64, 256] [num_users=1] = call_function[target=aten.relu.default](args = (%slow2,), kwargs = {})
    %b : f32[64, 256] [num_users=1] = call_function[target=aten.abs.default](args = (%x,), kwargs = {})
    %sum : f32[64, 256] [num_users=1] = call_function[target=aten.add.Tensor](args = (%a, %b), kwargs = {})
    return sum)";

const std::vector<NodeId> operators(const Model& model, std::string_view target) {
  std::vector<NodeId> all;
  for (NodeId id : model.graph())
    if (model.graph()[id].target == target) all.push_back(id);
  return all;
}

// What a relu gets from clamp_min(flip(flip(x)), 0) it may as well get from x: cheaper.
class Shortcut : public ReversibleTransformation {
 public:
  std::string name() const override { return "shortcut"; }
  Numerics numerics() const override { return Numerics::preserved; }
  Findings find(const Model& model) const override {
    Findings all;
    for (NodeId relu : operators(model, "aten.relu.default")) {
      const NodeId clamp = input(model, relu);
      if (model.graph()[clamp].target != "aten.clamp_min.default") continue;
      const NodeId second = input(model, clamp), first = input(model, second);
      all.sites.push_back({model.graph()[relu].name, {first, second, clamp, relu}});
    }
    return all;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    editor.set_arg(site.nodes[3], 0, input(editor.model(), site.nodes[0]));
    for (int i : {2, 1, 0}) editor.erase_node(site.nodes[static_cast<std::size_t>(i)]);
    return std::nullopt;
  }

 private:
  static NodeId input(const Model& model, NodeId id) {
    return *model.graph()[id].args[0].get<NodeId>();
  }
};

// abs with a detour.
class Detour : public ReversibleTransformation {
 public:
  std::string name() const override { return "detour"; }
  Numerics numerics() const override { return Numerics::preserved; }
  Findings find(const Model& model) const override {
    Findings all;
    for (NodeId id : operators(model, "aten.abs.default"))
      if (model.graph()[*model.graph()[id].args[0].get<NodeId>()].op == Opcode::placeholder)
        all.sites.push_back({model.graph()[id].name, {id}});
    return all;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    NodeId x = *editor.graph()[site.nodes[0]].args[0].get<NodeId>();
    x = editor.insert_before(site.nodes[0], {.target = "aten.neg.default", .args = {x}});
    for (int i = 0; i < 2; ++i)
      x = editor.insert_before(site.nodes[0],
                               {.target = "aten.flip.default", .args = {x, List{{0, 1}}}});
    editor.set_arg(site.nodes[0], 0, x);
    return std::nullopt;
  }
};

std::vector<TransformationPtr> both() {
  return {std::make_shared<Detour>(), std::make_shared<Shortcut>()};
}
TuneOptions quick() {
  return {.transformations = both(), .measure = {.threads = 1, .seconds = 0.2}};
}

// Tunes again, at most four times, if another process disturbed a measurement: the forms here
// differ by a factor of two or more in time, so a quiet machine always tells them apart.
Tuning undisturbed_tune(Model& model, const TuneOptions& options) {
  for (int attempt = 0;; ++attempt) {
    Model tuned = model;
    Tuning t = tune(tuned, options);
    const auto unsure = [](Speed speed) {
      return speed == Speed::unstable || speed == Speed::no_difference;
    };
    bool disturbed = !t.changed && t.proof.before.runs > 0 && unsure(t.proof.speed);
    for (const SiteClass& c : t.classes)
      for (const Trial& trial : c.trials) disturbed = disturbed || unsure(trial.speed);
    if (disturbed && attempt < 4) continue;
    model = std::move(tuned);
    return t;
  }
}

std::vector<std::string> live(const Model& model) {
  std::vector<std::string> all;
  for (const Step& step : model.history()) all.push_back(step.transformation + " " + step.site);
  return all;
}
using Names = std::vector<std::string>;

TEST(Tune, KeepsWhatPaysAndNotWhatLoses) {
  Model model = parse_filled(kTwoSites);
  const Tuning t = undisturbed_tune(model, quick());
  EXPECT_TRUE(t.changed) << to_text(t);
  EXPECT_EQ(live(model), Names{"shortcut a"}) << to_text(t);
  EXPECT_EQ(t.proof.speed, Speed::faster);
  ASSERT_EQ(t.classes.size(), 2u);
  EXPECT_EQ(t.classes[0].sites, Names{"a"});
  EXPECT_EQ(t.classes[0].why, "kept: shortcut is faster");
  EXPECT_EQ(t.classes[1].sites, Names{"b"});
  EXPECT_EQ(t.classes[1].trials.at(0).speed, Speed::slower);
  EXPECT_EQ(t.classes[1].why, "skipped: no variant is faster");
}

TEST(Tune, ReversesStepsThatDoNotPay) {
  Model model = parse_filled(kTwoSites);
  Detour()(model);
  Shortcut()(model);
  const Tuning t = undisturbed_tune(model, quick());
  EXPECT_TRUE(t.changed) << to_text(t);
  EXPECT_EQ(live(model), Names{"shortcut a"}) << to_text(t);
}

TEST(Tune, LeavesAModelThatGainsNothingAsItWas) {
  Model model = parse_filled(kTwoSites);
  const std::string before = snapshot(model);
  TuneOptions options = quick();
  options.transformations = {std::make_shared<Detour>()};
  const Tuning t = tune(model, options);
  EXPECT_FALSE(t.changed);
  EXPECT_EQ(snapshot(model), before);
  EXPECT_NE(to_text(t).find("no rewrite pays: the model is unchanged"), std::string::npos);
  // Nor one that is as good as it gets.
  Shortcut()(model);
  const std::string best = snapshot(model);
  EXPECT_FALSE(tune(model, quick()).changed);
  EXPECT_EQ(snapshot(model), best);
}

TEST(Tune, LeavesOtherStepsAlone) {
  Model model = parse_filled(kTwoSites);
  Detour()(model);
  TuneOptions options = quick();
  options.transformations = {std::make_shared<Shortcut>()};
  undisturbed_tune(model, options);
  EXPECT_EQ(live(model), (Names{"detour b", "shortcut a"}));
}

// ---- sites -------------------------------------------------------------------------------------

constexpr const char* kTwoLayers = R"(parameter 0.q.weight : f32[8, 16]
parameter 0.q.bias : f32[8]
parameter 0.k.weight : f32[8, 16]
parameter 0.k.bias : f32[8]
parameter 1.q.weight : f32[8, 16]
parameter 1.q.bias : f32[8]
parameter 1.k.weight : f32[8, 16]
parameter 1.k.bias : f32[8]
graph():
    %p0 : f32[8, 16] [num_users=1] = placeholder[target=p0](state=0.q.weight)
    %p1 : f32[8] [num_users=1] = placeholder[target=p1](state=0.q.bias)
    %p2 : f32[8, 16] [num_users=1] = placeholder[target=p2](state=0.k.weight)
    %p3 : f32[8] [num_users=1] = placeholder[target=p3](state=0.k.bias)
    %p4 : f32[8, 16] [num_users=1] = placeholder[target=p4](state=1.q.weight)
    %p5 : f32[8] [num_users=1] = placeholder[target=p5](state=1.q.bias)
    %p6 : f32[8, 16] [num_users=1] = placeholder[target=p6](state=1.k.weight)
    %p7 : f32[8] [num_users=1] = placeholder[target=p7](state=1.k.bias)
    %x : f32[4, 16] [num_users=2] = placeholder[target=x]
    %q : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p0, %p1), kwargs = {})
    %k : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p2, %p3), kwargs = {})
    %cat : f32[4, 16] [num_users=2] = call_function[target=aten.cat.default](args = ([%q, %k], 1), kwargs = {})
    %q1 : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%cat, %p4, %p5), kwargs = {})
    %k1 : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%cat, %p6, %p7), kwargs = {})
    %cat1 : f32[4, 16] [num_users=1] = call_function[target=aten.cat.default](args = ([%q1, %k1], 1), kwargs = {})
    return cat1)";

std::vector<TransformationPtr> named(const std::vector<std::string>& names) {
  std::vector<TransformationPtr> all;
  for (const TransformationPtr& t : registry())
    if (std::count(names.begin(), names.end(), t->name())) all.push_back(t);
  return all;
}

std::vector<TunedSite> sites_in(const Model& model, const std::vector<std::string>& names) {
  const SiteFilter everywhere;
  FilterUse filter(everywhere);
  return tuned_sites(model, model, named(names), filter);
}

TEST(TunedSite, SitesThatShareNodesAreOneAndAlikeOnesFormOneClass) {
  const Model model = parse_filled(kTwoLayers);
  const std::vector<TunedSite> parts = sites_in(model, {"merge-linears", "fuse-bias-in-linear"});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].key, parts[1].key);
  EXPECT_EQ(parts[0].core.size(), 2u);
  EXPECT_EQ(print_brief(parts[1].part), R"(parameter 1.q.weight : f32[8, 16]
parameter 1.q.bias : f32[8]
parameter 1.k.weight : f32[8, 16]
parameter 1.k.bias : f32[8]
graph():
    %cat : f32[4, 16] [num_users=2] = placeholder[target=cat]
    %p4 : f32[8, 16] [num_users=1] = placeholder[target=p4](state=1.q.weight)
    %p5 : f32[8] [num_users=1] = placeholder[target=p5](state=1.q.bias)
    %p6 : f32[8, 16] [num_users=1] = placeholder[target=p6](state=1.k.weight)
    %p7 : f32[8] [num_users=1] = placeholder[target=p7](state=1.k.bias)
    %q1 : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%cat, %p4, %p5), kwargs = {})
    %k1 : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%cat, %p6, %p7), kwargs = {})
    %cat1 : f32[4, 16] [num_users=1] = call_function[target=aten.cat.default](args = ([%q1, %k1], 1), kwargs = {})
    return (cat1,)
)");
}

TEST(TunedSite, OtherShapesAreAnotherClass) {
  std::string text = kTwoLayers;
  const auto replace = [&](const std::string& a, const std::string& b) {
    for (std::size_t at = 0; (at = text.find(a, at)) != text.npos; at += b.size())
      text.replace(at, a.size(), b);
  };
  replace("parameter 1.k.weight : f32[8, 16]", "parameter 1.k.weight : f32[9, 16]");
  replace("parameter 1.k.bias : f32[8]", "parameter 1.k.bias : f32[9]");
  replace("%p6 : f32[8, 16]", "%p6 : f32[9, 16]");
  replace("%p7 : f32[8]", "%p7 : f32[9]");
  replace("%k1 : f32[4, 8]", "%k1 : f32[4, 9]");
  replace("%cat1 : f32[4, 16]", "%cat1 : f32[4, 17]");
  const std::vector<TunedSite> parts = sites_in(parse_filled(text), {"merge-linears"});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NE(parts[0].key, parts[1].key);
}

TEST(TunedSite, ARunGivesTheValuesOfNodes) {
  const Model model = parse_filled(kTwoLayers);
  const NodeId cat = operators(model, "aten.cat.default")[0];
  const auto inputs = random_inputs(model);
  const auto values = values_of(model, {cat, operators(model, "aten.linear.default")[0]}, inputs);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].toTensor().sizes(), (std::vector<std::int64_t>{4, 16}));
  EXPECT_TRUE(at::equal(values[0].toTensor().narrow(1, 0, 8), values[1].toTensor()));
}

TEST(Tune, SearchesWaysThatCompete) {
  Model model = parse_filled(kTwoLayers);
  TuneOptions options = quick();
  options.transformations = named({"merge-linears", "fuse-bias-in-linear"});
  options.measure.seconds = 0.05;
  const Tuning t = tune(model, options);
  ASSERT_EQ(t.classes.size(), 1u);
  EXPECT_EQ(t.classes[0].sites, (Names{"0.{q,k}", "1.{q,k}"}));
  std::vector<Names> tried;
  for (const Trial& trial : t.classes[0].trials) tried.push_back(trial.moves);
  EXPECT_EQ(tried, (std::vector<Names>{{"merge-linears"},
                                       {"fuse-bias-in-linear"},
                                       {"merge-linears", "fuse-bias-in-linear"}}));
}

// ---- trials in files ---------------------------------------------------------------------------

class TuneFiles : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

  // Writes trials of kTwoSites that say that the detour pays and the shortcut does not.
  void write_lies(const Tuning& honest, const std::string& to) const {
    write_as(to, "\"faster\"", "\"slower\"");
    ASSERT_EQ(honest.classes.size(), 2u);
  }

  void write_as(const std::string& to, const char* detours, const char* others) const {
    std::ifstream in(path("honest.jsonl"));
    std::ofstream out(to);
    for (std::string line; std::getline(in, line);) {
      const bool detour = line.find("detour") != line.npos;
      const auto replace = [&](const char* key, const std::string& value) {
        const std::size_t at =
            line.find(fmt::format("\"{}\": ", key)) + std::string(key).size() + 4;
        line.replace(at, line.find(',', at) - at, value);
      };
      replace("speed", detour ? detours : others);
      replace("low", detour ? "2.0" : "0.5");
      out << line << "\n";
    }
  }

  const testing::Folder folder_;
};

TEST_F(TuneFiles, WhatIsKnownIsNotMeasuredAgainButTheResultIsProven) {
  Model model = parse_filled(kTwoSites);
  TuneOptions options = quick();
  options.trials = path("honest.jsonl");
  const Tuning honest = tune(model, options);
  write_lies(honest, path("lies.jsonl"));
  // The lies are believed, but the whole model does not gain by the detour.
  Model other = parse_filled(kTwoSites);
  options.trials = "";
  options.resume_from = path("lies.jsonl");
  const std::string before = snapshot(other);
  const Tuning t = undisturbed_tune(other, options);
  EXPECT_FALSE(t.changed) << to_text(t);
  EXPECT_EQ(snapshot(other), before);
  for (const SiteClass& c : t.classes)
    for (const Trial& trial : c.trials) EXPECT_TRUE(trial.remembered);
  EXPECT_NE(t.classes[1].why.find("skipped: alone, it makes the whole model slower ("),
            std::string::npos)
      << t.classes[1].why;
}

TEST_F(TuneFiles, WhatVariedTooMuchIsMeasuredAgain) {
  Model model = parse_filled(kTwoSites);
  TuneOptions options = quick();
  options.trials = path("honest.jsonl");
  tune(model, options);
  write_as(path("unsure.jsonl"), "\"unstable\"", "\"unstable\"");
  Model other = parse_filled(kTwoSites);
  options.trials = "";
  options.resume_from = path("unsure.jsonl");
  const Tuning t = tune(other, options);
  ASSERT_EQ(t.classes.size(), 2u);
  for (const SiteClass& c : t.classes)
    for (const Trial& trial : c.trials) EXPECT_FALSE(trial.remembered);
}

TEST_F(TuneFiles, TrialsOfAnotherSettingDoNotCount) {
  Model model = parse_filled(kTwoSites);
  TuneOptions options = quick();
  options.trials = path("one.jsonl");
  tune(model, options);
  options = quick();
  options.measure.threads = 2;
  options.resume_from = path("one.jsonl");
  for (const SiteClass& c : tune(model, options).classes)
    for (const Trial& trial : c.trials) EXPECT_FALSE(trial.remembered);
}

TEST_F(TuneFiles, AMissingFileIsAnError) {
  Model model = parse_filled(kTwoSites);
  TuneOptions options = quick();
  options.resume_from = path("none.jsonl");
  EXPECT_EQ(error_of([&] { tune(model, options); }),
            path("none.jsonl") + ": there is no such file of trials");
}

TEST(Tune, ProgressCanEndItAndNothingIsChanged) {
  Model model = parse_filled(kTwoSites);
  const std::string before = snapshot(model);
  for (int stop : {1, 5, 20}) {
    TuneOptions options = quick();
    int calls = 0;
    options.measure.progress = [&](const Progress& now) {
      EXPECT_LE(now.done, now.total);
      if (++calls == stop) throw Error("enough");
    };
    EXPECT_EQ(error_of([&] { tune(model, options); }), "enough");
    EXPECT_EQ(snapshot(model), before);
  }
}

}  // namespace
}  // namespace refx
