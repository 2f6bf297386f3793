// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/program.h"
#include "refx/pt2.h"
#include "refx/registry.h"
#include "refx/reverse.h"

namespace refx::testing {
namespace {

constexpr const char* kFastLog = R"(1  fuse-batch-norm-1d-in-linear       {hidden,norm}
2  merge-linears                      attention.{query,key,value}
3  change-true-div-to-mul-by-inverse  attention.div
4  fuse-bias-in-linear                attention.{query,key,value}
5  fuse-bias-in-linear                hidden
)";

// By name, so that a transformation which is added changes no result here.
constexpr const char* kRewrites =
    "fuse-batch-norm-1d-in-linear merge-linears change-true-div-to-mul-by-inverse "
    "fuse-bias-in-linear";

class Files : public ProgramOnFiles {
 protected:
  std::string bytes(const char* name) const { return contents(folder_ / "work" / name); }
  bool exists(const char* name) const { return std::filesystem::exists(folder_ / "work" / name); }
  void apply_all() const {
    const Result result = run(fmt::format("apply small.pt2 {} -o fast.pt2", kRewrites));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  // With one blank where there are several.
  static std::string squeezed(std::string text) {
    const auto both = [](char a, char b) { return a == ' ' && b == ' '; };
    text.erase(std::unique(text.begin(), text.end(), both), text.end());
    return text;
  }
  // The steps of a file, as `log` shows them.
  std::string log(const char* name) const { return run(fmt::format("log {}", name)).out; }
};

// ---- inspect -----------------------------------------------------------------------------------

TEST_F(Files, InspectSummarisesTheModelAndWhatCouldBeDone) {
  const Result result = run("inspect small.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const std::size_t split = std::min(result.out.find("\ntransformation "), result.out.size());
  EXPECT_EQ(result.out.substr(0, split), R"(small.pt2: 15 operators in 34 nodes
history: no steps

inputs
  x  f32[s77{2}, 3, 16]

dynamic dimensions
  s77  1 to 64

state
  parameters  14 tensors  1008 elements    4.0 kB
  buffers      3 tensors    17 elements  72 bytes

operators
  aten.add.Tensor          1
  aten.batch_norm.default  1
  aten.div.Tensor          1
  aten.linear.default      6
  aten.matmul.default      2
  aten.mean.dim            1
  aten.relu.default        1
  aten.softmax.int         1
  aten.transpose.int       1
)");
  const std::string found = squeezed(result.out.substr(split));
  const std::string with_lossy = squeezed(run("inspect small.pt2 --lossy").out);
  const Model model = load((folder_ / "work" / "small.pt2").string());
  std::size_t idle = 0;
  for (const auto& t : registry()) {
    const std::string row = "\n" + t->name() + " ";
    const Findings here = t->find(model);
    const bool finds = !here.sites.empty() || !here.refusals.empty();
    EXPECT_EQ(found.find(row) != found.npos, finds && t->preserves_computation()) << row << found;
    EXPECT_EQ(with_lossy.find(row) != found.npos, finds) << row << with_lossy;
    idle += t->preserves_computation() && !finds;
  }
  EXPECT_NE(found.find(fmt::format("\n{} other transformations: no sites\n", idle)), found.npos)
      << found;
  const auto expect_rows = [](const std::string& text, std::initializer_list<const char*> rows) {
    for (const char* row : rows)
      EXPECT_NE(text.find(fmt::format("\n{}\n", row)), text.npos) << row << text;
  };
  expect_rows(
      found,
      {"transformation sites refused", "fuse-batch-norm-1d-in-linear 1 0", "merge-linears 1 0",
       "change-true-div-to-mul-by-inverse 1 0", "fuse-bias-in-linear 4 2", "sites",
       " fuse-batch-norm-1d-in-linear {hidden,norm}", " merge-linears attention.{query,key,value}",
       " change-true-div-to-mul-by-inverse attention.div",
       "`refx inspect small.pt2 NAME` lists the sites of a transformation that `all` "
       "leaves out"});
  // What `all` leaves out is counted, and listed where it is asked for.
  EXPECT_EQ(found.find("\n fuse-bias-in-linear attention"), found.npos) << found;
  expect_rows(
      squeezed(run("inspect small.pt2 fuse-bias-in-linear").out),
      {" fuse-bias-in-linear attention.query", " fuse-bias-in-linear attention.key",
       " fuse-bias-in-linear attention.value", " fuse-bias-in-linear hidden", "refused, and why",
       " fuse-bias-in-linear left 'right.weight' is used in more than one place",
       " fuse-bias-in-linear right.linear_5 'right.weight' is used in more than one place"});
}

TEST_F(Files, InspectTellsOfTheHistory) {
  apply_all();
  const std::string out = run("inspect fast.pt2").out;
  EXPECT_NE(out.find("\nhistory: 5 steps (`refx log fast.pt2` lists them)\n"), out.npos) << out;
}

TEST_F(Files, InspectAsJson) {
  const Result result = run("inspect plain.pt2 --json");
  EXPECT_EQ(result.code, 0);
  check_json(result.out);
  EXPECT_EQ(result.out, R"({
  "model": "plain.pt2",
  "nodes": 3,
  "steps": 0,
  "detached": {"tensors": 0, "bytes": 0},
  "inputs": [
    {"name": "input", "type": "f32[2]"}
  ],
  "dynamic_dimensions": {},
  "state": {
    "parameters": {"tensors": 0, "elements": 0, "bytes": 0},
    "buffers": {"tensors": 0, "elements": 0, "bytes": 0},
    "constants": {"tensors": 0, "elements": 0, "bytes": 0}
  },
  "operators": {"aten.relu.default": 1},
  "refused_operators": [],
  "sites": [],
  "refusals": []
}
)");
  const std::string small = run("inspect small.pt2 --json --graph").out;
  check_json(small);
  EXPECT_NE(small.find(R"("s77": {"min": 1, "max": 64})"), small.npos) << small;
  EXPECT_NE(small.find(R"("graph": "parameter attention.query.weight : )"), small.npos) << small;
}

TEST_F(Files, InspectPrintsTheGraph) {
  const Result result = run("inspect small.pt2 --graph");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.out.starts_with("parameter attention.query.weight : f32[16, 16]"))
      << result.out;
  EXPECT_NE(result.out.find("\ngraph():\n"), result.out.npos);
}

// ---- apply -------------------------------------------------------------------------------------

TEST_F(Files, ApplySaysWhatWasDoneAndWhatToDoNext) {
  const Result result = run(fmt::format("apply small.pt2 {} -o fast.pt2", kRewrites));
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(exists("fast.pt2"));
  EXPECT_EQ(result.out,
            R"(step  transformation                     site                         refused because
   1  fuse-batch-norm-1d-in-linear       {hidden,norm}
   2  merge-linears                      attention.{query,key,value}
   3  change-true-div-to-mul-by-inverse  attention.div
   4  fuse-bias-in-linear                attention.{query,key,value}
   5  fuse-bias-in-linear                hidden
   -  fuse-bias-in-linear                left                         'right.weight' is used in more than one place
   -  fuse-bias-in-linear                right.linear_5               'right.weight' is used in more than one place

aten.batch_norm.default        1 -> 0
aten.constant_pad_nd.default   0 -> 2
aten.div.Tensor                1 -> 0
aten.linear.default            6 -> 4
aten.mul.Tensor                0 -> 1
aten.slice.Tensor              0 -> 3
all operators                 15 -> 17
)");
  EXPECT_TRUE(result.err.starts_with("wrote fast.pt2 (")) << result.err;
  EXPECT_TRUE(result.err.ends_with("\nnext: refx verify fast.pt2\n")) << result.err;
  EXPECT_EQ(log("fast.pt2"), kFastLog);
}

TEST_F(Files, ApplyAllGoesInTheOrderOfTheRegistry) {
  run("apply small.pt2 all -o fast.pt2");
  std::istringstream lines(log("fast.pt2"));
  std::vector<std::string> applied, known;
  for (std::string id, name, site; lines >> id >> name >> site;)
    if (applied.empty() || applied.back() != name) applied.push_back(name);
  for (const auto& t : registry())
    if (std::find(applied.begin(), applied.end(), t->name()) != applied.end())
      known.push_back(t->name());
  EXPECT_EQ(applied, known);
  EXPECT_EQ(applied, (std::vector<std::string>{"fuse-attention", "fuse-batch-norm-1d-in-linear",
                                               "merge-linears"}));
}

TEST_F(Files, ApplyTakesFormerNamesOfRules) {
  run("apply small.pt2 attention-written-out -o fast.pt2");
  EXPECT_TRUE(log("fast.pt2").starts_with("1  fuse-attention  ")) << log("fast.pt2");
  EXPECT_EQ(run("reverse fast.pt2 attention-written-out -o back.pt2").code, 0);
  EXPECT_TRUE(bytes("back.pt2") == bytes("small.pt2"));
}

TEST_F(Files, ApplyInTheOrderGiven) {
  run("apply small.pt2 change-true-div-to-mul-by-inverse merge-linears -o fast.pt2");
  EXPECT_EQ(log("fast.pt2"),
            "1  change-true-div-to-mul-by-inverse  attention.div\n"
            "2  merge-linears                      attention.{query,key,value}\n");
}

TEST_F(Files, ApplyTwiceDoesNothingAndSaysSo) {
  run("apply small.pt2 merge-linears -o fast.pt2");
  const std::string fast = bytes("fast.pt2");
  const Result copy = run("apply fast.pt2 merge-linears -o again.pt2");
  EXPECT_EQ(copy.code, 0);
  EXPECT_EQ(copy.out, "nothing to do: merge-linears has no site left; 1 step in the history\n");
  EXPECT_EQ(log("again.pt2"), log("fast.pt2"));

  EXPECT_EQ(run("apply small.pt2 merge-linears --exclude '*' --dry-run").out,
            "nothing to do: no site of merge-linears is left after --exclude\n");
  EXPECT_EQ(run("apply small.pt2 merge-linears fuse-bias-in-linear --exclude '*' --dry-run").out,
            "nothing to do: no site of the 2 transformations is left after --exclude\n");

  const Result same = run("apply fast.pt2 merge-linears -o ./fast.pt2");
  EXPECT_EQ(same.code, 0);
  EXPECT_EQ(same.err, "./fast.pt2 is unchanged\n");
  EXPECT_TRUE(bytes("fast.pt2") == fast);
}

TEST_F(Files, ApplyMayReplaceItsInput) {
  EXPECT_EQ(run("apply small.pt2 merge-linears -o small.pt2").code, 0);
  EXPECT_EQ(log("small.pt2"), "1  merge-linears  attention.{query,key,value}\n");
}

TEST_F(Files, ApplyAtChosenSites) {
  run("apply small.pt2 fuse-bias-in-linear --site 'attention.*' --exclude '*.key' -o fast.pt2");
  EXPECT_EQ(log("fast.pt2"),
            "1  fuse-bias-in-linear  attention.query\n"
            "2  fuse-bias-in-linear  attention.value\n");
  // The former name of --exclude adds to it.
  run("apply small.pt2 fuse-bias-in-linear --site 'attention.*' --except '*.value' "
      "--exclude '*.key' -o fast.pt2");
  EXPECT_EQ(log("fast.pt2"), "1  fuse-bias-in-linear  attention.query\n");
}

TEST_F(Files, ApplyRefusesPatternsThatMatchNothing) {
  expect_error("apply small.pt2 fuse-bias-in-linear --site attention.quary -o x.pt2",
               "--site 'attention.quary' matches no site; did you mean 'attention.query'?");
  expect_error("apply small.pt2 merge-linears --site 'decoder.*' -o x.pt2",
               "--site 'decoder.*' matches no site; `refx inspect small.pt2 merge-linears` lists "
               "the sites");
  expect_error("apply small.pt2 merge-linears --exclude hiden -o x.pt2",
               "--exclude 'hiden' matches nothing; did you mean 'hidden'?");
  expect_error("apply small.pt2 store-linear-int8 --exclude decoder -o x.pt2",
               "--exclude 'decoder' matches nothing; `refx inspect small.pt2 store-linear-int8` "
               "lists the sites");
  expect_error("inspect small.pt2 merge-linears --site decoder",
               "--site 'decoder' matches no site; `refx inspect small.pt2 merge-linears` lists the "
               "sites");
  expect_error("sensitivity small.pt2 store-linear-int8 --site decoder",
               "--site 'decoder' matches no site; `refx inspect small.pt2 store-linear-int8` lists "
               "the sites");
  expect_error("tune small.pt2 merge-linears --exclude decoder -o x.pt2",
               "--exclude 'decoder' matches nothing; `refx inspect small.pt2 merge-linears` lists "
               "the sites");
}

TEST_F(Files, ApplyLeavesAnExcludedLayerAloneUnderEveryName) {
  run("apply small.pt2 merge-linears fuse-bias-in-linear -o fast.pt2");
  for (const char* name : {"attention", "attention.key", "attention.key.weight", "linear_6"}) {
    const Result result = run("apply fast.pt2 store-linear-int8 --exclude " + std::string(name) +
                              " --dry-run --json");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find("attention"), std::string::npos) << name << result.out;
    EXPECT_NE(result.out.find(R"("site": "hidden")"), std::string::npos) << result.out;
  }
  const Result only = run("apply fast.pt2 store-linear-int8 --site attention.key --dry-run --json");
  EXPECT_NE(only.out.find(R"("site": "attention.{query,key,value}"})"), std::string::npos)
      << only.out;
  EXPECT_EQ(only.out.find("hidden"), std::string::npos) << only.out;
}

TEST_F(Files, ReverseTakesModulePaths) {
  run("apply small.pt2 merge-linears store-linear-int8 -o fast.pt2");
  EXPECT_EQ(run("reverse fast.pt2 attention.key --cascade -o less.pt2").code, 0);
  EXPECT_EQ(log("less.pt2").find("attention"), std::string::npos) << log("less.pt2");
  EXPECT_NE(log("less.pt2").find("hidden"), std::string::npos) << log("less.pt2");
}

TEST_F(Files, ApplyDryRunWritesNothing) {
  const std::string before = files();
  const Result result = run("apply small.pt2 merge-linears --dry-run");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "dry run: nothing was written\n");
  EXPECT_TRUE(result.out.starts_with("step  transformation  site\n   1  merge-linears   attention"))
      << result.out;
  EXPECT_TRUE(files() == before);
}

TEST_F(Files, ApplyAsJson) {
  const Result result = run(
      "apply small.pt2 merge-linears fuse-bias-in-linear --site 'attention.*' --json -q -o f.pt2");
  EXPECT_EQ(result.err, "");
  check_json(result.out);
  EXPECT_EQ(result.out, R"({
  "model": "small.pt2",
  "output": "f.pt2",
  "steps": [
    {"id": 1, "transformation": "merge-linears", "site": "attention.{query,key,value}"},
    {"id": 2, "transformation": "fuse-bias-in-linear", "site": "attention.{query,key,value}"}
  ],
  "refusals": [],
  "operators": {
    "before": {"aten.add.Tensor": 1, "aten.batch_norm.default": 1, "aten.div.Tensor": 1, "aten.linear.default": 6, "aten.matmul.default": 2, "aten.mean.dim": 1, "aten.relu.default": 1, "aten.softmax.int": 1, "aten.transpose.int": 1},
    "after": {"aten.add.Tensor": 1, "aten.batch_norm.default": 1, "aten.constant_pad_nd.default": 1, "aten.div.Tensor": 1, "aten.linear.default": 4, "aten.matmul.default": 2, "aten.mean.dim": 1, "aten.relu.default": 1, "aten.slice.Tensor": 3, "aten.softmax.int": 1, "aten.transpose.int": 1}
  }
}
)");
}

// ---- log ---------------------------------------------------------------------------------------

TEST_F(Files, LogAsJson) {
  run("apply small.pt2 merge-linears change-true-div-to-mul-by-inverse -o fast.pt2");
  const Result result = run("log fast.pt2 --json");
  check_json(result.out);
  EXPECT_EQ(result.out, R"([
  {"id": 1, "transformation": "merge-linears", "site": "attention.{query,key,value}", "numerics": "preserved", "nodes": ["p_attention_query_key_value_merged_weight", "p_attention_query_key_value_merged_bias", "linear_6", "linear", "linear_1", "linear_2"], "parameters": {}, "bytes": 3264, "detached": 0},
  {"id": 2, "transformation": "change-true-div-to-mul-by-inverse", "site": "attention.div", "numerics": "preserved", "nodes": ["div"], "parameters": {}, "bytes": 0, "detached": 0}
]
)");
}

TEST_F(Files, LogOfAModelWithoutSteps) {
  const Result result = run("log small.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "small.pt2 has no steps\n");
  EXPECT_EQ(run("log small.pt2 --quiet").err, "");
  EXPECT_EQ(run("log small.pt2 --json").out, "[]\n");
}

TEST_F(Files, LogNamesNodesThatALaterStepErased) {
  run("apply small.pt2 merge-linears fuse-bias-in-linear --site 'attention.*' -o fast.pt2");
  const std::string out = run("log fast.pt2 --json").out;
  EXPECT_NE(out.find("\"p_attention_query_key_value_merged_bias\""), out.npos) << out;
}

// ---- reverse -----------------------------------------------------------------------------------

TEST_F(Files, ReverseAllGivesTheOriginalFile) {
  apply_all();
  const Result result = run("reverse fast.pt2 --all -o back.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.err.starts_with("wrote back.pt2 (")) << result.err;
  EXPECT_EQ(result.out,
            R"(5  fuse-bias-in-linear                hidden                       reversed
4  fuse-bias-in-linear                attention.{query,key,value}  reversed
3  change-true-div-to-mul-by-inverse  attention.div                reversed
2  merge-linears                      attention.{query,key,value}  reversed
1  fuse-batch-norm-1d-in-linear       {hidden,norm}                reversed
no steps left: this is the original file, byte for byte
)");
  EXPECT_TRUE(bytes("back.pt2") == bytes("small.pt2"));
}

TEST_F(Files, AHistoryOfAnEarlierVersionIsTakenAtItsWord) {
  std::filesystem::copy_file("tests/data/pt2/encoder.all.pt2", folder_ / "work" / "old.pt2");
  const Result result = run("reverse old.pt2 --all -o back.pt2");
  EXPECT_TRUE(result.out.ends_with(
      "\nno steps left: this is the original file as recorded in the history of old.pt2\n"))
      << result.out;
}

TEST_F(Files, WhatWasTrainedIsNotTheOriginal) {
  apply_all();
  const auto reversed = [&](bool train) {
    Model model = load((folder_ / "work" / "fast.pt2").string());
    EXPECT_FALSE(is_original(model));
    at::Tensor weight(
        model.state().tensor(model.state().find("attention.query-key-value-merged.weight")));
    const at::NoGradGuard no_grad;
    if (train) weight.add_(1);
    reverse_all(model);
    return model;
  };
  EXPECT_TRUE(is_original(reversed(false)));
  EXPECT_FALSE(is_original(reversed(true)));
}

TEST_F(Files, ReverseOneStepByAnyOfItsNames) {
  apply_all();
  for (const char* what : {"2", "merge-linears"}) {
    const Result result = run(fmt::format("reverse fast.pt2 {} -o part.pt2", what));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out, R"(2  merge-linears        attention.{query,key,value}  reversed
4  fuse-bias-in-linear  attention.{query,key,value}  applied again as 6, 7, 8
6 steps left: `refx log part.pt2`
)");
  }
  run("reverse part.pt2 --all -o part.pt2");
  EXPECT_TRUE(bytes("part.pt2") == bytes("small.pt2"));
}

TEST_F(Files, ReverseSeveral) {
  apply_all();
  const Result result = run("reverse fast.pt2 3 hidden 3 -o part.pt2");
  EXPECT_EQ(result.out, R"(5  fuse-bias-in-linear                hidden         reversed
3  change-true-div-to-mul-by-inverse  attention.div  reversed
1  fuse-batch-norm-1d-in-linear       {hidden,norm}  reversed
2 steps left: `refx log part.pt2`
)");
}

TEST_F(Files, ReverseCascadesOrRefusesOnRequest) {
  apply_all();
  EXPECT_EQ(run("reverse fast.pt2 merge-linears --cascade -o part.pt2").out,
            R"(4  fuse-bias-in-linear  attention.{query,key,value}  reversed
2  merge-linears        attention.{query,key,value}  reversed
3 steps left: `refx log part.pt2`
)");
  const std::string before = files();
  const Result refused = run("reverse fast.pt2 merge-linears --refuse -o fast.pt2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("step 4 (fuse-bias-in-linear, attention.{query,key,value})"),
            refused.err.npos)
      << refused.err;
  EXPECT_TRUE(files() == before);
}

TEST_F(Files, ReverseAsJson) {
  apply_all();
  const Result result = run("reverse fast.pt2 2 --json -o part.pt2");
  check_json(result.out);
  EXPECT_EQ(result.out, R"({
  "output": "part.pt2",
  "steps": [
    {"id": 2, "transformation": "merge-linears", "site": "attention.{query,key,value}", "outcome": "reversed", "reapplied_as": []},
    {"id": 4, "transformation": "fuse-bias-in-linear", "site": "attention.{query,key,value}", "outcome": "reapplied", "reapplied_as": [6, 7, 8]}
  ],
  "steps_left": 6,
  "is_original": false
}
)");
}

TEST_F(Files, ReverseOfAMissingStep) {
  apply_all();
  expect_error("reverse fast.pt2 9 -o x.pt2", "there is no step 9; the steps are 1 to 5");
  ASSERT_EQ(run("apply small.pt2 merge-linears -o one.pt2").code, 0);
  expect_error("reverse one.pt2 9 -o x.pt2", "there is no step 9; the only one is 1");
  expect_error("reverse fast.pt2 1 merge-linear -o x.pt2",
               "no step matches 'merge-linear'; did you mean 'merge-linears'?");
  const Result none = run("reverse small.pt2 --all -o copy.pt2");
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(none.err.starts_with("small.pt2 has no steps to reverse\nwrote copy.pt2 ("));
  EXPECT_TRUE(bytes("copy.pt2") == bytes("small.pt2"));
}

// ---- diff --------------------------------------------------------------------------------------

TEST_F(Files, DiffOfTwoFiles) {
  const Result result = run("diff small.pt2 other.pt2");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, R"(--- small.pt2
+++ other.pt2
tensors: 1 changed
~ parameter hidden.bias : f32[8] requires_grad=True  (1 of 8 values differ, by up to 0.5)
)");
}

TEST_F(Files, DiffAgainstTheOriginal) {
  run("apply small.pt2 change-true-div-to-mul-by-inverse -o fast.pt2");
  const Result result = run("diff fast.pt2");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, R"(--- fast.pt2 (original)
+++ fast.pt2
nodes: 1 changed
@@ attention @@
- %div : f32[s77{2}, 3, 3] = call_function[target=aten.div.Tensor](args = (%matmul, 4.0), kwargs = {})
+ %div : f32[s77{2}, 3, 3] = call_function[target=aten.mul.Tensor](args = (%matmul, 0.25), kwargs = {})
)");
  const std::string two_files = run("diff small.pt2 fast.pt2").out;
  EXPECT_EQ(two_files.substr(two_files.find("nodes:")),
            result.out.substr(result.out.find("nodes:")));
}

TEST_F(Files, DiffOfEqualModels) {
  for (const char* files : {"small.pt2", "small.pt2 small.pt2"}) {
    const Result result = run(fmt::format("diff {}", files));
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("no difference between small.pt2")) << result.err;
  }
}

TEST_F(Files, DiffAsJson) {
  const Result result = run("diff small.pt2 other.pt2 --json");
  EXPECT_EQ(result.code, 1);
  check_json(result.out);
  EXPECT_EQ(result.out, R"({
  "before": "small.pt2",
  "after": "other.pt2",
  "equal": false,
  "interface": [],
  "tensors": [
    {"name": "hidden.bias", "path": "", "before": "parameter hidden.bias : f32[8] requires_grad=True", "after": "parameter hidden.bias : f32[8] requires_grad=True", "moved": false, "values": {"different": 1, "of": 8, "max_abs_difference": 0.5}}
  ],
  "modules": [],
  "mutations": [],
  "nodes": []
}
)");
}

// ---- forget ------------------------------------------------------------------------------------

TEST_F(Files, ForgetDropsTheHistoryAndItsBytes) {
  apply_all();
  const Result result = run("forget fast.pt2 -o slim.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.out.starts_with("5 steps forgotten, ")) << result.out;
  EXPECT_LT(bytes("slim.pt2").size(), bytes("fast.pt2").size());
  EXPECT_EQ(run("diff fast.pt2 slim.pt2").code, 0);
  EXPECT_EQ(log("slim.pt2"), "");
  EXPECT_EQ(run("forget slim.pt2 -o slim.pt2").out, "nothing to forget: slim.pt2 has no steps\n");

  const Result json = run("forget fast.pt2 --json -q -o slim.pt2");
  check_json(json.out);
  EXPECT_EQ(
      json.out,
      fmt::format("{{\n  \"output\": \"slim.pt2\",\n  \"steps\": 5,\n  \"bytes_before\": {},\n"
                  "  \"bytes_after\": {},\n  \"bytes_freed\": {}\n}}\n",
                  bytes("fast.pt2").size(), bytes("slim.pt2").size(),
                  bytes("fast.pt2").size() - bytes("slim.pt2").size()));
}

TEST_F(Files, ForgetHelpsWhereTheHistoryFitsNoMore) {
  const Result log_of = run("log foreign.pt2");
  EXPECT_EQ(log_of.code, 2);
  EXPECT_NE(log_of.err.find("another program has changed the model"), log_of.err.npos)
      << log_of.err;
  EXPECT_NE(log_of.err.find("`refx forget`"), log_of.err.npos);
  const Result result = run("forget foreign.pt2 -o mine.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.err.starts_with("the history cannot be read and is dropped: ")) << result.err;
  EXPECT_TRUE(result.out.starts_with("the history is forgotten, ")) << result.out;
  EXPECT_EQ(run("log mine.pt2").err, "mine.pt2 has no steps\n");
}

// ---- the frame ---------------------------------------------------------------------------------

TEST_F(Files, BadInputIsAnError) {
  shell("echo no model >text.pt2; mkdir folder.pt2");
  for (const char* command :
       {"inspect", "log", "diff", "apply -o x.pt2 --json", "forget -o x.pt2"}) {
    const std::string rest = std::string(command).starts_with("apply") ? "all" : "";
    for (const char* model : {"nosuch.pt2", "text.pt2", "folder.pt2"}) {
      const Result result = run(fmt::format("{} {} {}", command, model, rest));
      EXPECT_EQ(result.code, 2) << command << " " << model;
      EXPECT_EQ(result.out, "");
      EXPECT_NE(result.err.find(model), result.err.npos) << result.err;
    }
  }
  EXPECT_FALSE(exists("x.pt2"));
}

TEST_F(Files, MessagesCanBeTurnedOff) {
  const Result result = run("apply small.pt2 merge-linears -q -o fast.pt2");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out, "");
}

TEST_F(Files, ProgressIsForTerminals) {
  const std::string shown = on_terminal("apply small.pt2 merge-linears -o fast.pt2");
  EXPECT_NE(shown.find("\r\033[K[....................] 1/1 merge-linears\r\033[K"), shown.npos)
      << shown;
  EXPECT_EQ(on_terminal("apply small.pt2 merge-linears -q -o fast.pt2").find("1/1"), shown.npos);
  EXPECT_EQ(run("apply small.pt2 merge-linears -o fast.pt2").err.find("1/1"), shown.npos);
}

TEST_F(Files, DiffHasColoursOnATerminal) {
  run("apply small.pt2 change-true-div-to-mul-by-inverse -o fast.pt2");
  const std::string shown = on_terminal("diff fast.pt2");
  EXPECT_NE(shown.find("\033[31m- %div"), shown.npos) << shown;
  EXPECT_NE(shown.find("\033[32m+ %div"), shown.npos) << shown;
}

TEST_F(Files, ReadersMayStopEarly) {
  apply_all();
  const Result result = shell(
      "trap '' PIPE; \"$refx\" log fast.pt2 | head -1; \"$refx\" inspect fast.pt2 --graph | head "
      "-1 >/dev/null");
  EXPECT_EQ(result.out, "1  fuse-batch-norm-1d-in-linear       {hidden,norm}\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(Files, AnInterruptLeavesNothingHalfWritten) {
  apply_all();
  const std::string before = files();
  for (const char* after : {"0.02", "0.1", "0.2", "0.3", "0.4", "0.5"}) {
    shell(fmt::format("timeout -s INT {} \"$refx\" apply small.pt2 merge-linears -o x.pt2", after));
    if (exists("x.pt2")) {
      EXPECT_EQ(log("x.pt2"), "1  merge-linears  attention.{query,key,value}\n");
      shell("rm x.pt2");
    }
    EXPECT_TRUE(files() == before) << after;
  }
}

}  // namespace
}  // namespace refx::testing
