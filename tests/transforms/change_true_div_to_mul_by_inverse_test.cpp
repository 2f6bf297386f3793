// SPDX-License-Identifier: Apache-2.0

#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <cmath>

#include "refx/builder.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

const std::string kName = "change-true-div-to-mul-by-inverse";

// One call on x.
std::string dividing(const std::string& call, const std::string& type = "f32[3, 4]") {
  return fmt::format(R"(graph():
    %x : {} = placeholder[target=x]
    %y = {}
    return y
)",
                     type, call);
}

std::string function(const std::string& target, const std::string& args) {
  return dividing(fmt::format("call_function[target={}](args = {})", target, args));
}

// x divided by a stored tensor.
const std::string kAten = R"(
buffer att.scale : f32[4]
graph():
    %b_att_scale : f32[4] = placeholder[target=b_att_scale](state=att.scale)
    %x : f32[3, 4] = placeholder[target=x]
    %y : f32[3, 4] = call_function[target=aten.div.Tensor](args = (%x, %b_att_scale))
    return y
)";

const std::string kAttribute = R"(
buffer scale : f32[]
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %scale = get_attr[target=scale]
    %y = call_function[target=operator.truediv](args = (%x, %scale))
    return y
)";

Model filled_with(const std::string& text, double value) {
  Model model = parse_filled(text);
  const at::NoGradGuard no_grad;
  tensor(model, model.state()[model.state().first()].name).fill_(value);
  return model;
}

// ---- the rewrite -------------------------------------------------------------------------------

TEST(ChangeTrueDiv, ChangesAtenDivByANumber) {
  expect_rewritten(kName, R"(graph():
    %x : f32[3, 4] = placeholder[target=x]
    %div : f32[3, 4] = call_function[target=aten.div.Tensor](args = (%x, 8.0))
    return div
)",
                   R"(graph():
    %x : f32[3, 4] = placeholder[target=x]
    %div : f32[3, 4] = call_function[target=aten.mul.Tensor](args = (%x, 0.125))  # marks ["change-true-div-to-mul-by-inverse"]
    return div
)");
}

TEST(ChangeTrueDiv, ChangesEverySpelling) {
  const std::string inverse = "0.14285714285714285";
  const struct {
    std::string before, after;
  } cases[] = {
      {"call_function[target=aten.div.Tensor](args = (%x, 7))",
       "call_function[target=aten.mul.Tensor]"},
      {"call_function[target=aten.div.Scalar](args = (%x, 7))",
       "call_function[target=aten.mul.Scalar]"},
      {"call_function[target=aten.div.Tensor_mode](args = (%x, 7), kwargs = {rounding_mode: None})",
       "call_function[target=aten.mul.Tensor]"},
      {"call_function[target=aten.div.Scalar_mode](args = (%x, 7), kwargs = {rounding_mode: None})",
       "call_function[target=aten.mul.Scalar]"},
      {"call_function[target=aten.true_divide.Scalar](args = (%x, 7))",
       "call_function[target=aten.mul.Scalar]"},
      {"call_function[target=aten.divide.Tensor](args = (%x, 7))",
       "call_function[target=aten.mul.Tensor]"},
      {"call_function[target=operator.truediv](args = (%x, 7))",
       "call_function[target=operator.mul]"},
      {"call_function[target=torch.div](args = (%x, 7))", "call_function[target=torch.mul]"},
      {"call_function[target=torch.div](args = (%x, 7), kwargs = {rounding_mode: None})",
       "call_function[target=torch.mul]"},
      {"call_function[target=torch.div](kwargs = {input: %x, other: 7})",
       "call_function[target=torch.mul]"},
      {"call_function[target=torch.div](args = (%x, 7), kwargs = {out: None})",
       "call_function[target=torch.mul]"},
      {"call_function[target=torch.true_divide](args = (%x, 7))",
       "call_function[target=torch.mul]"},
      {"call_function[target=torch.divide](args = (%x,), kwargs = {other: 7})",
       "call_function[target=torch.mul]"},
      {"call_method[target=div](args = (%x, 7))", "call_method[target=mul]"},
      {"call_method[target=div](args = (%x,), kwargs = {other: 7, rounding_mode: None})",
       "call_method[target=mul]"},
      {"call_method[target=true_divide](args = (%x, 7))", "call_method[target=mul]"},
  };
  for (const auto& [before, after] : cases)
    expect_rewritten(
        kName, dividing(before),
        dividing(after + "(args = (%x, " + inverse + "))  # marks [\"" + kName + "\"]"));
}

TEST(ChangeTrueDiv, ChangesDivisionByAStoredTensor) {
  expect_rewritten(kName, kAten, R"(
buffer att.scale_inverse : f32[4]
graph():
    %b_att_scale_inverse : f32[4] = placeholder[target=b_att_scale_inverse](state=att.scale_inverse)
    %x : f32[3, 4] = placeholder[target=x]
    %y : f32[3, 4] = call_function[target=aten.mul.Tensor](args = (%x, %b_att_scale_inverse))  # marks ["change-true-div-to-mul-by-inverse"]
    return y
)");
}

TEST(ChangeTrueDiv, ChangesDivisionByAnAttribute) {
  expect_rewritten(kName, kAttribute, R"(
buffer scale_inverse : f32[]
graph():
    %x : f32[3, 4] = placeholder[target=x]
    %scale_inverse : f32[] = get_attr[target=scale_inverse]
    %y = call_function[target=operator.mul](args = (%x, %scale_inverse))  # marks ["change-true-div-to-mul-by-inverse"]
    return y
)");
}

TEST(ChangeTrueDiv, NamesItsSiteAfterTheModule) {
  EXPECT_EQ(site_names(kName, parse_filled(kAten)), Names{"att"});
  EXPECT_EQ(
      site_names(kName,
                 parse_filled(with(
                     kAten, {{"%b_att_scale))",
                              R"(%b_att_scale))  # meta {nn_module_stack: "a,att,Attention"})"}}))),
      Names{"att"});
}

// ---- what may be changed -----------------------------------------------------------------------

TEST(ChangeTrueDiv, AnIntegerReturnsAsAnInteger) {
  Model model = parse(function("operator.truediv", "(%x, 7)"));
  find_transformation(kName)(model);
  EXPECT_TRUE(node(model, "y").args[1].is<double>());
  reverse_all(model);
  EXPECT_EQ(node(model, "y").args[1], Arg(7));
  EXPECT_FALSE(node(model, "y").args[1] == Arg(7.0));
}

TEST(ChangeTrueDiv, ANumberWithoutAnExactInverseReturns) {
  Model model = parse(function("operator.truediv", "(%x, 49.0)"));
  find_transformation(kName)(model);
  reverse_all(model);
  EXPECT_EQ(node(model, "y").args[1], Arg(49.0));
}

TEST(ChangeTrueDiv, TakesNegativeAndLargeNumbers) {
  for (const char* c : {"-3", "-0.1", "1", "1e-30", "1e+30", "9007199254740993"})
    expect_applies(kName, function("aten.div.Tensor", fmt::format("(%x, {})", c)));
}

TEST(ChangeTrueDiv, WorksInEveryFloatingType) {
  for (const char* dtype : {"f64", "f16", "bf16", "c64"})
    expect_applies(kName, dividing("call_function[target=aten.div.Tensor](args = (%x, 7))",
                                   std::string(dtype) + "[3, 4]"));
  expect_applies(kName, with(kAten, {{"f32", "f64"}}));
}

TEST(ChangeTrueDiv, AHalfDividedByAScalarTensorStaysAHalf) {
  const std::string text = with(kAttribute, {{"f32[3, 4]", "f16[3, 4]"}});
  expect_applies(kName, filled_with(text, 7));
}

TEST(ChangeTrueDiv, ADoubleDividedByASinglePrecisionTensorStaysExact) {
  expect_applies(kName, with(kAten, {{"f32[3, 4]", "f64[3, 4]"}}));
  expect_applies(kName, filled_with(with(kAttribute, {{"f32[3, 4]", "f64[3, 4]"}}), 7));
}

TEST(ChangeTrueDiv, ASinglePrecisionTensorDividedByADoubleScalarTensor) {
  expect_applies(kName, filled_with(with(kAttribute, {{"scale : f32[]", "scale : f64[]"}}), 7));
}

TEST(ChangeTrueDiv, KeepsDynamicShapes) {
  const std::string text = with(kAten, {{"f32[3, 4]", "f32[s0{3}, 4]"}});
  expect_applies(kName, text);
  Model model = parse_filled(text);
  find_transformation(kName)(model);
  EXPECT_EQ(print(*node(model, "y").type), "f32[s0{3}, 4]");
}

TEST(ChangeTrueDiv, ADivisorMayBroadcastTheResult) {
  expect_applies(
      kName, with(kAten, {{"f32[4]", "f32[2, 1, 4]"}, {"%y : f32[3, 4]", "%y : f32[2, 3, 4]"}}));
}

TEST(ChangeTrueDiv, TakesAConstant) {
  expect_applies(kName, with(kAten, {{"buffer", "constant"}}));
}

TEST(ChangeTrueDiv, DividesUntypedValues) {
  expect_applies(kName, with(function("operator.truediv", "(%x, 3)"), {{"%x : f32[3, 4]", "%x"}}));
  expect_applies(
      kName, with(function("operator.truediv", "(%a, 3)"),
                  {{"%x : f32[3, 4]", "%x"},
                   {"    %y", "    %a = call_function[target=torch.exp](args = (%x,))\n    %y"}}));
}

TEST(ChangeTrueDiv, KeepsADivisorThatOthersRead) {
  const std::string text = with(kAten, {{"return y", "return (y, b_att_scale)"}});
  expect_applies(kName, text);
  Model model = parse_filled(text);
  find_transformation(kName)(model);
  EXPECT_TRUE(model.state().find("att.scale"));
  EXPECT_TRUE(model.state().find("att.scale_inverse"));
}

TEST(ChangeTrueDiv, ChangesTwoDivisionsByOneTensor) {
  const std::string text = with(kAten, {{"    return y",
                                         "    %z = call_function[target=aten.div.Tensor](args = "
                                         "(%y, %b_att_scale))\n    return z"}});
  expect_applies(kName, text);
  EXPECT_EQ(site_names(kName, parse_filled(text)), (Names{"att.y", "att.z"}));
}

TEST(ChangeTrueDiv, ReversesOneOfTwoDivisionsByOneTensor) {
  const Model before =
      parse_filled(with(kAten, {{"    return y",
                                 "    %z = call_function[target=aten.div.Tensor](args = (%y, "
                                 "%b_att_scale))\n    return z"}}));
  for (const char* site : {"y", "z"}) {
    Model model = before;
    find_transformation(kName)(model);
    reverse(model, site);
    EXPECT_EQ(node(model, site), node(before, site));
    expect_same_results(before, model, random_inputs(before));
    reverse_all(model);
    EXPECT_EQ(snapshot(model), snapshot(before));
  }
}

TEST(ChangeTrueDiv, AllowsInPlaceWritesToTheDividend) {
  expect_applies(
      kName,
      with(kAten,
           {{"    %y :",
             "    %w = call_function[target=aten.mul_.Tensor](args = (%x, 2))\n    %y :"},
            {"    return y",
             "    %v = call_function[target=aten.add_.Tensor](args = (%y, 1))\n    return y"}}));
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(ChangeTrueDiv, IgnoresWhatIsNotATrueDivision) {
  for (const char* target : {"operator.floordiv", "torch.floor_divide", "aten.floor_divide.default",
                             "aten.remainder.Scalar", "aten.mul.Tensor", "mylib.div.default",
                             "my.div", "my.package.true_divide", "operator.div"})
    expect_no_match(kName, function(target, "(%x, 7)"));
  expect_no_match(kName, dividing("call_method[target=floor_divide](args = (%x, 7))"));
}

TEST(ChangeTrueDiv, RefusesARoundingMode) {
  for (const char* mode : {"floor", "trunc"}) {
    expect_refused(
        kName,
        dividing(fmt::format(
            "call_function[target=torch.div](args = (%x, 7), kwargs = {{rounding_mode: '{}'}})",
            mode)),
        "it has a rounding mode");
    expect_refused(kName,
                   dividing(fmt::format("call_function[target=aten.div.Tensor_mode](args = (%x, "
                                        "7), kwargs = {{rounding_mode: '{}'}})",
                                        mode)),
                   "it has a rounding mode");
    expect_refused(
        kName,
        dividing(fmt::format(
            "call_method[target=div](args = (%x, 7), kwargs = {{rounding_mode: '{}'}})", mode)),
        "it has a rounding mode");
  }
}

TEST(ChangeTrueDiv, RefusesDivisionInPlace) {
  for (const char* call : {"call_function[target=aten.div_.Tensor](args = (%x, 7))",
                           "call_function[target=operator.itruediv](args = (%x, 7))",
                           "call_method[target=div_](args = (%x, 7))",
                           "call_method[target=true_divide_](args = (%x, 7))"})
    expect_refused(kName, dividing(call), "it divides in place");
}

TEST(ChangeTrueDiv, RefusesDivisionIntoAGivenTensor) {
  expect_refused(kName,
                 dividing("call_function[target=torch.div](args = (%x, 7), kwargs = {out: %x})"),
                 "it writes into a tensor given as `out`");
  expect_refused(kName,
                 dividing("call_function[target=aten.div.out](args = (%x, 7), kwargs = {out: %x})"),
                 "it writes into a tensor given as `out`");
}

TEST(ChangeTrueDiv, RefusesIntegers) {
  for (const char* type : {"i64[3, 4]", "i32[3]", "u8[2]", "b8[2]"})
    expect_refused(kName, dividing("call_function[target=aten.div.Tensor](args = (%x, 7))", type),
                   "it divides integers");
}

TEST(ChangeTrueDiv, RefusesSizes) {
  const std::string untyped =
      with(function("operator.truediv", "(%n, 2)"), {{"%x : f32[3, 4]", "%x"}});
  for (const char* n : {"    %n = call_method[target=size](args = (%x, 0))\n",
                        "    %n = call_function[target=aten.sym_size.int](args = (%x, 0))\n",
                        "    %s = call_function[target=getattr](args = (%x, 'shape'))\n    %n = "
                        "call_function[target=operator.getitem](args = (%s, 0))\n",
                        "    %s = call_method[target=size](args = (%x, 0))\n    %n = "
                        "call_function[target=operator.add](args = (%s, 1))\n",
                        "    %n = call_function[target=torch.argmax](args = (%x,))\n",
                        "    %n = call_method[target=long](args = (%x,))\n"})
    expect_refused(kName, with(untyped, {{"    %y", std::string(n) + "    %y"}}),
                   "it divides integers");
}

TEST(ChangeTrueDiv, RefusesDivisionByZero) {
  for (const char* zero : {"0", "0.0", "-0.0"})
    expect_refused(kName, function("aten.div.Tensor", fmt::format("(%x, {})", zero)),
                   "it divides by zero");
  expect_refused(kName, filled_with(kAten, 0), "it divides by zero");
}

TEST(ChangeTrueDiv, RefusesADivisorThatIsNotFinite) {
  for (const char* c : {"inf", "-inf", "nan"})
    expect_refused(kName, function("aten.div.Tensor", fmt::format("(%x, {})", c)),
                   "the divisor is not finite");
  expect_refused(kName, filled_with(kAten, INFINITY), "the divisor is not finite");
  expect_refused(kName, filled_with(kAten, NAN), "the divisor is not finite");
}

TEST(ChangeTrueDiv, RefusesAnInverseThatOverflowsOrVanishes) {
  const std::string reason = "is not a normal number in the dtype of the computation";
  for (const char* c : {"1e-39", "1e+39", "5e-324", "1e+300"})
    expect_refused(kName, function("aten.div.Tensor", fmt::format("(%x, {})", c)), reason);
  for (const char* c : {"5e-324", "1e+308"})
    expect_refused(kName,
                   with(function("aten.div.Tensor", fmt::format("(%x, {})", c)), {{"f32", "f64"}}),
                   reason);
  for (const char* c : {"1e-39", "1e+39", "1e+300"})
    expect_applies(kName,
                   with(function("aten.div.Tensor", fmt::format("(%x, {})", c)), {{"f32", "f64"}}));
}

TEST(ChangeTrueDiv, RefusesATensorWhoseInverseOverflowsOrVanishes) {
  const std::string reason = "the inverse of the divisor is not a normal number";
  for (double c : {1e-39, 3e38}) expect_refused(kName, filled_with(kAten, c), reason);
  for (double c : {1e-310, 1e308})
    expect_refused(kName, filled_with(with(kAten, {{"f32", "f64"}}), c), reason);
  expect_applies(kName, filled_with(with(kAten, {{"f32", "f64"}}), 1e-39));
}

TEST(ChangeTrueDiv, RefusesADoubleScalarTensorOutsideTheRangeOfTheDividend) {
  // A scalar tensor does not promote: the division is one of floats.
  for (double c : {1e-39, 1e39})
    expect_refused(kName, filled_with(with(kAttribute, {{"scale : f32[]", "scale : f64[]"}}), c),
                   "the inverse of the divisor is not a normal number");
}

TEST(ChangeTrueDiv, RefusesADivisorInHalfPrecision) {
  for (const auto& [dtype, name] : {std::pair{"f16", "Half"}, std::pair{"bf16", "BFloat16"}})
    expect_refused(kName, with(kAten, {{"f32", dtype}}),
                   fmt::format("the inverse of the divisor would lose precision in {}", name));
}

TEST(ChangeTrueDiv, RefusesADivisorOfIntegers) {
  expect_refused(kName, with(kAten, {{"f32[4]", "i64[4]"}}),
                 "'att.scale' is Long, not a floating-point type");
}

TEST(ChangeTrueDiv, RefusesASparseDivisor) {
  Builder b;
  const NodeId c = b.buffer("c", at::rand({3, 4}).to_sparse()),
               x = b.input("x", type_of(at::rand({3, 4})));
  expect_refusal(kName, b.build(b.call("aten.div.Tensor", {x, c})), "'c' is sparse");
}

TEST(ChangeTrueDiv, RefusesADivisorWithoutData) {
  Builder b;
  const NodeId c = b.buffer("c", at::rand({3, 4}, at::device(at::kMeta))),
               x = b.input("x", type_of(at::rand({3, 4})));
  expect_refusal(kName, b.build(b.call("aten.div.Tensor", {x, c})),
                 "'c' has no data (meta device)");
}

TEST(ChangeTrueDiv, RefusesAComputedDivisor) {
  expect_refused(kName, function("aten.div.Tensor", "(%x, %x)"),
                 "the divisor is computed, not constant");
}

TEST(ChangeTrueDiv, RefusesADivisorThatIsNotAReal) {
  for (const char* c : {"True", "complex(0.0, 1.0)", "sym(s0)", "None"})
    expect_refused(kName, function("aten.div.Tensor", fmt::format("(%x, {})", c)),
                   "the divisor is not a real number");
}

TEST(ChangeTrueDiv, RefusesANumberAsDividend) {
  expect_refused(kName, function("operator.truediv", "(1.0, %x)"), "the dividend is not a tensor");
}

TEST(ChangeTrueDiv, RefusesAParameterAsDivisor) {
  expect_refused(kName, with(kAten, {{"buffer", "parameter"}}),
                 "the divisor 'att.scale' is a parameter, which training may change");
}

TEST(ChangeTrueDiv, RefusesATrainableBufferAsDivisor) {
  expect_refused(kName,
                 with(kAten, {{"att.scale : f32[4]", "att.scale : f32[4] requires_grad=True"}}),
                 "which training may change");
}

TEST(ChangeTrueDiv, RefusesADivisorThatSharesItsMemory) {
  expect_refused(kName,
                 with(kAten, {{"graph():", "parameter other : f32[4] shares=att.scale\ngraph():"}}),
                 "the divisor 'att.scale' shares its memory with another tensor");
}

TEST(ChangeTrueDiv, RefusesADivisorThatTheModelChanges) {
  expect_refused(kName,
                 with(kAten, {{"graph():", "mutates att.scale = output 0\ngraph():"},
                              {"return y", "return (y,)"}}),
                 "the divisor 'att.scale' is changed by the model itself");
}

TEST(ChangeTrueDiv, RefusesADivisorWrittenInPlace) {
  const std::string reason = "may be written in place";
  expect_refused(kName,
                 with(kAten, {{"    %y :",
                               "    %w = call_function[target=aten.add_.Tensor](args = "
                               "(%b_att_scale, 1))\n    %y :"}}),
                 reason);
  expect_refused(
      kName,
      with(kAten,
           {{"    return y",
             "    %v = call_function[target=aten.view.default](args = (%b_att_scale, [4]))\n"
             "    %w = call_function[target=aten.add_.Tensor](args = (%v, 1))\n    return y"}}),
      reason);
  expect_refused(
      kName,
      with(kAttribute, {{"    return y",
                         "    %again = get_attr[target=scale]\n"
                         "    %w = call_method[target=fill_](args = (%again, 1))\n    return y"}}),
      reason);
}

TEST(ChangeTrueDiv, RefusesADivisorThatAnUnknownFunctionMayWrite) {
  expect_refused(
      kName,
      with(kAten,
           {{"    %y :",
             "    %w = call_function[target=my.function](args = (%b_att_scale,))\n    %y :"}}),
      "may be written in place");
}

// ---- trained since -----------------------------------------------------------------------------

TEST(ChangeTrueDiv, RefusesToReverseWhenTheInverseWasChanged) {
  const Model before = parse_filled(kAten);
  Model model = before;
  find_transformation(kName)(model);
  train(model, "att.scale_inverse");
  EXPECT_THROW(reverse_all(model), Error);
  reverse_all(model, {.discard_changes = true});
  EXPECT_EQ(snapshot(model), snapshot(before));
}

}  // namespace
}  // namespace refx::testing
