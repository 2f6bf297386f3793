// SPDX-License-Identifier: Apache-2.0

#include "refx/verify.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "exec/own_state.h"
#include "io/fake_source.h"
#include "kit.h"
#include "lab/verify/constants.h"
#include "lab/verify/in_double.h"
#include "refx/bisect.h"
#include "rules/short_text.h"

namespace refx {
namespace {

using c10::IValue;
using namespace testing;

constexpr const char* kAttention = R"(parameter q.weight : f32[8, 16]
parameter q.bias : f32[8]
parameter k.weight : f32[8, 16]
parameter k.bias : f32[8]
graph():
    %p_q_weight : f32[8, 16] [num_users=1] = placeholder[target=p_q_weight](state=q.weight)
    %p_q_bias : f32[8] [num_users=1] = placeholder[target=p_q_bias](state=q.bias)
    %p_k_weight : f32[8, 16] [num_users=1] = placeholder[target=p_k_weight](state=k.weight)
    %p_k_bias : f32[8] [num_users=1] = placeholder[target=p_k_bias](state=k.bias)
    %x : f32[4, 16] [num_users=2] = placeholder[target=x]
    %q : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q_weight, %p_q_bias), kwargs = {})
    %k : f32[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_k_weight, %p_k_bias), kwargs = {})
    %div : f32[4, 8] [num_users=1] = call_function[target=aten.div.Tensor](args = (%q, 3.0), kwargs = {})
    return (div, k))";

constexpr const char* kDynamic = R"(graph():
    %x : f32[s0{2}, 4] [num_users=1] = placeholder[target=x]
    %y : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.div.Tensor](args = (%x, 3.0), kwargs = {})
    return y)";

TEST(Verify, RunsOnTheGivenBatchAndInputs) {
  Model model = parse_filled(kDynamic);
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  const Verification batch = verify(model, {.measure = {.batch = 7}});
  ASSERT_EQ(batch.sets.size(), 1u);
  EXPECT_EQ(batch.sets[0].origin, "generated with seed 0, batch 7");
  EXPECT_EQ(batch.sets[0].outputs[0].type, "f32[7, 4]");

  const Inputs two{{at::rand({2, 4})}, "two"}, three{{at::rand({3, 4})}, "three"};
  const Verification more = verify(model, {.measure = {.inputs = two}, .more_inputs = {three}});
  ASSERT_EQ(more.sets.size(), 2u);
  EXPECT_EQ(more.sets[0].origin, "two");
  EXPECT_EQ(more.sets[1].origin, "three");
}

Model rewritten() {
  Model model = parse_filled(kAttention);
  for (const char* name :
       {"merge-linears", "fuse-bias-in-linear", "change-true-div-to-mul-by-inverse"})
    find_transformation(name)(model);
  return model;
}

// The model with one tensor changed a little: what a wrong rewrite would do.
Model broken(const Model& model, const std::string& state, double by) {
  Model copy = model;
  Editor editor(copy);
  const StateId id = copy.state().find(state);
  editor.set_state(id, at::Tensor(copy.state().tensor(id)) + by);
  editor.commit({"break", "break", state, {}});
  return copy;
}

TEST(Verify, PassesWhatTheTransformationsDo) {
  const Verification result = verify(rewritten());
  EXPECT_TRUE(result.passed()) << to_text(result);
  EXPECT_TRUE(result.in_fp64) << result.why_not;
  ASSERT_EQ(result.sets.size(), 2u);
  EXPECT_EQ(result.sets[0].origin, "generated with seed 0");
  EXPECT_EQ(result.sets[1].origin, "generated with seed 1");
  ASSERT_EQ(result.sets[0].outputs.size(), 2u);
  const OutputCheck& check = result.sets[0].outputs[0];
  EXPECT_EQ(check.path, "output[0]");
  EXPECT_EQ(check.type, "f32[4, 8]");
  EXPECT_GT(check.original_error, 0);
  EXPECT_GT(check.native_error.error, 0);
  EXPECT_LT(check.relative(check.native_error.error), 1e-6);
  EXPECT_LT(check.relative(check.fp64_error.error), 1e-15);
  EXPECT_GT(check.l2, 0);
  EXPECT_EQ(check.fraction_exceeding, 0);
  EXPECT_TRUE(result.warnings.empty()) << to_text(result);
}

TEST(Verify, FailsOnASmallWrongChange) {
  const Model wrong = broken(parse_filled(kAttention), "k.bias", 1e-4);
  const Verification bad = verify(wrong);
  EXPECT_FALSE(bad.passed());
  EXPECT_TRUE(bad.sets[0].outputs[0].passed());
  EXPECT_FALSE(bad.sets[0].outputs[1].passed());
  EXPECT_NEAR(bad.sets[0].outputs[1].native_error.error, 1e-4, 1e-5);
  EXPECT_EQ(bad.sets[0].outputs[1].fraction_exceeding, 1);
  EXPECT_EQ(bad.answer(), VerifyVerdict::fail);
  EXPECT_EQ(bad.reason().substr(0, 10), "output[1]:") << bad.reason();
  EXPECT_NE(to_text(bad).find("FAIL"), std::string::npos);
}

// ---- the ends of fp64's range ------------------------------------------------------------------

constexpr const char* kTwoOfDoubles = R"(
input x : f64[4, 16]
parameter q.weight : f64[8, 16]
parameter k.weight : f64[8, 16]
q : f64[4, 8] = aten.linear.default(%x, %p_q_weight)
k : f64[4, 8] = aten.linear.default(%x, %p_k_weight)
d : f64[4, 8] = aten.div.Tensor(%k, 3.0)
return (q, d))";

void multiply(Editor& editor, double by) {
  for (const char* name : {"q.weight", "k.weight"}) {
    const StateId id = editor.state().find(name);
    editor.set_state(id, at::Tensor(editor.state().tensor(id)) * by);
  }
}

// Its outputs are a few times `size`.
Model of_size(double size) {
  Model model = parse_filled(long_text(kTwoOfDoubles));
  Editor editor(model);
  multiply(editor, size);
  editor.commit_as_origin();
  return model;
}

TEST(Verify, JudgesOutputsAtTheEndsOfTheRange) {
  for (const double size : {1e306, 1e200, 1e160, 1.0, 1e-160, 1e-170, 1e-300, 1e-312}) {
    SCOPED_TRACE(size);
    Model right = of_size(size);
    find_transformation("merge-linears")(right);
    find_transformation("change-true-div-to-mul-by-inverse")(right);
    ASSERT_EQ(right.history().size(), 2u);
    EXPECT_EQ(verify(right).verdict(), "pass") << to_text(verify(right));
    EXPECT_EQ(verify(right, {.tolerance = 1e-3}).verdict(), "pass");
    for (const double by : {-1.0, 1.01, 0.0, std::pow(3.0, -64)}) {
      SCOPED_TRACE(by);
      Model wrong = of_size(size);
      Editor editor(wrong);
      multiply(editor, by);
      editor.commit({"spoil", "spoil", "q", {}});
      EXPECT_EQ(verify(wrong).answer(), VerifyVerdict::fail) << to_text(verify(wrong));
      EXPECT_EQ(verify(wrong, {.tolerance = 1e-3}).answer(), VerifyVerdict::fail);
    }
  }
}

TEST(Verify, MeasuresLossAtTheEndsOfTheRange) {
  for (const double size : {1e306, 1e160, 1e-160, 1e-170, 1e-300}) {
    SCOPED_TRACE(size);
    for (const double by : {-1.0, 1.02, 0.0, std::pow(3.0, -64), std::pow(3.0, 64)}) {
      if (size * by > 1e307) continue;
      SCOPED_TRACE(by);
      Model wrong = of_size(size);
      Editor editor(wrong);
      multiply(editor, by);
      editor.commit({"round", "round", "q", {}, Numerics::approximate});
      const Verification result = verify(wrong, {.budget = 0.01});
      EXPECT_EQ(result.answer(), VerifyVerdict::fail) << to_text(result);
      EXPECT_NEAR(result.lossy->error / std::abs(by - 1), 1, 1e-6);
      EXPECT_EQ(verify(wrong, {.budget = 1.01 * std::abs(by - 1)}).verdict(), "lossy");
    }
  }
}

// The ratio of the two is beyond fp64's range.
TEST(Verify, AnErrorThatCannotBeMeasuredFails) {
  Model wrong = of_size(1e-300);
  Editor editor(wrong);
  for (int i = 0; i < 2; ++i) multiply(editor, 1e303);
  editor.commit({"round", "round", "q", {}, Numerics::approximate});
  EXPECT_EQ(verify(wrong).answer(), VerifyVerdict::fail) << to_text(verify(wrong));
  EXPECT_EQ(verify(wrong, {.tolerance = 1e300}).answer(), VerifyVerdict::fail);
}

// What was a bfloat16 in every run is one in the model now, and rounded as it was.
TEST(Verify, PassesWeightsThatAreStoredAsTheyWereCast) {
  Model model = parse_filled(R"(buffer w : f32[8, 16]
graph():
    %b_w : f32[8, 16] [num_users=1] = placeholder[target=b_w](state=w)
    %x : bf16[4, 16] [num_users=1] = placeholder[target=x]
    %cast : bf16[8, 16] [num_users=1] = call_function[target=aten.to.dtype](args = (%b_w, torch.bfloat16), kwargs = {})
    %y : bf16[4, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %cast), kwargs = {})
    return y)");
  find_transformation("fold-constants")(model);
  ASSERT_EQ(model.state().size(), 1u);
  const std::string folded = model.state()[*model.state().begin()].name;
  const Verification good = verify(model), bad = verify(broken(model, folded, 0.1));
  EXPECT_TRUE(good.passed()) << to_text(good);
  EXPECT_EQ(bad.answer(), VerifyVerdict::fail) << to_text(bad);
}

// ---- constants: tables that the original computes in every run ----------------------------------

// The frequencies stay in the model when the tables are stored.
constexpr const char* kRotary = R"(
input x : f32[2, 24, 8]
input time : f32[2, 1]
parameter q.weight : f32[8, 8]
parameter k.weight : f32[8, 8]
buffer inv_freq : f32[4]
positions : f32[24] = aten.arange.default(24) {dtype: torch.float32}
column : f32[24, 1] = aten.unsqueeze.default(%positions, 1)
angles : f32[24, 4] = aten.mul.Tensor(%column, %b_inv_freq)
both : f32[24, 8] = aten.cat.default([%angles, %angles], -1)
cos : f32[24, 8] = aten.cos.default(%both)
sin : f32[24, 8] = aten.sin.default(%both)
q : f32[2, 24, 8] = aten.linear.default(%x, %p_q_weight)
k : f32[2, 24, 8] = aten.linear.default(%x, %p_k_weight)
q1 : f32[2, 24, 4] = aten.slice.Tensor(%q, 2, 0, 4)
q2 : f32[2, 24, 4] = aten.slice.Tensor(%q, 2, 4, 8)
q3 : f32[2, 24, 4] = aten.neg.default(%q2)
q4 : f32[2, 24, 8] = aten.cat.default([%q3, %q1], -1)
q5 : f32[2, 24, 8] = aten.mul.Tensor(%q4, %sin)
q6 : f32[2, 24, 8] = aten.mul.Tensor(%q, %cos)
q7 : f32[2, 24, 8] = aten.add.Tensor(%q5, %q6)
k1 : f32[2, 24, 4] = aten.slice.Tensor(%k, 2, 0, 4)
k2 : f32[2, 24, 4] = aten.slice.Tensor(%k, 2, 4, 8)
k3 : f32[2, 24, 4] = aten.neg.default(%k2)
k4 : f32[2, 24, 8] = aten.cat.default([%k3, %k1], -1)
k5 : f32[2, 24, 8] = aten.mul.Tensor(%k4, %sin)
k6 : f32[2, 24, 8] = aten.mul.Tensor(%k, %cos)
k7 : f32[2, 24, 8] = aten.add.Tensor(%k5, %k6)
turned : f32[2, 8, 24] = aten.transpose.int(%k7, 1, 2)
scores : f32[2, 24, 24] = aten.matmul.default(%q7, %turned)
soft : f32[2, 24, 24] = aten.softmax.int(%scores, -1)
y : f32[2, 24, 8] = aten.matmul.default(%soft, %x)
t : f32[2, 4] = aten.mul.Tensor(%time, %b_inv_freq)
return (y, t))";

at::Tensor frequencies() { return at::pow(10000.0, -at::arange(4, at::kFloat) / 4); }

Model rotary() {
  Model model = parse_filled(long_text(kRotary));
  Editor editor(model);
  editor.set_state(model.state().find("inv_freq"), frequencies());
  editor.commit_as_origin(nullptr);
  return model;
}

Model folded_rotary() {
  Model model = rotary();
  EXPECT_EQ(find_transformation("fold-constants")(model).steps.size(), 2u);
  return model;
}

at::Tensor table(const Model& model, const char* name) {
  const StateId id = model.state().find(name);
  EXPECT_TRUE(id) << name;
  return at::Tensor(model.state().tensor(id));
}

// The model with other tables, as a wrong rewrite would leave it.
Model with_tables(const Model& model, const at::Tensor& cos, const at::Tensor& sin) {
  Model copy = model;
  Editor editor(copy);
  editor.set_state(copy.state().find("folded_cos"), cos.contiguous());
  editor.set_state(copy.state().find("folded_sin"), sin.contiguous());
  editor.commit({"tables", "tables", "tables", {}});
  return copy;
}

// What the original computes in fp32 is in fp32 in its reference, too.
TEST(Verify, PassesTablesThatWereFolded) {
  const Model model = folded_rotary();
  const Verification result = verify(model, {.per_step = true, .power = true});
  EXPECT_TRUE(result.passed()) << to_text(result);
  for (const SetCheck& set : result.sets) EXPECT_EQ(set.outputs[0].fp64_error.error, 0);
  EXPECT_TRUE(result.warnings.empty()) << to_text(result);
  ASSERT_EQ(result.power.size(), 2u);
  for (const StepPower& step : result.power) {
    ASSERT_TRUE(step.detected) << step.site;
    EXPECT_LT(*step.detected, 1e-6) << step.site;
  }
}

TEST(Verify, NoticesWrongTables) {
  const Model right = folded_rotary();
  const at::Tensor cos = table(right, "folded_cos"), sin = table(right, "folded_sin");
  const at::Tensor other = at::arange(24).unsqueeze(1) * at::cat({frequencies(), frequencies()});
  at::Tensor element = sin.clone();
  element[17][0] *= 1.001;
  const auto off_by_a_row = [](const at::Tensor& t) {
    return at::cat({t.slice(0, 1), t[23].unsqueeze(0)});
  };
  const std::pair<const char*, Model> errors[] = {
      {"rolled", with_tables(right, cos.roll(1, 0), sin.roll(1, 0))},
      {"one of them rolled", with_tables(right, cos, sin.roll(1, 0))},
      {"swapped", with_tables(right, sin, cos)},
      {"other frequencies", with_tables(right, at::cos(other * 1.0001), at::sin(other * 1.0001))},
      {"off by a row", with_tables(right, cos, off_by_a_row(sin))},
      {"one element", with_tables(right, cos, element)},
      {"in bfloat16", with_tables(right, cos.to(at::kBFloat16).to(at::kFloat), sin)},
  };
  for (const auto& [name, wrong] : errors) {
    const Verification result = verify(wrong, {.per_step = true});
    EXPECT_EQ(result.answer(), VerifyVerdict::fail) << name << "\n" << to_text(result);
    ASSERT_EQ(result.steps.size(), 3u) << name;
    EXPECT_TRUE(result.steps[0].passed() && result.steps[1].passed()) << name;
    EXPECT_EQ(result.steps[2].worst.answer, VerifyVerdict::fail) << name;
  }
}

// A mask cannot be a little wrong: there is nothing to plant, and nothing to warn of.
TEST(Verify, PlantsNothingInMasks) {
  Model model = parse_filled(long_text(R"(
input x : f32[4, 4]
row : i64[4] = aten.arange.default(4)
other : i64[4] = aten.arange.default(4)
column : i64[4, 1] = aten.unsqueeze.default(%other, 1)
mask : b8[4, 4] = aten.le.Tensor(%row, %column)
zeros : f32[4, 4] = aten.zeros.default([4, 4])
added : f32[4, 4] = aten.masked_fill.Scalar(%zeros, %mask, -3.4028234663852886e+38)
sum : f32[4, 4] = aten.add.Tensor(%x, %added)
y : f32[4, 4] = aten.softmax.int(%sum, -1)
return y)"));
  ASSERT_EQ(find_transformation("merge-equal-nodes")(model).steps.size(), 1u);
  const Verification result = verify(model, {.power = true});
  EXPECT_TRUE(result.passed() && result.warnings.empty()) << to_text(result);
  EXPECT_TRUE(result.power.empty());
}

// Computed in another way, a table is off by as much as its own computation rounds, or less.
TEST(Verify, PassesTablesThatAreMoreExact) {
  const Model right = folded_rotary();
  const at::Tensor angles = at::arange(24, at::kDouble).unsqueeze(1) *
                            at::cat({frequencies(), frequencies()}).to(at::kDouble);
  const Model exact =
      with_tables(right, at::cos(angles).to(at::kFloat), at::sin(angles).to(at::kFloat));
  ASSERT_FALSE(at::equal(table(exact, "folded_cos"), table(right, "folded_cos")));
  const Verification result = verify(exact);
  EXPECT_TRUE(result.passed()) << to_text(result);
  EXPECT_GT(result.sets[0].outputs[0].fp64_error.error, 0);
}

// From literals alone, and without a fold: the inverse of a scale is rounded once.
TEST(Verify, PassesInversesOfComputedConstants) {
  const auto model = [](const char* scale, const char* use) {
    return parse_filled(long_text(fmt::format(R"(
input x : f32[4, 16]
parameter w : f32[16, 16]
size : f32[] = aten.full.default([], 3.0)
root : f32[] = aten.sqrt.default(%size)
by : f32[] = {}
y : f32[4, 16] = aten.linear.default(%x, %p_w)
z : f32[4, 16] = {}(%y, %by)
return z)",
                                              scale, use)));
  };
  const Model divided = model("aten.mul.Tensor(%root, 1.0)", "aten.div.Tensor");
  const Model multiplied = model("aten.reciprocal.default(%root)", "aten.mul.Tensor");
  const Verification good = verify(multiplied, {.against = &divided});
  EXPECT_TRUE(good.passed()) << to_text(good);
  const Model wrong = model("aten.rsub.Scalar(%root, 2.30941)", "aten.mul.Tensor");
  const Verification bad = verify(wrong, {.against = &divided});
  EXPECT_EQ(bad.answer(), VerifyVerdict::fail) << to_text(bad);
}

// The same bits on these inputs do not make the same model: its fp64 run tells more.
TEST(Verify, FailsWhatOnlyFp64Tells) {
  const auto model = [](const char* eps) {
    return parse(long_text(fmt::format(R"(
input x : f32[4, 16]
y : f32[4, 16] = aten.layer_norm.default(%x, [16], None, None, {})
return y)",
                                       eps)));
  };
  const Model right = model("1e-12"), wrong = model("1e-9");
  const Verification result = verify(wrong, {.against = &right});
  EXPECT_EQ(result.answer(), VerifyVerdict::fail) << to_text(result);
  for (const SetCheck& set : result.sets)
    EXPECT_EQ(set.outputs[0].native_error.error, set.outputs[0].original_error);
}

TEST(Constants, AreStoredWhereTheRestReadsThem) {
  const Model model = parse_filled(long_text(R"(
input x : f32[3]
parameter w : f32[3]
buffer count : f32[3]
half : bf16[3] = aten.to.dtype(%p_w, torch.bfloat16)
back : f32[3] = aten.to.dtype(%half, torch.float32)
part : f32[2] = aten.slice.Tensor(%p_w, 0, 0, 2)
noise : f32[3] = aten.rand.default([3])
more : f32[3] = aten.add_.Tensor(%b_count, %x)
twice : f32[3] = aten.mul.Tensor(%more, 2)
two : f32[3] = aten.full.default([3], 2.0)
two_ : f32[3] = aten.add_.Tensor(%two, %x)
a : f32[3] = aten.mul.Tensor(%x, %back)
return (a, part, noise, twice, two_))"));
  const ConstantsStored stored = store_constants(model, MeasureConstants::yes);
  ASSERT_EQ(stored.constants.size(), 1u);  // not what is random, or written, or a view of a weight
  const StateId id = stored.constants[0];
  EXPECT_EQ(stored.model.state()[id].name, "constant_back");
  const at::Tensor w(model.state().tensor(model.state().find("w")));
  const at::Tensor value(stored.model.state().tensor(id)), off = stored.off.at(id);
  EXPECT_TRUE(at::equal(value, w.to(at::kBFloat16).to(at::kFloat)));
  EXPECT_TRUE(at::equal(off, (w.to(at::kDouble) - value.to(at::kDouble)).abs()));
  std::set<std::string> names;
  for (NodeId node : stored.model.graph()) names.insert(stored.model.graph()[node].name);
  EXPECT_FALSE(names.contains("half"));
  EXPECT_TRUE(names.contains("part"));
}

// The sum of numbers that cancel is exact for one order of adding and not for another: rounding
// alone may make of it what it likes.
TEST(Verify, CannotTellWhereRoundingDecides) {
  const auto model = [](const char* first, const char* second) {
    return parse(fmt::format(R"(graph():
    %x : f32[3] [num_users=1] = placeholder[target=x]
    %y : [num_users=3] = call_function[target=aten.mul.Tensor](args = (%x, 1.1), kwargs = {{}})
    %a : [num_users=1] = call_function[target=aten.select.int](args = (%y, 0, 0), kwargs = {{}})
    %b : [num_users=1] = call_function[target=aten.select.int](args = (%y, 0, 1), kwargs = {{}})
    %c : [num_users=1] = call_function[target=aten.select.int](args = (%y, 0, 2), kwargs = {{}})
    %s : [num_users=1] = call_function[target=aten.add.Tensor](args = (%a, %{}), kwargs = {{}})
    %t : [num_users=1] = call_function[target=aten.add.Tensor](args = (%s, %{}), kwargs = {{}})
    return t)",
                             first, second));
  };
  const Model lucky = model("b", "c"), unlucky = model("c", "b");
  const Inputs inputs{{at::tensor({1000.1f, -1000.1f, 1e-3f})}, "here"};
  const Verification result = verify(unlucky, {.against = &lucky, .measure = {.inputs = inputs}});
  const OutputCheck& check = result.sets[0].outputs[0];
  EXPECT_LT(check.relative(check.original_error), 1e-6);
  EXPECT_GT(check.relative(check.native_error.error), 1e-3);
  EXPECT_EQ(result.answer(), VerifyVerdict::cannot_tell) << to_text(result);
  EXPECT_NE(result.reason().find("rounding alone may cause"), std::string::npos) << result.reason();
  EXPECT_FALSE(result.passed());
}

TEST(Verify, ToleranceOverrides) {
  const Model wrong = broken(parse_filled(kAttention), "k.bias", 1e-4);
  EXPECT_TRUE(verify(wrong, {.tolerance = 1e-3}).passed());
  EXPECT_FALSE(verify(wrong, {.tolerance = 1e-9}).passed());
}

TEST(Verify, RefusesTolerancesThatAreNoLimit) {
  const Model model = parse_filled(kAttention);
  for (const double tolerance : {-1.0, double{INFINITY}, double{NAN}}) {
    const std::string message = fmt::format(
        "the tolerance must be a finite number greater than 0, such as 1e-3, not {}", tolerance);
    EXPECT_EQ(error_of([&] { verify(model, {.tolerance = tolerance}); }), message);
    EXPECT_EQ(error_of([&] { check_tolerance(model, {.tolerance = tolerance}); }), message);
  }
}

TEST(Verify, ComparesWithAnotherModel) {
  const Model other = parse_filled(kAttention, 1), different = parse_filled(kAttention, 2);
  const Model model = rewritten();
  EXPECT_TRUE(verify(model, {.against = &other}).passed());
  EXPECT_FALSE(verify(model, {.against = &different}).passed());
}

TEST(Verify, LeavesThreadsRandomStateAndDefaultTypeAlone) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  const int threads = at::get_num_threads();
  verify(rewritten(), {.measure = {.threads = threads + 1}});
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
  EXPECT_EQ(at::empty({0}).scalar_type(), at::kFloat);
}

TEST(Verify, AttributesTheErrorToItsStep) {
  Model model = parse_filled(kAttention);
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  model = broken(model, "k.bias", 1e-3);
  find_transformation("merge-linears")(model);
  const Verification result = verify(model, {.per_step = true});
  ASSERT_EQ(result.steps.size(), 3u) << to_text(result);
  EXPECT_TRUE(result.steps[0].passed());
  EXPECT_FALSE(result.steps[1].passed());
  EXPECT_EQ(result.steps[1].transformation, "break");
  EXPECT_EQ(result.steps[1].worst.path, "output[1]");
  EXPECT_GT(result.steps[1].added_error, 1e-5);
  // The merge stands on the broken step, and adds nothing of its own.
  EXPECT_EQ(result.steps[2].built_on, std::vector<StepId>{StepId(2)});
  EXPECT_LT(result.steps[2].added_error, 1e-5);
}

TEST(Verify, ComparesIntegersExactly) {
  const std::string text = R"(parameter w : f32[4, 4]
graph():
    %p_w : f32[4, 4] [num_users=1] = placeholder[target=p_w](state=w)
    %x : f32[8, 4] [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_w), kwargs = {})
    %best : [num_users=1] = call_function[target=aten.argmax.default](args = (%y, -1), kwargs = {})
    return best)";
  const Model model = parse_filled(text), other = parse_filled(text, 7);
  EXPECT_TRUE(verify(model).passed());
  const Verification result = verify(model, {.against = &other});
  EXPECT_FALSE(result.passed());
  EXPECT_TRUE(result.sets[0].outputs[0].exact);
  EXPECT_NE(result.sets[0].outputs[0].problem.find("elements differ"), std::string::npos);
}

TEST(Verify, NonFiniteValuesMustStandInTheSamePlaces) {
  const std::string head = R"(graph():
    %x : f32[4] [num_users=1] = placeholder[target=x]
)";
  const auto model = [&](const std::string& op) {
    return parse(head + "    %y : [num_users=1] = call_function[target=aten." + op +
                 ".default](args = (%x,), kwargs = {})\n    return y");
  };
  const Model log = model("log"), relu = model("relu");
  const Inputs inputs{{at::tensor({-1.f, 0.f, 1.f, 2.f})}, "here"};
  EXPECT_TRUE(verify(log, {.measure = {.inputs = inputs}}).passed());
  const Verification result = verify(relu, {.against = &log, .measure = {.inputs = inputs}});
  EXPECT_EQ(result.sets[0].outputs[0].problem, "NaN or inf is at other positions");
}

constexpr const char* kCounter = R"(buffer n : f32[1]
graph():
    %b_n : f32[1] [num_users=1] = placeholder[target=b_n](state=n)
    %x : f32[1] [num_users=1] = placeholder[target=x]
    %add_ : [num_users=0] = call_function[target=aten.add_.Tensor](args = (%b_n, BY), kwargs = {})
    %y : [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, 2), kwargs = {})
    return y)";
Model counter(const std::string& by) {
  std::string text = kCounter;
  return parse_filled(text.replace(text.find("BY"), 2, by));
}

TEST(Verify, ComparesBuffersThatTheModelWritesAndKeepsTheirValues) {
  const Model model = counter("1.0"), same = counter("1.0"), other = counter("2.0");
  const at::Tensor n(model.state().tensor(model.state().find("n")));
  const at::Tensor before = n.clone();
  const Verification good = verify(model, {.against = &same});
  EXPECT_TRUE(good.passed()) << to_text(good);
  ASSERT_EQ(good.sets[0].outputs.size(), 2u);
  EXPECT_EQ(good.sets[0].outputs[1].path, "state 'n'");
  EXPECT_TRUE(at::equal(n, before));
  const Verification bad = verify(model, {.against = &other});
  EXPECT_TRUE(bad.sets[0].outputs[0].passed());
  EXPECT_FALSE(bad.sets[0].outputs[1].passed());
}

TEST(Verify, FoldedBatchNormsLeaveNoStateToCompare) {
  Model model = parse_filled(R"(parameter c.weight : f32[4, 3, 3, 3]
parameter n.weight : f32[4]
parameter n.bias : f32[4]
buffer n.running_mean : f32[4]
buffer n.running_var : f32[4]
graph():
    %p_c_weight : f32[4, 3, 3, 3] [num_users=1] = placeholder[target=p_c_weight](state=c.weight)
    %p_n_weight : f32[4] [num_users=1] = placeholder[target=p_n_weight](state=n.weight)
    %p_n_bias : f32[4] [num_users=1] = placeholder[target=p_n_bias](state=n.bias)
    %b_n_running_mean : f32[4] [num_users=1] = placeholder[target=b_n_running_mean](state=n.running_mean)
    %b_n_running_var : f32[4] [num_users=1] = placeholder[target=b_n_running_var](state=n.running_var)
    %x : f32[2, 3, 8, 8] [num_users=1] = placeholder[target=x]
    %conv : f32[2, 4, 6, 6] [num_users=1] = call_function[target=aten.conv2d.default](args = (%x, %p_c_weight), kwargs = {})
    %norm : f32[2, 4, 6, 6] [num_users=1] = call_function[target=aten.batch_norm.default](args = (%conv, %p_n_weight, %p_n_bias, %b_n_running_mean, %b_n_running_var, False, 0.1, 1e-05, True), kwargs = {})
    return norm)");
  ASSERT_FALSE(find_transformation("fuse-batch-norm-2d-in-conv-2d")(model).steps.empty());
  const Verification result = verify(model, {.per_step = true});
  EXPECT_TRUE(result.passed()) << to_text(result);
  EXPECT_EQ(result.sets[0].outputs.size(), 1u);
}

TEST(Verify, SaysWhenOutputsAreRandomAndStartsFromOneSeed) {
  const Model model = parse(R"(graph():
    %x : f32[8, 4] [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = call_function[target=aten.dropout.default](args = (%x, 0.5, True), kwargs = {})
    return y)");
  const Verification result = verify(model);
  EXPECT_TRUE(result.passed()) << to_text(result);
  EXPECT_TRUE(result.random);
  EXPECT_NE(to_text(result).find("random"), std::string::npos);
}

TEST(Verify, FallsBackWhereThereIsNoDouble) {
  const Model model = parse(R"(graph():
    %x : f32[8, 4] [num_users=1] = placeholder[target=x]
    %bits : [num_users=1] = call_function[target=aten.view.dtype](args = (%x, torch.int32), kwargs = {})
    return bits)");
  const Verification result = verify(model);
  EXPECT_TRUE(result.passed());
  EXPECT_FALSE(result.in_fp64);
  EXPECT_NE(result.why_not.find("'bits'"), std::string::npos);
}

TEST(Verify, TriesOtherSizesWhereTheyAreSymbolic) {
  FakeSource source;
  source.symbols["s0"] = {2, 64};
  std::string text = kAttention;
  for (std::size_t at; (at = text.find("f32[4, ")) != text.npos;)
    text.replace(at, 7, "f32[s0{4}, ");
  Model model = from_source(text, std::move(source));
  find_transformation("merge-linears")(model);
  const Verification result = verify(model);
  EXPECT_TRUE(result.passed()) << to_text(result);
  ASSERT_EQ(result.sets.size(), 4u);
  EXPECT_EQ(result.sets[1].outputs[0].type, result.sets[0].outputs[0].type);
  EXPECT_NE(result.sets[2].outputs[0].type, result.sets[0].outputs[0].type);
}

TEST(Verify, GeneratesInputsWhereTheSamplesCannotBeRead) {
  FakeSource source;
  source.samples = "junk";
  const Verification result = verify(from_source(kAttention, std::move(source)));
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.sets[0].origin, "generated with seed 0");
  ASSERT_FALSE(result.notes.empty());
  EXPECT_NE(result.notes[0].find("data/sample_inputs/model.pt"), std::string::npos);
}

TEST(Verify, LowPrecisionIsMeasuredByItsOwnErrors) {
  std::string text = kAttention;
  for (std::size_t at; (at = text.find("f32")) != text.npos;) text.replace(at, 3, "bf16");
  Model model = parse_filled(text);
  for (const char* name : {"merge-linears", "change-true-div-to-mul-by-inverse"})
    find_transformation(name)(model);
  const Verification result = verify(model);
  EXPECT_TRUE(result.passed()) << to_text(result);
  EXPECT_TRUE(result.in_fp64);
  const OutputCheck& check = result.sets[0].outputs[0];
  EXPECT_GT(check.relative(check.original_error), 1e-4);
}

// A mask as transformers builds it: noise in the constant 1 would mask everything.
constexpr const char* kMasked = R"(parameter q.weight : f32[8, 8]
parameter q.bias : f32[8]
parameter k.weight : f32[8, 8]
parameter v.weight : f32[8, 8]
constant one : f32[]
graph():
    %p_q : f32[8, 8] [num_users=1] = placeholder[target=p_q](state=q.weight)
    %p_b : f32[8] [num_users=1] = placeholder[target=p_b](state=q.bias)
    %p_k : f32[8, 8] [num_users=1] = placeholder[target=p_k](state=k.weight)
    %p_v : f32[8, 8] [num_users=1] = placeholder[target=p_v](state=v.weight)
    %c_one : f32[] [num_users=1] = placeholder[target=c_one](state=one)
    %x : f32[2, 6, 8] [num_users=3] = placeholder[target=x]
    %mask : i64[2, 6] [num_users=1] = placeholder[target=mask]
    %q : f32[2, 6, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q, %p_b), kwargs = {})
    %k : f32[2, 6, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_k), kwargs = {})
    %v : f32[2, 6, 8] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_v), kwargs = {})
    %float : f32[2, 6] [num_users=1] = call_function[target=aten.to.dtype](args = (%mask, torch.float32), kwargs = {})
    %sub : f32[2, 6] [num_users=1] = call_function[target=aten.sub.Tensor](args = (%c_one, %float), kwargs = {})
    %bool : b8[2, 6] [num_users=1] = call_function[target=aten.to.dtype](args = (%sub, torch.bool), kwargs = {})
    %kt : f32[2, 8, 6] [num_users=1] = call_function[target=aten.transpose.int](args = (%k, 1, 2), kwargs = {})
    %scores : f32[2, 6, 6] [num_users=1] = call_function[target=aten.matmul.default](args = (%q, %kt), kwargs = {})
    %wide : b8[2, 1, 6] [num_users=1] = call_function[target=aten.unsqueeze.default](args = (%bool, 1), kwargs = {})
    %masked : f32[2, 6, 6] [num_users=1] = call_function[target=aten.masked_fill.Scalar](args = (%scores, %wide, -3.4028234663852886e+38), kwargs = {})
    %soft : f32[2, 6, 6] [num_users=1] = call_function[target=aten.softmax.int](args = (%masked, -1), kwargs = {})
    %out : f32[2, 6, 8] [num_users=1] = call_function[target=aten.matmul.default](args = (%soft, %v), kwargs = {})
    return out)";

Model masked() {
  Model model = parse_filled(kMasked);
  Editor editor(model);
  editor.set_state(model.state().find("one"), at::ones({}));
  editor.commit_as_origin(nullptr);
  return model;
}

TEST(Verify, MasksDoNotHideErrors) {
  const Model right = masked();
  for (const char* weight : {"q.weight", "q.bias", "k.weight", "v.weight"}) {
    Model wrong = right;
    Editor editor(wrong);
    const StateId id = wrong.state().find(weight);
    editor.set_state(id, at::Tensor(wrong.state().tensor(id)) * 1.001);
    editor.commit({"break", "break", weight, {}});
    const Verification result = verify(wrong);
    EXPECT_EQ(result.answer(), VerifyVerdict::fail) << weight << "\n" << to_text(result);
  }
  Model merged = right;
  ASSERT_EQ(find_transformation("merge-linears")(merged).steps.size(), 1u);
  EXPECT_TRUE(verify(merged).passed()) << to_text(verify(merged));
}

// A row of small numbers beside one of large ones.
TEST(Verify, ASmallRowDoesNotHideBehindALargeOne) {
  const auto model = [](double factor) {
    return parse(fmt::format(R"(graph():
    %x : f32[2, 8] [num_users=1] = placeholder[target=x]
    %y : f32[2, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, {}), kwargs = {{}})
    return y)",
                             factor));
  };
  const Model right = model(1.5), wrong = model(1.50002);
  at::Tensor x = at::randn({2, 8}, at::detail::createCPUGenerator(1));
  x[0].mul_(1e6);
  const Inputs inputs{{x}, "here"};
  const Model same = model(1.5);
  EXPECT_TRUE(verify(same, {.against = &right, .measure = {.inputs = inputs}}).passed());
  Model shifted = parse(R"(graph():
    %x : f32[2, 8] [num_users=1] = placeholder[target=x]
    %y : f32[2, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, 1.5), kwargs = {})
    %z : f32[2, 8] [num_users=1] = call_function[target=aten.add.Tensor](args = (%y, 0.001), kwargs = {})
    return z)");
  const Verification result = verify(shifted, {.against = &right, .measure = {.inputs = inputs}});
  EXPECT_EQ(result.answer(), VerifyVerdict::fail) << to_text(result);
  // Of the large numbers it is less than a rounding.
  EXPECT_LT(0.001, 16 * 0x1p-24 * result.sets[0].outputs[0].scale);
  EXPECT_NE(result.reason().find("row 1 of 2"), std::string::npos) << result.reason();
  EXPECT_EQ(verify(wrong, {.against = &right, .measure = {.inputs = inputs}}).answer(),
            VerifyVerdict::fail);
}

// The expert is chosen by the larger of two numbers that differ by less than rounding does.
TEST(Verify, CannotTellWhereADecisionIsTooClose) {
  const auto model = [](const char* order) {
    return parse(fmt::format(R"(graph():
    %x : f32[4, 8] [num_users=2] = placeholder[target=x]
    %s : f32[4, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, {}), kwargs = {{}})
    %t : f32[4, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%s, {}), kwargs = {{}})
    %best : i64[4] [num_users=1] = call_function[target=aten.argmax.default](args = (%t, -1), kwargs = {{}})
    %f : f32[4] [num_users=1] = call_function[target=aten.to.dtype](args = (%best, torch.float32), kwargs = {{}})
    %g : f32[4, 1] [num_users=1] = call_function[target=aten.unsqueeze.default](args = (%f, 1), kwargs = {{}})
    %y : f32[4, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, %g), kwargs = {{}})
    return y)",
                             order[0] == 'a' ? 1.1 : 1.7, order[0] == 'a' ? 1.7 : 1.1));
  };
  const Model a = model("a"), b = model("b");
  at::Tensor x = at::rand({4, 8}, at::detail::createCPUGenerator(1));
  // Next to each other: whether they stay apart depends on how their products are rounded.
  bool flipped = false;
  for (int i = 0; i < 200 && !flipped; ++i) {
    x[2][1] = 1 + 0.001f * static_cast<float>(i);
    x[2][5] = std::nextafter(1 + 0.001f * static_cast<float>(i), 2.f);
    const Inputs inputs{{x}, "here"};
    const Verification result = verify(b, {.against = &a, .measure = {.inputs = inputs}});
    const bool differs = result.sets[0].outputs[0].native_error.error > 1e-3;
    flipped |= differs;
    if (differs) {
      EXPECT_EQ(result.answer(), VerifyVerdict::cannot_tell) << to_text(result);
    } else {
      EXPECT_NE(result.answer(), VerifyVerdict::fail) << to_text(result);
    }
  }
  EXPECT_TRUE(flipped);
}

TEST(Verify, CannotTellWithoutADoubleUnlessTheBitsAreTheSame) {
  const auto model = [](double by) {
    return parse(fmt::format(R"(graph():
    %x : f32[8, 4] [num_users=1] = placeholder[target=x]
    %bits : [num_users=1] = call_function[target=aten.view.dtype](args = (%x, torch.int32), kwargs = {{}})
    %back : [num_users=1] = call_function[target=aten.view.dtype](args = (%bits, torch.float32), kwargs = {{}})
    %y : [num_users=1] = call_function[target=aten.mul.Tensor](args = (%back, {}), kwargs = {{}})
    return y)",
                             by));
  };
  const Model one = model(3), same = model(3), other = model(3.001);
  EXPECT_TRUE(verify(same, {.against = &one}).passed());
  const Verification result = verify(other, {.against = &one});
  EXPECT_EQ(result.answer(), VerifyVerdict::cannot_tell) << to_text(result);
  EXPECT_NE(result.reason().find("'bits'"), std::string::npos) << result.reason();
}

TEST(Verify, SaysHowSmallAWrongItWouldNotice) {
  const Verification result = verify(rewritten(), {.power = true});
  ASSERT_EQ(result.power.size(), 3u) << to_text(result);
  for (const StepPower& step : result.power) {
    ASSERT_TRUE(step.detected) << step.transformation;
    EXPECT_LT(*step.detected, 1e-5) << step.transformation;
    EXPECT_GT(*step.detected, 1e-11) << step.transformation;
  }
}

// One run for each step would take minutes here.
TEST(Verify, TakesFewRunsWhereManyStepsGoUnnoticed) {
  constexpr int kSteps = 400;
  std::string text = "input x : f64[4, 4]\n";
  for (int i = 0; i < kSteps; ++i)
    text += fmt::format("d{} : f64[4, 4] = aten.div.Tensor(%{}, 30.0)\n", i,
                        i == 0 ? "x" : fmt::format("d{}", i - 1));
  Model model = parse_filled(long_text(text + fmt::format("return d{}", kSteps - 1)));
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  ASSERT_EQ(model.history().size(), static_cast<std::size_t>(kSteps));
  const Verification result = verify(model);
  EXPECT_EQ(result.verdict(), "pass") << result.reason();
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("400 steps from 1 to 400"), std::string::npos)
      << result.warnings[0];
}

TEST(Verify, NamesStepsThatTheInputsDoNotReach) {
  std::string text = kAttention;
  text.replace(text.find("    return (div, k)"), std::string::npos,
               "    %zero : f32[4, 8] [num_users=1] = call_function[target=aten.mul.Tensor](args = "
               "(%div, 0), kwargs = {})\n"
               "    return (zero, k)");
  Model model = parse_filled(text);
  for (const char* name : {"merge-linears", "change-true-div-to-mul-by-inverse"})
    ASSERT_EQ(find_transformation(name)(model).steps.size(), 1u);
  const Verification result = verify(model, {.power = true});
  EXPECT_TRUE(result.passed());
  ASSERT_EQ(result.warnings.size(), 1u) << to_text(result);
  EXPECT_NE(result.warnings[0].find("step 2"), std::string::npos) << result.warnings[0];
  EXPECT_NE(result.warnings[0].find("do not reach it"), std::string::npos) << result.warnings[0];
  EXPECT_TRUE(result.power[0].detected);
  EXPECT_FALSE(result.power[1].detected);
}

TEST(InDouble, WidensTheDtypesThatTheGraphAsksFor) {
  const Model model = refx::in_double(parse_filled(R"(graph():
    %x : f32[2] [num_users=2] = placeholder[target=x]
    %ids : i64[2] [num_users=1] = placeholder[target=ids]
    %a : [num_users=1] = call_function[target=aten.to.dtype](args = (%ids, torch.float32), kwargs = {})
    %b : [num_users=1] = call_function[target=aten.zeros.default](args = ([2],), kwargs = {dtype: torch.bfloat16})
    %c : [num_users=1] = call_function[target=aten.to.dtype](args = (%x, torch.int64), kwargs = {})
    %d : [num_users=1] = call_method[target=float](args = (%x,), kwargs = {})
    %e : [num_users=1] = call_function[target=aten.ones.default](args = ([2],), kwargs = {})
    return (a, b, c, d, e))"));
  const DoubleByDefault by_default;
  Model run = model;
  const auto out = tensors_in(run.forward(
      refx::in_double(std::vector<IValue>{at::ones({2}, at::kFloat), at::ones({2}, at::kLong)})));
  ASSERT_EQ(out.size(), 5u);
  EXPECT_EQ(out[0].scalar_type(), at::kDouble);
  EXPECT_EQ(out[1].scalar_type(), at::kDouble);
  EXPECT_EQ(out[2].scalar_type(), at::kLong);
  EXPECT_EQ(out[3].scalar_type(), at::kDouble);
  EXPECT_EQ(out[4].scalar_type(), at::kDouble);
}

TEST(WrittenState, FollowsViewsToWhatIsWritten) {
  const Model model = parse_filled(R"(buffer cache : f32[4, 2]
buffer other : f32[2]
parameter w : f32[2]
graph():
    %b_cache : f32[4, 2] [num_users=1] = placeholder[target=b_cache](state=cache)
    %b_other : f32[2] [num_users=1] = placeholder[target=b_other](state=other)
    %p_w : f32[2] [num_users=1] = placeholder[target=p_w](state=w)
    %row : [num_users=1] = call_function[target=aten.select.int](args = (%b_cache, 0, 1), kwargs = {})
    %sum : [num_users=1] = call_function[target=aten.add.Tensor](args = (%b_other, %p_w), kwargs = {})
    %copy_ : [num_users=1] = call_function[target=aten.copy_.default](args = (%row, %sum), kwargs = {})
    return copy_)");
  EXPECT_EQ(written_state(model), std::vector<StateId>{model.state().find("cache")});
}

TEST(VerifyText, ShowsNoBoundWhereNoneWasNeeded) {
  Verification v;
  OutputCheck check;
  check.path = "y";
  v.sets.push_back({"here", {check}});
  const auto row = [&] {
    const std::string text = to_text(v);
    const std::size_t at = text.find("\n  y ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(row().find("0     -        0"), std::string::npos) << row();
  v.sets[0].outputs[0].answer = VerifyVerdict::fail;
  EXPECT_EQ(row().find('-'), std::string::npos) << row();
}

}  // namespace
}  // namespace refx
