// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/equal.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "ir/content.h"
#include "refx/builder.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "merge-linears";

const std::string kAten = R"(
parameter q.weight : f32[6, 4]
parameter q.bias : f32[6]
parameter k.weight : f32[2, 4]
parameter k.bias : f32[2]
graph():
    %p_q_weight : f32[6, 4] = placeholder[target=p_q_weight](state=q.weight)
    %p_q_bias : f32[6] = placeholder[target=p_q_bias](state=q.bias)
    %p_k_weight : f32[2, 4] = placeholder[target=p_k_weight](state=k.weight)
    %p_k_bias : f32[2] = placeholder[target=p_k_bias](state=k.bias)
    %x : f32[3, 4] = placeholder[target=x]
    %linear : f32[3, 6] = call_function[target=aten.linear.default](args = (%x, %p_q_weight, %p_q_bias))
    %linear_1 : f32[3, 2] = call_function[target=aten.linear.default](args = (%x, %p_k_weight, %p_k_bias))
    %tanh : f32[3, 6] = call_function[target=aten.tanh.default](args = (%linear,))
    %tanh_1 : f32[3, 2] = call_function[target=aten.tanh.default](args = (%linear_1,))
    return (tanh, tanh_1)
)";

const std::string kModule = R"(
parameter att.q.weight : f32[6, 4]
parameter att.q.bias : f32[6]
parameter att.k.weight : f32[2, 4]
parameter att.k.bias : f32[2]
module att.q : torch.nn.Linear(in_features=4, out_features=6, bias=True)
module att.k : torch.nn.Linear(in_features=4, out_features=2, bias=True)
graph():
    %x = placeholder[target=x]
    %att_q = call_module[target=att.q](args = (%x,))
    %att_k = call_module[target=att.k](args = (%x,))
    %tanh = call_function[target=torch.tanh](args = (%att_q,))
    %tanh_1 = call_method[target=tanh](args = (%att_k,))
    return (tanh, tanh_1)
)";

const std::string kFunctional = R"(
parameter q.weight : f32[6, 4]
parameter q.bias : f32[6]
parameter k.weight : f32[2, 4]
graph():
    %x = placeholder[target=x]
    %q_weight = get_attr[target=q.weight]
    %q_bias = get_attr[target=q.bias]
    %linear = call_function[target=torch.nn.functional.linear](args = (%x, %q_weight, %q_bias))
    %k_weight = get_attr[target=k.weight]
    %linear_1 = call_function[target=torch.nn.functional.linear](args = (%x, %k_weight))
    %tanh = call_function[target=torch.tanh](args = (%linear,))
    %tanh_1 = call_function[target=torch.tanh](args = (%linear_1,))
    return (tanh, tanh_1)
)";

// kAten with one more node between the linears.
std::string with_between(const std::string& line) {
  return with(kAten, {{"    %linear_1 :", "    " + line + "\n    %linear_1 :"}});
}

Model apply_to(const std::string& text) {
  Model model = parse_filled(text);
  find_transformation(kName)(model);
  return model;
}

// ---- the rewrite -------------------------------------------------------------------------------

TEST(MergeLinears, MergesInTheAtenDialect) {
  expect_rewritten(kName, kAten, R"(
parameter "q-k-merged.weight" : f32[8, 4]
parameter "q-k-merged.bias" : f32[8]
graph():
    %p_q_k_merged_weight : f32[8, 4] = placeholder[target=p_q_k_merged_weight](state="q-k-merged.weight")
    %p_q_k_merged_bias : f32[8] = placeholder[target=p_q_k_merged_bias](state="q-k-merged.bias")
    %x : f32[3, 4] = placeholder[target=x]
    %linear_2 : f32[3, 8] = call_function[target=aten.linear.default](args = (%x, %p_q_k_merged_weight, %p_q_k_merged_bias))
    %linear : f32[3, 6] strides=(8, 1) = call_function[target=aten.slice.Tensor](args = (%linear_2, -1, 0, 6))  # marks ["merge-linears"]
    %linear_1 : f32[3, 2] strides=(8, 1) = call_function[target=aten.slice.Tensor](args = (%linear_2, -1, 6, 8))  # marks ["merge-linears"]
    %tanh : f32[3, 6] = call_function[target=aten.tanh.default](args = (%linear,))
    %tanh_1 : f32[3, 2] = call_function[target=aten.tanh.default](args = (%linear_1,))
    return (tanh, tanh_1)
)");
}

TEST(MergeLinears, MergesModules) {
  expect_rewritten(kName, kModule, R"(
parameter "att.q-k-merged.weight" : f32[8, 4]
parameter "att.q-k-merged.bias" : f32[8]
module "att.q-k-merged" : torch.nn.Linear(in_features=4, out_features=8, bias=True)
graph():
    %x = placeholder[target=x]
    %att_q_k_merged = call_module[target="att.q-k-merged"](args = (%x,))
    %att_q = call_function[target=operator.getitem](args = (%att_q_k_merged, (..., slice(0, 6, None))))  # marks ["merge-linears"]
    %att_k = call_function[target=operator.getitem](args = (%att_q_k_merged, (..., slice(6, 8, None))))  # marks ["merge-linears"]
    %tanh = call_function[target=torch.tanh](args = (%att_q,))
    %tanh_1 = call_method[target=tanh](args = (%att_k,))
    return (tanh, tanh_1)
)");
}

TEST(MergeLinears, MergesFunctionalLinears) {
  expect_rewritten(kName, kFunctional, R"(
parameter "q-k-merged.weight" : f32[8, 4]
parameter "q-k-merged.bias" : f32[8]
graph():
    %x = placeholder[target=x]
    %q_k_merged_weight : f32[8, 4] = get_attr[target="q-k-merged.weight"]
    %q_k_merged_bias : f32[8] = get_attr[target="q-k-merged.bias"]
    %linear_2 = call_function[target=torch.nn.functional.linear](args = (%x, %q_k_merged_weight, %q_k_merged_bias))
    %linear = call_function[target=operator.getitem](args = (%linear_2, (..., slice(0, 6, None))))  # marks ["merge-linears"]
    %linear_1 = call_function[target=operator.getitem](args = (%linear_2, (..., slice(6, 8, None))))  # marks ["merge-linears"]
    %tanh = call_function[target=torch.tanh](args = (%linear,))
    %tanh_1 = call_function[target=torch.tanh](args = (%linear_1,))
    return (tanh, tanh_1)
)");
}

TEST(MergeLinears, NamesItsSiteAfterTheModules) {
  EXPECT_EQ(site_names(kName, parse(kAten)), Names{"{q,k}"});
  EXPECT_EQ(site_names(kName, parse(kModule)), Names{"att.{q,k}"});
}

TEST(MergeLinears, ConcatenatesTheValues) {
  const Model before = parse_filled(kAten);
  Model model = before;
  find_transformation(kName)(model);
  const at::Tensor weight = tensor(model, "q-k-merged.weight"),
                   bias = tensor(model, "q-k-merged.bias");
  EXPECT_TRUE(at::equal(weight.narrow(0, 0, 6), tensor(before, "q.weight")));
  EXPECT_TRUE(at::equal(weight.narrow(0, 6, 2), tensor(before, "k.weight")));
  EXPECT_TRUE(at::equal(bias.narrow(0, 6, 2), tensor(before, "k.bias")));
}

// ---- what may be merged ------------------------------------------------------------------------

// n bias-free linears that read x.
std::string linears(int n) {
  std::string state, params, calls, sum;
  for (int i = 0; i < n; ++i) {
    state += fmt::format("parameter fc{0}.weight : f32[{1}, 4]\n", i, i + 1);
    params += fmt::format("%w{0} : f32[{1}, 4] = placeholder[target=w{0}](state=fc{0}.weight)\n", i,
                          i + 1);
    calls += fmt::format(
        "%y{0} = call_function[target=aten.linear.default](args = (%x, %w{0}))\n"
        "%z{0} = call_function[target=aten.tanh.default](args = (%y{0},))\n",
        i);
    sum += fmt::format("%z{}, ", i);
  }
  return state + "graph():\n" + params + "%x : f32[3, 4] = placeholder[target=x]\n" + calls +
         "return [" + sum + "]\n";
}

TEST(MergeLinears, MergesMoreThanThree) {
  expect_applies(kName, linears(4));
  EXPECT_TRUE(apply_to(linears(4)).state().find("fc0-fc1-fc2-fc3-merged.weight"));
}

TEST(MergeLinears, MergesTenUnderAShortName) {
  expect_applies(kName, linears(10));
  const Model model = apply_to(linears(10));
  EXPECT_EQ(model.history().size(), 1u);
  EXPECT_EQ(model.history().back().site, "{fc0,fc1,fc2,fc3,fc4,fc5,...,fc9}");
  EXPECT_EQ(tensor(model, "fc0-to-fc9-merged.weight").size(0), 55);
}

TEST(MergeLinears, ABiasFreeGroupStaysBiasFree) {
  const std::string text = with(kModule, {{"parameter att.q.bias : f32[6]\n", ""},
                                          {"parameter att.k.bias : f32[2]\n", ""},
                                          {"bias=True", "bias=False"}});
  expect_applies(kName, text);
  const Model model = apply_to(text);
  EXPECT_TRUE(model.state().find("att.q-k-merged.weight"));
  EXPECT_FALSE(model.state().find("att.q-k-merged.bias"));
  EXPECT_EQ(*parameter(model.modules()[model.modules().first()], "bias"), Arg(false));
}

TEST(MergeLinears, AMixedGroupGetsZerosAndReturnsWithoutThem) {
  for (const std::string& text :
       {with(kAten, {{"parameter k.bias : f32[2]\n", ""},
                     {"    %p_k_bias : f32[2] = placeholder[target=p_k_bias](state=k.bias)\n", ""},
                     {", %p_k_bias", ""}}),
        with(kModule, {{"parameter att.k.bias : f32[2]\n", ""},
                       {"out_features=2, bias=True", "out_features=2, bias=False"}}),
        kFunctional}) {
    expect_applies(kName, text);
    Model model = apply_to(text);
    const StateId merged = model.state().first();
    const std::string path = model.state()[merged].name;
    const at::Tensor bias = tensor(model, path.substr(0, path.rfind('.')) + ".bias");
    EXPECT_TRUE(at::equal(bias.narrow(0, 6, 2), at::zeros({2})));
    reverse_all(model);
    EXPECT_FALSE(model.state().find("k.bias"));
    EXPECT_FALSE(model.state().find("att.k.bias"));
  }
}

TEST(MergeLinears, TheFirstMayBeTheOneWithoutABias) {
  expect_applies(kName,
                 with(kModule, {{"parameter att.q.bias : f32[6]\n", ""},
                                {"out_features=6, bias=True", "out_features=6, bias=False"}}));
}

TEST(MergeLinears, ABiasMayBeNone) {
  expect_applies(kName, with(kFunctional, {{"%k_weight))", "%k_weight, None))"}}));
}

TEST(MergeLinears, WorksInEveryFloatingType) {
  for (const char* dtype : {"f64", "f16", "bf16"}) {
    expect_applies(kName, with(kAten, {{"f32", dtype}}));
    EXPECT_EQ(tensor(apply_to(with(kAten, {{"f32", dtype}})), "q-k-merged.weight").scalar_type(),
              tensor(parse(with(kAten, {{"f32", dtype}})), "q.weight").scalar_type());
  }
}

TEST(MergeLinears, TakesKeywordArguments) {
  expect_applies(kName,
                 with(kAten, {{"args = (%x, %p_q_weight, %p_q_bias)",
                               "args = (%x,), kwargs = {weight: %p_q_weight, bias: %p_q_bias}"}}));
  expect_applies(kName,
                 with(kFunctional, {{"args = (%x, %q_weight, %q_bias)",
                                     "kwargs = {input: %x, weight: %q_weight, bias: %q_bias}"}}));
  expect_applies(
      kName,
      with(kModule, {{"[target=att.q](args = (%x,))", "[target=att.q](kwargs = {input: %x})"}}));
}

TEST(MergeLinears, KeepsDynamicShapes) {
  const std::string text = with(kAten, {{"f32[3, ", "f32[s0{3}, "}});
  expect_applies(kName, text);
  const Model model = apply_to(text);
  EXPECT_EQ(print(*node(model, "linear_2").type), "f32[s0{3}, 8]");
  EXPECT_EQ(print(*node(model, "linear").type), "f32[s0{3}, 6] strides=(8, 1)");
}

TEST(MergeLinears, MergesOverThreeDimensions) {
  const std::string text = with(kAten, {{"f32[3, ", "f32[2, s1{5}, "}});
  expect_applies(kName, text);
  EXPECT_EQ(print(*node(apply_to(text), "linear").type),
            "f32[2, s1{5}, 6] strides=(8*s1{40}, 8, 1)");
}

TEST(MergeLinears, MergesOverOneDimension) {
  expect_applies(
      kName,
      with(kAten, {{"f32[3, 4]", "f32[4]"}, {"f32[3, 6]", "f32[6]"}, {"f32[3, 2]", "f32[2]"}}));
}

TEST(MergeLinears, MergesLinearsOfTheRoot) {
  const std::string text =
      with(kFunctional, {{"q.weight", "wq"}, {"q.bias", "bq"}, {"k.weight", "wk"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse(text)), Names{"linear"});
}

TEST(MergeLinears, MergesLinearsOfDifferentParents) {
  const std::string text = with(kModule, {{"att.k", "mem.key.proj"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse(text)), Names{"{att.q,mem.key.proj}"});
  EXPECT_TRUE(apply_to(text).modules().find("att.q-mem_key_proj-merged"));
}

TEST(MergeLinears, TakesAnotherNameWhenItsOwnIsTaken) {
  const std::string text = with(kAten, {{"graph():", "buffer q-k-merged.bias : f32[1]\ngraph():"}});
  expect_applies(kName, with(text, {{"q-k-merged.bias", "\"q-k-merged.bias\""}}));
}

TEST(MergeLinears, MergesEveryGroupOfAModel) {
  const std::string text =
      with(linears(2), {{"return [%z0, %z1, ]",
                         R"(%u0 = call_function[target=aten.linear.default](args = (%z1, %v0))
%u1 = call_function[target=aten.linear.default](args = (%z1, %v1))
return (%z0, %u0, %u1))"},
                        {"graph():\n", R"(parameter a.weight : f32[4, 2]
parameter b.weight : f32[4, 2]
graph():
%v0 : f32[4, 2] = placeholder[target=v0](state=a.weight)
%v1 : f32[4, 2] = placeholder[target=v1](state=b.weight)
)"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse(text)), (Names{"{fc0,fc1}", "{a,b}"}));
}

TEST(MergeLinears, MergesTrainableAndFrozenLinearsApart) {
  const std::string text =
      with(linears(4), {{"fc0.weight : f32[1, 4]", "fc0.weight : f32[1, 4] requires_grad=True"},
                        {"fc2.weight : f32[3, 4]", "fc2.weight : f32[3, 4] requires_grad=True"}});
  EXPECT_EQ(site_names(kName, parse(text)), (Names{"{fc0,fc2}", "{fc1,fc3}"}));
  const Model model = apply_to(text);
  EXPECT_TRUE(tensor(model, "fc0-fc2-merged.weight").requires_grad());
  EXPECT_FALSE(tensor(model, "fc1-fc3-merged.weight").requires_grad());
  expect_applies(kName, text);
}

TEST(MergeLinears, KeepsRequiresGradOfWeightsAndOfBiases) {
  const Model model =
      apply_to(with(kModule, {{".bias : f32[6]", ".bias : f32[6] requires_grad=True"},
                              {".bias : f32[2]", ".bias : f32[2] requires_grad=True"}}));
  EXPECT_FALSE(tensor(model, "att.q-k-merged.weight").requires_grad());
  EXPECT_TRUE(tensor(model, "att.q-k-merged.bias").requires_grad());
}

TEST(MergeLinears, RestoresStrides) {
  expect_applies(
      kName, with(kModule, {{"weight : f32[6, 4]", "weight : f32[6, 4] strides=(1, 6)"},
                            {"weight : f32[2, 4]", "weight : f32[2, 4] strides=(9, 2) offset=3"}}));
}

TEST(MergeLinears, KeepsBuffersBuffers) {
  const Model model = apply_to(
      with(kFunctional,
           {{"parameter q.weight : f32[6, 4]", "buffer q.weight : f32[6, 4] persistent=False"},
            {"parameter k.weight : f32[2, 4]", "buffer k.weight : f32[2, 4] persistent=False"},
            {"parameter q.bias : f32[6]", "buffer q.bias : f32[6] persistent=False"}}));
  for (StateId id : model.state()) {
    EXPECT_EQ(model.state()[id].kind, StateKind::buffer);
    EXPECT_FALSE(model.state()[id].persistent);
  }
}

TEST(MergeLinears, GivesNewNodesTheMetadataOfTheOldOnes) {
  const std::string stack = R"(  # meta {nn_module_stack: "L__self__,,M;q,q,torch.nn.Linear"})";
  const std::string text = with(kAten, {{"%p_q_bias))", "%p_q_bias))" + stack}});
  expect_applies(kName, text);
  const Model model = apply_to(text);
  EXPECT_TRUE(node(model, "linear").meta);
  EXPECT_TRUE(node(model, "linear_2").meta);
}

TEST(MergeLinears, ATrainingFlagIsKept) {
  const Model model = apply_to(with(kModule, {{"bias=True)", "bias=True) training=True"}}));
  EXPECT_TRUE(model.modules()[model.modules().first()].training);
}

// ---- who reads the slices ----------------------------------------------------------------------

// What became of the first linear when `user` reads it.
std::string target_before(const std::string& base, const std::string& user) {
  const auto at = base.find("    %tanh ");
  const std::string text = base.substr(0, at) + user + "    return (%user, %tanh_1)\n";
  const std::string other = base.find("%att_k") != base.npos ? "%att_k" : "%linear_1";
  const std::string full =
      with(text, {{"    return", "    %tanh_1 = call_function[target=torch.tanh](args = (" + other +
                                     ",))\n    return"}});
  expect_applies(kName, full);
  return node(apply_to(full), other == "%att_k" ? "att_q" : "linear").target;
}

std::string aten_user(const std::string& call) {
  return target_before(kAten, "    %user = call_function[target=" + call + "\n");
}

std::string module_user(const std::string& call) {
  return target_before(kModule, "    %user = call_function[target=" + call + "\n");
}

TEST(MergeLinears, AViewThatSplitsTheColumnsReadsASlice) {
  EXPECT_EQ(target_before(
                kAten,
                "    %view = call_function[target=aten.view.default](args = (%linear, [3, 2, 3]))\n"
                "    %user = call_function[target=aten.tanh.default](args = (%view,))\n"),
            "aten.slice.Tensor");
  EXPECT_EQ(target_before(kModule,
                          "    %view = call_method[target=view](args = (%att_q, -1, 2, 3))\n"
                          "    %permute = call_method[target=transpose](args = (%view, 0, 1))\n"
                          "    %user = call_function[target=torch.exp](args = (%permute,))\n"),
            "operator.getitem");
}

TEST(MergeLinears, AViewThatASliceWouldBreakReadsACopy) {
  EXPECT_EQ(aten_user("aten.view.default](args = (%linear, [18]))"), "aten.slice_copy.Tensor");
  EXPECT_EQ(aten_user("aten.view.default](args = (%linear, [2, 9]))"), "aten.slice_copy.Tensor");
  EXPECT_EQ(target_before(kModule, "    %user = call_method[target=view](args = (%att_q, -1))\n"),
            "torch.slice_copy");
}

TEST(MergeLinears, AViewBehindAnotherViewReadsACopy) {
  EXPECT_EQ(target_before(
                kAten,
                "    %squeeze = call_function[target=aten.unsqueeze.default](args = (%linear, 0))\n"
                "    %view = call_function[target=aten.view.default](args = (%squeeze, [18]))\n"
                "    %user = call_function[target=aten.tanh.default](args = (%view,))\n"),
            "aten.slice_copy.Tensor");
}

TEST(MergeLinears, AReshapeReadsASlice) {
  EXPECT_EQ(target_before(
                kAten,
                "    %flat = call_function[target=aten.reshape.default](args = (%linear, [18]))\n"
                "    %user = call_function[target=aten.tanh.default](args = (%flat,))\n"),
            "aten.slice.Tensor");
}

TEST(MergeLinears, AViewOfTheBitsReadsACopy) {
  EXPECT_EQ(aten_user("aten.view.dtype](args = (%linear, torch.int32))"), "aten.slice_copy.Tensor");
}

TEST(MergeLinears, AViewOfPairsOfBitsReadsACopy) {
  // Nine columns of two bytes are no rows of four bytes.
  const std::string halves = with(kAten, {{"f32[3, 4]", "f16[2, 4]"},
                                          {"f32[3, 6]", "f16[2, 6]"},
                                          {"f32[2, 4] =", "f16[3, 4] ="},
                                          {"k.weight : f32[2, 4]", "k.weight : f32[3, 4]"},
                                          {"%p_k_bias : f32[2]", "%p_k_bias : f32[3]"},
                                          {"k.bias : f32[2]", "k.bias : f32[3]"},
                                          {"f32[3, 2]", "f16[2, 3]"},
                                          {"f32", "f16"}});
  EXPECT_EQ(
      target_before(halves,
                    "    %bits : i32[2, 3] = call_function[target=aten.view.dtype](args = "
                    "(%linear, torch.int32))\n"
                    "    %user = call_function[target=aten.clone.default](args = (%bits,))\n"),
      "aten.slice_copy.Tensor");
}

TEST(MergeLinears, StridesAreReadFromACopy) {
  EXPECT_EQ(
      target_before(kAten,
                    "    %strided = call_function[target=aten.as_strided.default](args = (%linear, "
                    "[6], [1]))\n"
                    "    %user = call_function[target=aten.tanh.default](args = (%strided,))\n"),
      "aten.slice_copy.Tensor");
}

TEST(MergeLinears, AnInPlaceOperatorWritesACopy) {
  EXPECT_EQ(aten_user("aten.relu_.default](args = (%linear,))"), "aten.slice_copy.Tensor");
  EXPECT_EQ(module_user("operator.iadd](args = (%att_q, 1))"), "torch.slice_copy");
  EXPECT_EQ(target_before(kModule,
                          "    %t = call_method[target=t](args = (%att_q,))\n"
                          "    %w = call_method[target=mul_](args = (%t, 2))\n"
                          "    %user = call_function[target=torch.exp](args = (%att_q,))\n"),
            "torch.slice_copy");
}

TEST(MergeLinears, AnInPlaceActivationWritesACopy) {
  EXPECT_EQ(module_user("torch.nn.functional.relu](args = (%att_q, True))"), "torch.slice_copy");
  EXPECT_EQ(module_user("torch.nn.functional.elu](args = (%att_q, 1.0), kwargs = {inplace: True})"),
            "torch.slice_copy");
  EXPECT_EQ(target_before(
                with(kModule, {{"graph():", "module act : torch.nn.ReLU(inplace=True)\ngraph():"}}),
                "    %user = call_module[target=act](args = (%att_q,))\n"),
            "torch.slice_copy");
}

TEST(MergeLinears, AnActivationThatIsNotInPlaceReadsASlice) {
  EXPECT_EQ(module_user("torch.nn.functional.relu](args = (%att_q, False))"), "operator.getitem");
  EXPECT_EQ(target_before(kModule,
                          "    %drop = call_function[target=torch.nn.functional.dropout](args = "
                          "(%att_q, 0.0, True))\n"
                          "    %user = call_function[target=torch.tanh](args = (%drop,))\n"),
            "operator.getitem");
}

TEST(MergeLinears, AnOutArgumentIsWrittenIntoACopy) {
  EXPECT_EQ(module_user("aten.add.out](args = (%att_q, %att_q), kwargs = {out: %att_q})"),
            "torch.slice_copy");
}

TEST(MergeLinears, AResultIsReturnedAsACopy) {
  const std::string text =
      with(kAten, {{"return (tanh, tanh_1)", "return (linear, tanh, tanh_1)"}});
  expect_applies(kName, text);
  Model model = apply_to(text);
  EXPECT_EQ(node(model, "linear").target, "aten.slice_copy.Tensor");
  EXPECT_TRUE(tensors_in(model.forward(random_inputs(model)))[0].is_contiguous());
}

TEST(MergeLinears, AReturnedViewIsOfACopy) {
  EXPECT_EQ(aten_user("aten.unsqueeze.default](args = (%linear, 0))"), "aten.slice_copy.Tensor");
}

TEST(MergeLinears, AnUnknownFunctionReadsACopy) {
  // It cannot run, so only the rewrite is looked at.
  const Model model =
      apply_to(with(kModule, {{"torch.tanh](args = (%att_q", "my.tanh](args = (%att_q"}}));
  EXPECT_EQ(node(model, "att_q").target, "torch.slice_copy");
}

// ---- writes to the input -----------------------------------------------------------------------

const std::string kWritten = "their input may be written in place between them";

TEST(MergeLinears, RefusesAnInputWrittenBetween) {
  expect_refused(kName, with_between("%w = call_function[target=aten.add_.Tensor](args = (%x, 1))"),
                 kWritten);
}

TEST(MergeLinears, RefusesAnInputWrittenThroughAViewBetween) {
  expect_refused(kName,
                 with_between("%v = call_function[target=aten.select.int](args = (%x, 0, 0))\n"
                              "%w = call_function[target=aten.zero_.default](args = (%v,))"),
                 kWritten);
}

TEST(MergeLinears, RefusesAnInputThatIsAViewOfWhatIsWrittenBetween) {
  const std::string text =
      with(kAten,
           {{"    %linear :",
             "    %v : f32[3, 4] = call_function[target=aten.alias.default](args = (%x,))\n    "
             "%linear :"},
            {"(args = (%x, %p_", "(args = (%v, %p_"},
            {"    %linear_1 :",
             "    %w = call_function[target=aten.zero_.default](args = (%x,))\n    %linear_1 :"}});
  expect_refused(kName, text, kWritten);
}

TEST(MergeLinears, RefusesAnInputThatAnUnknownFunctionMayWriteBetween) {
  for (const char* target : {"my.function", "mylib.touch.default", "my.package.relu", "relu"})
    expect_refused(kName,
                   with_between(fmt::format("%w = call_function[target={}](args = (%x,))", target)),
                   kWritten);
}

TEST(MergeLinears, RefusesAnInputThatAModuleMayWriteBetween) {
  for (const char* module :
       {"torch.nn.ReLU(inplace=True)", "my.Module()", "torch.nn.ReLU() custom=\"has a hook\""})
    expect_refused(kName,
                   with(with_between("%w = call_module[target=act](args = (%x,))"),
                        {{"graph():", fmt::format("module act : {}\ngraph():", module)}}),
                   kWritten);
}

TEST(MergeLinears, RefusesAnInputWrittenByPythonBetween) {
  for (const char* call :
       {"call_function[target=operator.iadd](args = (%x, 1))",
        "call_function[target=operator.setitem](args = (%x, 0, 1.0))",
        "call_method[target=__setitem__](args = (%x, 0, 1.0))",
        "call_method[target=clamp_](args = (%x, 0))",
        "call_function[target=torch.relu_](args = (%x,))",
        "call_function[target=torch.add](args = (1, 1), kwargs = {out: %x})",
        "call_function[target=aten.add.out](args = (1, 1), kwargs = {out: %x})",
        "call_function[target=torch.nn.functional.relu](args = (%x, True))",
        "call_function[target=torch.nn.functional.leaky_relu](args = (%x, 0.1, True))",
        "call_function[target=torch.nn.functional.relu](args = (%x,), kwargs = {inplace: True})"})
    expect_refused(kName, with_between(std::string("%w = ") + call), kWritten);
}

TEST(MergeLinears, AllowsReadsOfTheInputBetween) {
  expect_applies(kName, with_between("%r = call_function[target=aten.relu.default](args = (%x,))"));
  expect_applies(kName, with_between("%r = call_function[target=operator.neg](args = (%x,))"));
}

TEST(MergeLinears, AllowsWritesToOtherTensorsBetween) {
  expect_applies(kName,
                 with_between("%c = call_function[target=aten.clone.default](args = (%x,))\n"
                              "%w = call_function[target=aten.zero_.default](args = (%c,))"));
}

TEST(MergeLinears, AllowsWritesBeforeAndAfter) {
  expect_applies(
      kName,
      with(kAten,
           {{"    %linear :",
             "    %w = call_function[target=aten.mul_.Tensor](args = (%x, 2))\n    %linear :"},
            {"    return",
             "    %v = call_function[target=aten.zero_.default](args = (%x,))\n    return"}}));
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(MergeLinears, IgnoresLinearsWithDifferentInputs) {
  expect_no_match(
      kName,
      with(kAten, {{"    %linear :", "    %y : f32[3, 4] = placeholder[target=y]\n    %linear :"},
                   {"(args = (%x, %p_k", "(args = (%y, %p_k"}}));
}

TEST(MergeLinears, IgnoresALinearAlone) { expect_no_match(kName, linears(1)); }

TEST(MergeLinears, IgnoresOtherModules) {
  expect_no_match(kName, with(kModule, {{"torch.nn.Linear", "my.Linear"}}));
}

TEST(MergeLinears, RefusesASharedWeight) {
  expect_refused(kName, with(kAten, {{"%p_k_weight, %p_k_bias", "%p_q_weight, %p_q_bias"}}),
                 "'q.weight' is used in more than one place");
}

TEST(MergeLinears, RefusesASharedBias) {
  expect_refused(kName, with(kFunctional, {{"%k_weight))", "%k_weight, %q_bias))"}}),
                 "'q.bias' is used in more than one place");
}

TEST(MergeLinears, RefusesAWeightReadByTwoNodes) {
  expect_refused(kName,
                 with(kFunctional, {{"    %k_weight =",
                                     "    %again = get_attr[target=q.weight]\n    %k_weight ="},
                                    {"tanh](args = (%linear,", "mm](args = (%linear, %again"}}),
                 "'q.weight' is used in more than one place");
}

TEST(MergeLinears, RefusesAModuleWeightReadByANode) {
  expect_refused(
      kName,
      with(kModule, {{"    %tanh =", "    %w = get_attr[target=att.q.weight]\n    %tanh ="}}),
      "'att.q.weight' is used in more than one place");
}

TEST(MergeLinears, RefusesTiedWeights) {
  expect_refused(
      kName,
      with(kModule, {{"att.k.weight : f32[2, 4]", "att.k.weight : f32[2, 4] shares=att.q.weight"}}),
      "'att.k.weight' shares its memory with another tensor");
}

TEST(MergeLinears, RefusesAWeightTheModelChanges) {
  expect_refused(kName,
                 with(kAten, {{"graph():", "mutates q.weight = output 0\ngraph():"},
                              {"return (tanh, tanh_1)", "return (tanh, tanh_1, x)"}}),
                 "'q.weight' is changed by the model itself");
}

TEST(MergeLinears, RefusesAModuleCalledTwice) {
  const std::string text =
      with(kModule,
           {{"    %tanh =", "    %again = call_module[target=att.q](args = (%x,))\n    %tanh ="}});
  expect_refused(kName, text, "module 'att.q' is used in more than one place");
}

TEST(MergeLinears, RefusesAModuleWithAHook) {
  expect_refused(kName,
                 with(kModule, {{"out_features=6, bias=True)",
                                 "out_features=6, bias=True) custom=\"has a forward hook\""}}),
                 "module 'att.q' has a forward hook");
}

TEST(MergeLinears, RefusesAModuleCalledWithMore) {
  expect_refused(
      kName, with(kModule, {{"[target=att.q](args = (%x,))", "[target=att.q](args = (%x, 1))"}}),
      "module 'att.q' is not called with one tensor");
}

TEST(MergeLinears, RefusesAModuleWithoutAWeight) {
  expect_refused(kName, with(kModule, {{"parameter att.q.weight : f32[6, 4]\n", ""}}),
                 "module 'att.q' has no weight of its own");
}

TEST(MergeLinears, RefusesAComputedWeight) {
  expect_refused(kName,
                 with(kAten, {{"    %linear :",
                               "    %exp = call_function[target=aten.exp.default](args = "
                               "(%p_q_weight,))\n    %linear :"},
                              {"%x, %p_q_weight,", "%x, %exp,"}}),
                 "its weight is computed, not stored");
}

TEST(MergeLinears, RefusesAWeightThatIsAnInput) {
  expect_refused(kName,
                 with(kAten, {{"    %x :", "    %w : f32[6, 4] = placeholder[target=w]\n    %x :"},
                              {"%x, %p_q_weight,", "%x, %w,"}}),
                 "its weight is an input, not stored");
}

TEST(MergeLinears, RefusesAComputedBias) {
  expect_refused(kName,
                 with(kAten, {{"    %linear :",
                               "    %exp = call_function[target=aten.exp.default](args = "
                               "(%p_q_bias,))\n    %linear :"},
                              {"%p_q_weight, %p_q_bias", "%p_q_weight, %exp"}}),
                 "its bias is computed, not stored");
}

// The model with another tensor in place of q's weight.
Model with_weight(const at::Tensor& weight) {
  Builder b;
  const NodeId q = b.parameter("q.weight", weight), k = b.parameter("k.weight", at::rand({2, 4}));
  const NodeId x = b.input("x");
  const NodeId y = b.call("aten.linear.default", {x, q}), z = b.call("aten.linear.default", {x, k});
  return b.build(Tuple{{y, z}});
}

// Of a file, which can be read again.
class Readable : public Content {
 public:
  void* data() const override { return const_cast<char*>(bytes_.data()); }
  std::size_t size() const override { return bytes_.size(); }
  void let_go() override { ++times_let_go; }
  int times_let_go = 0;

 protected:
  void provide() override {}

 private:
  std::vector<char> bytes_ = std::vector<char>(6 * 4 * sizeof(float));
};

TEST(MergeLinears, LetsGoOfWhatItMerged) {
  const auto content = std::make_shared<Readable>();
  at::Tensor weight = at::empty({0}, at::kFloat);
  weight.set_(storage_of(content), 0, {6, 4}, {4, 1});
  Model model = with_weight(weight);
  EXPECT_EQ(content->times_let_go, 0);
  MergeLinears()(model);
  EXPECT_EQ(content->times_let_go, 1);
}

TEST(MergeLinears, RefusesAQuantizedWeight) {
  expect_refused(kName, with_weight(at::quantize_per_tensor(at::rand({6, 4}), 0.1, 0, at::kQInt8)),
                 "'q.weight' is quantized");
}

TEST(MergeLinears, RefusesASparseWeight) {
  expect_refusal(kName, with_weight(at::rand({6, 4}).to_sparse()), "'q.weight' is sparse");
}

TEST(MergeLinears, RefusesAWeightOfIntegers) {
  expect_refused(kName, with(kAten, {{"f32[6, 4]", "i8[6, 4]"}}),
                 "'q.weight' is Char, not a floating-point type");
}

TEST(MergeLinears, MergesWeightsWithoutData) {
  Model model = parse(kAten);
  Editor editor(model);
  for (StateId id : model.state())
    editor.set_state(id, at::Tensor(model.state().tensor(id)).to(at::kMeta));
  editor.commit_without_step();
  const std::string before = print(model);
  MergeLinears()(model);
  ASSERT_EQ(model.history().size(), 1u);
  for (StateId id : model.state()) EXPECT_TRUE(model.state().tensor(id).is_meta());
  reverse_all(model);
  EXPECT_EQ(print(model), before);
}

TEST(MergeLinears, RefusesAWeightThatIsNotAMatrix) {
  expect_refused(kName, with(kFunctional, {{"k.weight : f32[2, 4]", "k.weight : f32[4]"}}),
                 "its weight is not a matrix");
}

TEST(MergeLinears, RefusesABiasThatDoesNotFit) {
  expect_refused(kName, with(kFunctional, {{"q.bias : f32[6]", "q.bias : f32[1]"}}),
                 "its bias does not fit its weight");
  expect_refused(kName, with(kFunctional, {{"q.bias : f32[6]", "q.bias : f32[3, 6]"}}),
                 "its bias does not fit its weight");
}

TEST(MergeLinears, RefusesAWeightAndBiasOfDifferentTypes) {
  expect_refused(kName, with(kAten, {{"f32[6] =", "f16[6] ="}, {"q.bias : f32", "q.bias : f16"}}),
                 "weight and bias have different dtypes");
}

TEST(MergeLinears, RefusesLinearsOfDifferentTypes) {
  expect_refused(kName,
                 with(kAten, {{"f32[2, 4]", "f64[2, 4]"},
                              {"k.bias : f32", "k.bias : f64"},
                              {"f32[2] =", "f64[2] ="}}),
                 "the linears have different dtypes");
}

TEST(MergeLinears, RefusesAFrozenAndATrainableLinear) {
  expect_refused(
      kName,
      with(kModule, {{"att.q.weight : f32[6, 4]", "att.q.weight : f32[6, 4] requires_grad=True"}}),
      "some of the linears are frozen (requires_grad differs)");
}

TEST(MergeLinears, RefusesAFrozenAndATrainableBias) {
  expect_refused(kName,
                 with(kModule, {{"att.q.bias : f32[6]", "att.q.bias : f32[6] requires_grad=True"}}),
                 "some of the biases are frozen (requires_grad differs)");
}

TEST(MergeLinears, RefusesAFrozenBiasBehindBiasFreeLinears) {
  // w0 and w1 have no bias, w2 a trainable one, w3 a frozen one: the first three go together.
  const std::string text = with(
      linears(4),
      {{"graph():\n",
        "parameter fc2.bias : f32[3] requires_grad=True\nparameter fc3.bias : f32[4]\ngraph():\n"
        "%b2 = placeholder[target=b2](state=fc2.bias)\n%b3 = "
        "placeholder[target=b3](state=fc3.bias)\n"},
       {"%w2))", "%w2, %b2))"},
       {"%w3))", "%w3, %b3))"}});
  const Findings findings = find_sites(parse(text), find_transformation(kName));
  EXPECT_EQ(site_names(kName, parse(text)), Names{"{fc0,fc1,fc2}"});
  ASSERT_EQ(findings.refusals.size(), 1u);
  EXPECT_EQ(findings.refusals[0].site.name, "fc3");
  EXPECT_EQ(findings.refusals[0].reason, because<ReasonId::some_biases_frozen>());
}

TEST(MergeLinears, RefusesAParameterAndABuffer) {
  expect_refused(kName, with(kModule, {{"parameter att.q.weight", "buffer att.q.weight"}}),
                 "the weights are of different kinds (buffer and parameter)");
}

TEST(MergeLinears, RefusesABufferThatIsSavedAndOneThatIsNot) {
  expect_refused(kName,
                 with(kModule, {{"parameter att.q.weight", "buffer att.q.weight"},
                                {"parameter att.k.weight : f32[2, 4]",
                                 "buffer att.k.weight : f32[2, 4] persistent=False"}}),
                 "some of the weights are not saved with the model (persistent differs)");
}

TEST(MergeLinears, RefusesAModuleAndAFunction) {
  expect_refused(
      kName,
      with(kModule,
           {{"    %att_k =", "    %w = get_attr[target=att.k.weight]\n    %att_k ="},
            {"call_module[target=att.k](args = (%x,))",
             "call_function[target=torch.nn.functional.linear](args = (%x, %w))"},
            {"module att.k : torch.nn.Linear(in_features=4, out_features=2, bias=True)\n", ""}}),
      "the linears are called in different ways (module, function or aten operator)");
}

TEST(MergeLinears, RefusesDifferentInputWidths) {
  expect_refused(kName, with(kModule, {{"f32[2, 4]", "f32[2, 5]"}}),
                 "the linears have different input widths");
}

TEST(MergeLinears, MergesTheOthersWhenOneIsRefused) {
  const std::string text = with(linears(3), {{"return [%z0", "return [%w1, %z0"}});
  EXPECT_EQ(site_names(kName, parse(text)), Names{"{fc0,fc2}"});
  EXPECT_EQ(refused_names(kName, parse(text)), Names{"fc1"});
  expect_applies(kName, text);
}

// ---- trained since -----------------------------------------------------------------------------

TEST(MergeLinears, CarriesTrainedValuesBack) {
  const Model before = parse_filled(
      with(kModule, {{"weight : f32[6, 4]", "weight : f32[6, 4] strides=(1, 6) requires_grad=True"},
                     {"weight : f32[2, 4]", "weight : f32[2, 4] requires_grad=True"}}));
  Model model = before;
  find_transformation(kName)(model);
  train(model, "att.q-k-merged.weight");
  train(model, "att.q-k-merged.bias");
  const auto trained = tensors_in(model.forward(random_inputs(model)));
  reverse_all(model);
  EXPECT_EQ(print(model), print(before));
  for (const char* name : {"att.q.weight", "att.k.weight", "att.q.bias", "att.k.bias"}) {
    EXPECT_TRUE(at::equal(tensor(model, name), tensor(before, name) + 1)) << name;
    EXPECT_EQ(tensor(model, name).strides(), tensor(before, name).strides()) << name;
    EXPECT_EQ(tensor(model, name).requires_grad(), tensor(before, name).requires_grad()) << name;
  }
  const auto split = tensors_in(model.forward(random_inputs(model)));
  EXPECT_LT((trained[0] - split[0]).abs().max().item<double>(), 1e-5);
  EXPECT_LT((trained[1] - split[1]).abs().max().item<double>(), 1e-5);
}

TEST(MergeLinears, WhatWasNotTrainedReturnsAsTheSameTensor) {
  const Model before = parse_filled(kModule);
  Model model = before;
  find_transformation(kName)(model);
  {
    const at::NoGradGuard no_grad;
    tensor(model, "att.q-k-merged.weight").narrow(0, 6, 2).add_(1);
  }
  reverse_all(model);
  EXPECT_TRUE(tensor(model, "att.q.weight").is_same(tensor(before, "att.q.weight")));
  EXPECT_TRUE(tensor(model, "att.q.bias").is_same(tensor(before, "att.q.bias")));
  EXPECT_TRUE(at::equal(tensor(model, "att.k.weight"), tensor(before, "att.k.weight") + 1));
}

TEST(MergeLinears, TheOriginalsAreNotWrittenWhenTrainedValuesReturn) {
  const Model before = parse_filled(kModule);
  const std::string was = snapshot(before);
  Model model = before;
  find_transformation(kName)(model);
  train(model, "att.q-k-merged.weight");
  reverse_all(model);
  EXPECT_EQ(snapshot(before), was);
}

TEST(MergeLinears, AMixedGroupCarriesItsBiasBackWhileTheZerosAreZeros) {
  const Model before = parse_filled(kFunctional);
  Model model = before;
  find_transformation(kName)(model);
  {
    const at::NoGradGuard no_grad;
    tensor(model, "q-k-merged.bias").narrow(0, 0, 6).add_(1);
  }
  reverse_all(model);
  EXPECT_EQ(print(model), print(before));
  EXPECT_TRUE(at::equal(tensor(model, "q.bias"), tensor(before, "q.bias") + 1));
}

TEST(MergeLinears, RefusesToReverseWhenTheZerosOfAMixedGroupWereTrained) {
  const Model before = parse_filled(kFunctional);
  Model model = before;
  find_transformation(kName)(model);
  train(model, "q-k-merged.bias");
  const std::string was = snapshot(model);
  try {
    reverse_all(model);
    FAIL() << "reversed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("'q-k-merged.bias' was changed since, also where it has no original"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(snapshot(model), was);
  reverse_all(model, {.discard_changes = true});
  EXPECT_EQ(snapshot(model), snapshot(before));
}

TEST(MergeLinears, DiscardsTrainedValuesOnRequest) {
  const Model before = parse_filled(kModule);
  Model model = before;
  find_transformation(kName)(model);
  train(model, "att.q-k-merged.weight");
  reverse_all(model, {.discard_changes = true});
  EXPECT_EQ(snapshot(model), snapshot(before));
}

}  // namespace
}  // namespace refx::testing
