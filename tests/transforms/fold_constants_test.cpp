// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kit.h"

namespace refx::testing {
namespace {

const std::string kName = "fold-constants";

at::Tensor stored(const Model& model, std::string_view name) {
  return at::Tensor(model.state().tensor(model.state().find(name)));
}

// The transformed model computes the very bits that it did.
void expect_same_bits(const Model& before, const Model& after) {
  Model a = deep_copy(before), b = deep_copy(after);
  const auto inputs = random_inputs(before);
  EXPECT_TRUE(at::equal(a.forward(inputs).toTensor(), b.forward(inputs).toTensor()));
}

TEST(FoldConstants, StoresWhatDependsOnStoredTensorsAlone) {
  const std::string before = R"(
parameter w : f32[4]
buffer scale : f32[4]
graph():
    %p_w : f32[4] = placeholder[target=p_w](state=w)
    %b_scale : f32[4] = placeholder[target=b_scale](state=scale)
    %x : f32[2, 4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.exp.default](args = (%p_w,))
    %b : f32[4] = call_function[target=aten.mul.Tensor](args = (%a, %b_scale))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %b))
    return y
)";
  const Model model = expect_rewritten(kName, before, R"(
constant folded_b : f32[4]
graph():
    %c_folded_b : f32[4] = placeholder[target=c_folded_b](state=folded_b)  # marks ["fold-constants"]
    %x : f32[2, 4] = placeholder[target=x]
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %c_folded_b))
    return y
)");
  expect_same_bits(parse_filled(before), model);
}

TEST(FoldConstants, BecomesAnAttributeInPlace) {
  expect_rewritten(kName, R"(
buffer w : f32[4]
graph():
    %x : f32[2, 4] = placeholder[target=x]
    %w = get_attr[target=w]
    %a = call_method[target=sigmoid](args = (%w,))
    %y = call_function[target=operator.add](args = (%x, %a))
    return y
)",
                   R"(
constant folded_a : f32[4]
graph():
    %x : f32[2, 4] = placeholder[target=x]
    %a = get_attr[target=folded_a]  # marks ["fold-constants"]
    %y = call_function[target=operator.add](args = (%x, %a))
    return y
)");
}

TEST(FoldConstants, StoresWhatDependsOnNothing) {
  const Model model = expect_rewritten(kName, R"(graph():
    %x : f32[2, 4] = placeholder[target=x]
    %a : i64[4] = call_function[target=aten.arange.default](args = (4,), kwargs = {device: device(type='cpu'), pin_memory: False})
    %b : f32[4] = call_function[target=aten._to_copy.default](args = (%a,), kwargs = {dtype: torch.float32})
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %b))
    return y
)",
                                       R"(
constant folded_b : f32[4]
graph():
    %c_folded_b : f32[4] = placeholder[target=c_folded_b](state=folded_b)  # marks ["fold-constants"]
    %x : f32[2, 4] = placeholder[target=x]
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %c_folded_b))
    return y
)");
  EXPECT_TRUE(at::equal(stored(model, "folded_b"), at::arange(4, at::kFloat)));
}

TEST(FoldConstants, KeepsWhatOthersRead) {
  expect_rewritten(kName, R"(
buffer w : f32[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %x : f32[2, 4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.exp.default](args = (%b_w,))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    %z : f32[2, 4] = call_function[target=aten.mul.Tensor](args = (%y, %b_w))
    return z
)",
                   R"(
buffer w : f32[4]
constant folded_a : f32[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %c_folded_a : f32[4] = placeholder[target=c_folded_a](state=folded_a)  # marks ["fold-constants"]
    %x : f32[2, 4] = placeholder[target=x]
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %c_folded_a))
    %z : f32[2, 4] = call_function[target=aten.mul.Tensor](args = (%y, %b_w))
    return z
)");
}

TEST(FoldConstants, KeepsStridesAndRepeatsNothing) {
  Model model = parse_filled(R"(
buffer w : f32[2, 1]
graph():
    %b_w : f32[2, 1] = placeholder[target=b_w](state=w)
    %x : f32[4096, 2, 4096] = placeholder[target=x]
    %a : f32[2, 1] = call_function[target=aten.exp.default](args = (%b_w,))
    %b : f32[4096, 2, 4096] strides=(0, 1, 0) = call_function[target=aten.expand.default](args = (%a, [4096, 2, 4096]))
    %y : f32[4096, 2, 4096] = call_function[target=aten.mul.Tensor](args = (%x, %b))
    return y
)");
  const at::Tensor w = stored(model, "w");
  ASSERT_EQ(find_transformation(kName)(model).steps.size(), 1u);
  const at::Tensor folded = stored(model, "folded_b");
  EXPECT_EQ(folded.sizes(), at::IntArrayRef({4096, 2, 4096}));
  EXPECT_EQ(folded.strides(), at::IntArrayRef({0, 1, 0}));
  EXPECT_EQ(folded.storage().nbytes(), 8u);
  EXPECT_TRUE(at::equal(folded[5].narrow(1, 7, 1), w.exp()));
}

TEST(FoldConstants, FoldsTheConstantPartOfSomethingTrained) {
  expect_rewritten(kName, R"(
parameter w : f32[4] requires_grad=True
buffer c : f32[4]
graph():
    %p_w : f32[4] = placeholder[target=p_w](state=w)
    %b_c : f32[4] = placeholder[target=b_c](state=c)
    %x : f32[2, 4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.exp.default](args = (%b_c,))
    %b : f32[4] = call_function[target=aten.mul.Tensor](args = (%p_w, %a))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %b))
    return y
)",
                   R"(
parameter w : f32[4] requires_grad=True
constant folded_a : f32[4]
graph():
    %p_w : f32[4] = placeholder[target=p_w](state=w)
    %c_folded_a : f32[4] = placeholder[target=c_folded_a](state=folded_a)  # marks ["fold-constants"]
    %x : f32[2, 4] = placeholder[target=x]
    %b : f32[4] = call_function[target=aten.mul.Tensor](args = (%p_w, %c_folded_a))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %b))
    return y
)");
}

// A view costs nothing, and the weight behind it is what others look for.
TEST(FoldConstants, LeavesViewsAlone) {
  expect_no_match(kName, R"(
buffer w : f32[4, 8]
graph():
    %b_w : f32[4, 8] = placeholder[target=b_w](state=w)
    %x : f32[2, 8] = placeholder[target=x]
    %t : f32[8, 4] strides=(1, 8) = call_function[target=aten.t.default](args = (%b_w,))
    %y : f32[2, 4] = call_function[target=aten.mm.default](args = (%x, %t))
    return y
)");
}

// ---- refusals ----------------------------------------------------------------------------------

// A call on the buffer w, added to x.
std::string on_buffer(const std::string& call, const std::string& declared = "buffer w : f32[4]") {
  return fmt::format(R"({}
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %x : f32[2, 4] = placeholder[target=x]
    %a = {}
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)",
                     declared, call);
}

const std::string kExp = "call_function[target=aten.exp.default](args = (%b_w,))";

TEST(FoldConstants, RefusesWhatTrainingMayChange) {
  expect_refused(kName, on_buffer(kExp, "parameter w : f32[4] requires_grad=True"),
                 "'w' requires gradients: training may change it");
}

TEST(FoldConstants, RefusesSharedMemory) {
  expect_refused(kName, on_buffer(kExp, "buffer w : f32[4]\nbuffer v : f32[4] shares=w"),
                 "'w' shares its memory with another tensor");
}

TEST(FoldConstants, RefusesOperatorsThatAreNotPure) {
  expect_refused(kName, on_buffer("call_function[target=aten.rand_like.default](args = (%b_w,))"),
                 "random numbers");
}

TEST(FoldConstants, RefusesWhatIsWrittenInPlace) {
  const std::string text = R"(
buffer w : f32[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %x : f32[4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.exp.default](args = (%b_w,))
    %w = call_function[target=aten.mul_.Tensor](args = (%{}, %x))
    %y : f32[4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)";
  auto written = [&](const char* value) {
    return std::string(text).replace(text.find("{}"), 2, value);
  };
  expect_refused(kName, written("b_w"), "'w' may be written in place");
  expect_refused(kName, written("a"), "its memory may be written in place");
}

TEST(FoldConstants, RefusesOperatorsThatDoNotRun) {
  expect_refused(
      kName,
      on_buffer("call_function[target=aten._pack_padded_sequence_backward.default](args = "
                "(%b_w, [4], %b_w, False))"),
      "aten._pack_padded_sequence_backward is refused");
}

TEST(FoldConstants, RefusesSizesThatOnlyARunTells) {
  expect_refused(kName,
                 on_buffer("call_function[target=aten.masked_select.default](args = (%b_w, "
                           "%b_w))"),
                 "it cannot be computed beforehand");
}

TEST(FoldConstants, RefusesToMakeTheModelLarge) {
  expect_refused(kName, R"(graph():
    %x : f32[1] = placeholder[target=x]
    %a = call_function[target=aten.full.default](args = ([1000000000000], 1.0))
    %y = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)",
                 "'a' is larger than all tensors of the model (4.0 TB)");
  expect_refused(kName, R"(graph():
    %x : f32[1] = placeholder[target=x]
    %a = call_function[target=aten.full.default](args = ([1000000], 1.0))
    %b = call_function[target=aten.sum.default](args = (%a,))
    %y = call_function[target=aten.add.Tensor](args = (%x, %b))
    return y
)",
                 "'a' is larger than all tensors of the model (4.0 MB)");
  expect_refused(kName, R"(
buffer w : f32[1000, 1]
buffer v : f32[500000]
graph():
    %b_w : f32[1000, 1] = placeholder[target=b_w](state=w)
    %b_v : f32[500000] = placeholder[target=b_v](state=v)
    %x : f32[1] = placeholder[target=x]
    %a = call_function[target=aten.repeat.default](args = (%b_w, [1, 400]))
    %y = call_function[target=aten.add.Tensor](args = (%x, %a))
    %z = call_function[target=aten.add.Tensor](args = (%x, %b_v))
    return (y, z)
)",
                 "the model would become larger: 1.6 MB instead of 4.0 kB");
}

TEST(FoldConstants, RefusesToReturnTheStoredTensor) {
  for (const char* result : {"a", "v"})
    expect_refused(kName,
                   fmt::format(R"(
buffer w : f32[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %x : f32[4] = placeholder[target=x]
    %a = call_function[target=aten.exp.default](args = (%b_w,))
    %v = call_function[target=aten.view.default](args = (%a, [2, 2]))
    return (x, {})
)",
                               result),
                   "a result of the model would share memory with the stored tensor");
}

TEST(FoldConstants, RefusesWhatTheModelChanges) {
  Builder builder;
  const NodeId w = builder.buffer("w", at::ones({4}));
  const NodeId x = builder.input("x");
  const NodeId a = builder.call("aten.exp.default", {w});
  const NodeId y = builder.call("aten.add.Tensor", {x, a});
  const NodeId next = builder.call("aten.add.Tensor", {w, 1});
  const Model model = builder.build(Tuple{{next, y}}, {{0, "w"}});
  expect_refused(kName, model, "'w' is changed by the model itself");
}

// Sizes are taken from the graph; that they are wrong shows when it is computed.
void expect_refused_when_applied(const std::string& text, std::string_view reason) {
  Model model = parse_filled(text);
  const std::string before = snapshot(model);
  ASSERT_EQ(find_transformation(kName).find(model).sites.size(), 1u);
  const Outcome outcome = find_transformation(kName)(model);
  EXPECT_TRUE(outcome.steps.empty());
  ASSERT_EQ(outcome.refusals.size(), 1u);
  const std::string text = to_string(outcome.refusals[0].reason);
  EXPECT_NE(text.find(reason), std::string::npos) << text;
  EXPECT_EQ(snapshot(model), before);
}

TEST(FoldConstants, RefusesAnotherTypeThanIsRecorded) {
  expect_refused_when_applied(R"(
buffer w : f32[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %x : f32[2, 4] = placeholder[target=x]
    %a : i32[4] = call_function[target=aten.exp.default](args = (%b_w,))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)",
                              "its type differs from the type that the graph records");
}

TEST(FoldConstants, RefusesToTakeMoreMemoryThanIsRecorded) {
  expect_refused_when_applied(R"(graph():
    %x : f32[4] = placeholder[target=x]
    %a : f32[4] = call_function[target=aten.full.default](args = ([100000000], 1.0))
    %y : f32[4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)",
                              "an operator asks for 400000000 bytes of memory at once");
}

// torch has a kernel for tensors without data in Python alone.
TEST(FoldConstants, TakesSizesFromTheGraph) {
  const std::string text = R"(
buffer w : f32[4]
buffer m : b8[4]
graph():
    %b_w : f32[4] = placeholder[target=b_w](state=w)
    %b_m : b8[4] = placeholder[target=b_m](state=m)
    %x : f32[2, 4] = placeholder[target=x]
    %a{} = call_function[target=aten.where.self](args = (%b_m, %b_w, %b_w))
    %y : f32[2, 4] = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)";
  expect_applies(kName, parse_filled(fmt::format(fmt::runtime(text), " : f32[4]")));
  expect_refused(kName, fmt::format(fmt::runtime(text), ""),
                 "it cannot be computed beforehand: the size of 'a' is known only when it runs");
}

// ---- weights that are stored in fewer bytes ----------------------------------------------------

// A linear whose weight is computed by `call` from a stored one, `declared`.
std::string with_weight(std::string_view declared, std::string_view shape, std::string_view calls) {
  return fmt::format(R"(
buffer q : {0}[{1}]
buffer s : f32[{2}, 1]
graph():
    %b_q : {0}[{1}] = placeholder[target=b_q](state=q)
    %b_s : f32[{2}, 1] = placeholder[target=b_s](state=s)
    %x : f32[2, {3}] = placeholder[target=x]
{4}
    %y : f32[2, {2}] = call_function[target=aten.linear.default](args = (%x, %w))
    return y
)",
                     declared, shape, shape.substr(0, shape.find(',')),
                     shape.substr(shape.find(',') + 2), calls);
}

TEST(FoldConstants, KeepsEncodedWeights) {
  for (const std::string n : {"4", "64", "2048"})
    for (const std::string dtype : {"i8", "u8", "f8e4m3fn", "bf16"}) {
      const std::string shape = n + ", 16";
      expect_refused(kName,
                     with_weight(dtype, shape,
                                 fmt::format(R"(
    %f : f32[{0}] = call_function[target=aten.to.dtype](args = (%b_q, torch.float32))
    %w : f32[{0}] = call_function[target=aten.mul.Tensor](args = (%f, %b_s)))",
                                             shape)),
                     "the model would become larger");
    }
}

TEST(FoldConstants, KeepsWhatALossyStepMade) {
  for (const int n : {8, 512})
    for (const char* lossy : {"store-linear-int8", "store-linear-bf16"}) {
      Model model = parse_filled(fmt::format(R"(
parameter w : f32[{0}, {0}]
graph():
    %p_w : f32[{0}, {0}] = placeholder[target=p_w](state=w)
    %x : f32[2, {0}] = placeholder[target=x]
    %y : f32[2, {0}] = call_function[target=aten.linear.default](args = (%x, %p_w))
    return y
)",
                                             n));
      ASSERT_EQ(find_transformation(lossy)(model).steps.size(), 1u);
      const Findings findings = find_transformation(kName).find(model);
      EXPECT_TRUE(findings.sites.empty());
      ASSERT_EQ(findings.refusals.size(), 1u);
      EXPECT_EQ(to_string(findings.refusals[0].reason),
                fmt::format("it is a result of approximate step 1 ({})", lossy));
      forget(model);
      expect_refused(kName, model, "the model would become larger");
    }
}

std::string with_dtype(const std::string& dtype, std::string calls) {
  for (std::size_t at; (at = calls.find("DTYPE")) != calls.npos;) calls.replace(at, 5, dtype);
  return with_weight(dtype, "8, 16", calls);
}

TEST(FoldConstants, KeepsPackedWeights) {
  // Two numbers of four bits in each byte; four in each of 16 bits.
  for (const char* dtype : {"u8", "i16"})
    expect_refused(kName, with_dtype(dtype, R"(
    %l : DTYPE[8, 16] = call_function[target=aten.bitwise_and.Scalar](args = (%b_q, 15))
    %h : DTYPE[8, 16] = call_function[target=aten.bitwise_right_shift.Tensor_Scalar](args = (%b_q, 4))
    %c : DTYPE[8, 32] = call_function[target=aten.cat.default](args = ([%l, %h], 1))
    %f : f32[8, 32] = call_function[target=aten.to.dtype](args = (%c, torch.float32))
    %v : f32[8, 32] = call_function[target=aten.mul.Tensor](args = (%f, %b_s))
    %w : f32[8, 16] strides=(32, 1) = call_function[target=aten.slice.Tensor](args = (%v, 1, 0, 16)))"),
                   "the model would become larger");
}

// What is made from little is no encoding of it: one row of numbers, as many angles.
TEST(FoldConstants, StoresSmallTablesMadeFromLess) {
  for (const char* dtype : {"f32", "bf16"})
    expect_applies(kName, parse_filled(fmt::format(R"(
buffer f : {0}[8]
graph():
    %b_f : {0}[8] = placeholder[target=b_f](state=f)
    %x : f32[4, 8] = placeholder[target=x]
    %n : f32[4] = call_function[target=aten.arange.default](args = (4,), kwargs = {{dtype: torch.float32}})
    %f : f32[8] = call_function[target=aten.to.dtype](args = (%b_f, torch.float32))
    %a : f32[4, 8] = call_function[target=aten.outer.default](args = (%n, %f))
    %c : f32[4, 8] = call_function[target=aten.cos.default](args = (%a,))
    %y : f32[4, 8] = call_function[target=aten.mul.Tensor](args = (%x, %c))
    return y
)",
                                                   dtype)));
}

TEST(FoldConstants, LeavesSymbolicSizesAlone) {
  expect_no_match(kName, R"(graph():
    %x : f32[s0] = placeholder[target=x]
    %a = call_function[target=aten.full.default](args = ([sym(s0)], 1.0))
    %y = call_function[target=aten.add.Tensor](args = (%x, %a))
    return y
)");
}

}  // namespace
}  // namespace refx::testing
