// SPDX-License-Identifier: Apache-2.0

// The rules that come with refx, text in, text out; each in the spellings that models have.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "refx/executor.h"
#include "rules/short_text.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

void applies(const std::string& rule, const std::string& text) {
  expect_applies(rule, parse_filled(long_text(text)));
}
void refused(const std::string& rule, const std::string& text, const std::string& reason) {
  expect_refused(rule, long_text(text), reason);
}
void no_match(const std::string& rule, const std::string& text) {
  expect_no_match(rule, long_text(text));
}
void rewritten(const std::string& rule, const std::string& before, const std::string& after) {
  expect_rewritten(rule, long_text(before), rewritten_text(rule, after));
}

// ---- linears -----------------------------------------------------------------------------------

const std::string kWeights =
    "input x : f32[3, 4]\nparameter fc.weight : f32[6, 4]\nparameter fc.bias : f32[6]\n";

TEST(ShippedRules, LinearWrittenOut) {
  const std::string name = "fuse-linear";
  const std::string with_bias =
      kWeights + "y : f32[3, 6] = aten.linear.default(%x, %p_fc_weight, %p_fc_bias)\nreturn y";
  rewritten(name, kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.t.default(%p_fc_weight)
y : f32[3, 6] = aten.addmm.default(%p_fc_bias, %x, %t)
return y)",
            with_bias);
  rewritten(name, kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.permute.default(%p_fc_weight, [1, 0])
m : f32[3, 6] = aten.mm.default(%x, %t)
y : f32[3, 6] = aten.add.Tensor(%p_fc_bias, %m)
return y)",
            with_bias);
  rewritten(name, kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.transpose.int(%p_fc_weight, 0, 1)
y : f32[3, 6] = aten.matmul.default(%x, %t)
return y)",
            kWeights + "y : f32[3, 6] = aten.linear.default(%x, %p_fc_weight)\nreturn y");
}

TEST(ShippedRules, LinearWrittenOutButNotQuite) {
  const std::string name = "fuse-linear";
  no_match(name, kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.t.default(%p_fc_weight)
y : f32[3, 6] = aten.addmm.default(%p_fc_bias, %x, %t) {alpha: 2}
return y)");
  no_match(name, kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.t.default(%p_fc_weight)
y : f32[3, 6] = aten.addmm.default(%p_fc_bias, %x, %t) {beta: 0}
return y)");
  refused(name, R"(
input x : i64[3, 4]
parameter w : i64[6, 4]
t : i64[4, 6] strides=(1, 4) = aten.t.default(%p_w)
y : i64[3, 6] = aten.mm.default(%x, %t)
return y)",
          "floating(x) does not hold");
  // A bias that makes the result larger is none: the product alone is a linear.
  applies(name, R"(
input x : f32[4]
parameter w : f32[6, 4]
parameter b : f32[3, 6]
t : f32[4, 6] strides=(1, 4) = aten.t.default(%p_w)
m : f32[6] = aten.matmul.default(%x, %t)
y : f32[3, 6] = aten.add.Tensor(%m, %p_b)
return y)");
}

// Where no types are recorded, the weights have theirs.
TEST(ShippedRules, LinearWrittenOutWithAWideBias) {
  const std::string text = R"(
parameter w : f32[6, 4]
parameter b : f32[3, 6]
graph():
    %x : f32[4] = placeholder[target=x]
    %w = get_attr[target=w]
    %b = get_attr[target=b]
    %t = call_method[target=t](args = (%w,))
    %m = call_function[target=torch.matmul](args = (%x, %t))
    %y = call_function[target=operator.add](args = (%m, %b))
    return y
)";
  const Transformation& rule = find_transformation("fuse-linear");
  Model model = parse_filled(text);
  const Model original = model;
  rule(model);
  expect_same_results(original, model, random_inputs(original));
}

TEST(ShippedRules, LinearWrittenOutTurned) {
  rewritten("fuse-linear-transposed", R"(
input x : f32[3, 4]
parameter fc.weight : f32[4, 6]
parameter fc.bias : f32[6]
y : f32[3, 6] = aten.addmm.default(%p_fc_bias, %x, %p_fc_weight)
return y)",
            R"(
input x : f32[3, 4]
parameter fc.T : f32[6, 4]
parameter fc.bias : f32[6]
y : f32[3, 6] = aten.linear.default(%x, %p_fc_T, %p_fc_bias)
return y)");
  refused("fuse-linear-transposed", R"(
input x : f32[3, 4]
parameter fc.weight : f32[4, 6]
y : f32[3, 6] = aten.mm.default(%x, %p_fc_weight)
z : f32[3, 6] = aten.mm.default(%x, %p_fc_weight)
return (y, z))",
          "fc.weight");
}

TEST(ShippedRules, LinearBetweenReshapes) {
  const std::string name = "remove-reshapes-around-linear";
  const std::string head =
      "input x : f32[2, 3, 4]\nparameter fc.weight : f32[6, 4]\nparameter fc.bias : f32[6]\n";
  rewritten(
      name, head + R"(
f : f32[6, 4] = aten.view.default(%x, [6, 4])
l : f32[6, 6] = aten.linear.default(%f, %p_fc_weight, %p_fc_bias)
y : f32[2, 3, 6] = aten.view.default(%l, [2, 3, 6])
return y)",
      head + "y : f32[2, 3, 6] = aten.linear.default(%x, %p_fc_weight, %p_fc_bias)\nreturn y");
  // The numbers are dealt out anew.
  refused(name, head + R"(
f : f32[6, 4] = aten.view.default(%x, [6, 4])
l : f32[6, 6] = aten.linear.default(%f, %p_fc_weight)
y : f32[3, 2, 6] = aten.view.default(%l, [3, 2, 6])
return y)",
          "its result would have different sizes");
  // The rows have other lengths on the way; the sizes of the result are as if nothing had happened.
  const std::string folded = R"(
input x : f32[2, 4, 4]
parameter fc.weight : f32[2, 2]
f : f32[16, 2] = aten.view.default(%x, [16, 2])
l : f32[16, 2] = aten.linear.default(%f, %p_fc_weight)
y : f32[2, 4, 4] = aten.view.default(%l, [2, 4, 4])
return y)";
  refused(name, folded, "");
}

TEST(ShippedRules, MatmulWrittenOut) {
  const std::string name = "fuse-matmul";
  const std::string head = "input a : f32[2, 3, 4, 5]\ninput b : f32[2, 3, 5, 6]\n";
  rewritten(name, head + R"(
l : f32[6, 4, 5] = aten.view.default(%a, [6, 4, 5])
r : f32[6, 5, 6] = aten.view.default(%b, [6, 5, 6])
m : f32[6, 4, 6] = aten.bmm.default(%l, %r)
y : f32[2, 3, 4, 6] = aten.view.default(%m, [2, 3, 4, 6])
return y)",
            head + "y : f32[2, 3, 4, 6] = aten.matmul.default(%a, %b)\nreturn y");
  // b's batches are in another order.
  refused(name, R"(
input a : f32[2, 3, 4, 5]
input b : f32[3, 2, 5, 6]
l : f32[6, 4, 5] = aten.view.default(%a, [6, 4, 5])
r : f32[6, 5, 6] = aten.view.default(%b, [6, 5, 6])
m : f32[6, 4, 6] = aten.bmm.default(%l, %r)
y : f32[2, 3, 4, 6] = aten.view.default(%m, [2, 3, 4, 6])
return y)",
          "");
}

// ---- attention ---------------------------------------------------------------------------------

const std::string kHeads =
    "input q : f32[2, 3, 4, 8]\ninput k : f32[2, 3, 5, 8]\ninput v : f32[2, 3, 5, 8]\n";
const std::string kScores =
    "t : f32[2, 3, 8, 5] strides=(120, 40, 1, 8) = aten.transpose.int(%k, -2, -1)\n"
    "s : f32[2, 3, 4, 5] = aten.matmul.default(%q, %t)\n";
const std::string kSoft =
    "p : f32[2, 3, 4, 5] = aten.softmax.int(%m, -1)\ny : f32[2, 3, 4, 8] = aten.matmul.default(%p, "
    "%v)\nreturn y";

std::string attention(const std::string& inputs, const std::string& scores) {
  return kHeads + inputs + kScores + scores + kSoft;
}

TEST(ShippedRules, AttentionWrittenOut) {
  const std::string name = "fuse-attention";
  rewritten(name, attention("", "m : f32[2, 3, 4, 5] = aten.div.Tensor(%s, 4.0)\n"),
            kHeads +
                "y : f32[2, 3, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v) "
                "{scale: 0.25}\nreturn y");
  rewritten(name, attention("", "m : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, 0.25)\n"),
            kHeads +
                "y : f32[2, 3, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v) "
                "{scale: 0.25}\nreturn y");
  rewritten(name, attention("", "m : f32[2, 3, 4, 5] = aten.alias.default(%s)\n"),
            kHeads +
                "y : f32[2, 3, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v) "
                "{scale: 1.0}\nreturn y");
  for (const char* mask : {"4, 5", "2, 1, 4, 5", "1, 1, 1, 5"})
    rewritten(name, attention(fmt::format("input a : f32[{}]\n", mask), R"(
c : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, 0.5)
m : f32[2, 3, 4, 5] = aten.add.Tensor(%c, %a)
)"),
              kHeads + fmt::format("input a : f32[{}]\n", mask) +
                  "y : f32[2, 3, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v, %a) "
                  "{scale: 0.5}\nreturn y");
}

TEST(ShippedRules, AttentionInOtherSpellings) {
  const std::string name = "fuse-attention";
  // As BERT has it, with dropout and a softmax that is asked for its own dtype.
  applies(name, kHeads + "input a : f32[2, 1, 1, 5]\n" + R"(
t : f32[2, 3, 8, 5] strides=(120, 40, 1, 8) = aten.permute.default(%k, [0, 1, 3, 2])
s : f32[2, 3, 4, 5] = aten.matmul.default(%q, %t)
d : f32[2, 3, 4, 5] = aten.div.Tensor(%s, 2.8284271247461903)
m : f32[2, 3, 4, 5] = aten.add.Tensor(%a, %d)
p : f32[2, 3, 4, 5] = aten.softmax.int(%m, 3, torch.float32)
o : f32[2, 3, 4, 5] = aten.dropout.default(%p, 0.1, False)
c : f32[2, 3, 4, 5] = aten.contiguous.default(%o)
y : f32[2, 3, 4, 8] = aten.matmul.default(%c, %v)
return y)");
  // In half precision, with the softmax in single.
  applies(name, R"(
input q : f16[2, 3, 4, 8]
input k : f16[2, 3, 5, 8]
input v : f16[2, 3, 5, 8]
t : f16[2, 3, 8, 5] strides=(120, 40, 1, 8) = aten.transpose.int(%k, 2, 3)
s : f16[2, 3, 4, 5] = aten.matmul.default(%q, %t)
d : f16[2, 3, 4, 5] = aten.mul.Tensor(%s, 0.35)
p : f32[2, 3, 4, 5] = aten.softmax.int(%d, -1, torch.float32)
c : f16[2, 3, 4, 5] = aten.to.dtype(%p, torch.float16)
y : f16[2, 3, 4, 8] = aten.matmul.default(%c, %v)
return y)");
}

TEST(ShippedRules, AttentionButNotQuite) {
  const std::string name = "fuse-attention";
  // The mask makes the scores larger.
  refused(name, R"(
input q : f32[1, 3, 4, 8]
input k : f32[1, 3, 5, 8]
input v : f32[1, 3, 5, 8]
input a : f32[2, 3, 4, 5]
t : f32[1, 3, 8, 5] strides=(120, 40, 1, 8) = aten.transpose.int(%k, -2, -1)
s : f32[1, 3, 4, 5] = aten.matmul.default(%q, %t)
m : f32[2, 3, 4, 5] = aten.add.Tensor(%s, %a)
p : f32[2, 3, 4, 5] = aten.softmax.int(%m, -1)
y : f32[2, 3, 4, 8] = aten.matmul.default(%p, %v)
return y)",
          "");
  no_match(name, with(attention("", "m : f32[2, 3, 4, 5] = aten.div.Tensor(%s, 4.0)\n"),
                      {{"int(%m, -1)", "int(%m, -2)"}}));
  refused(name,
          with(attention("", "m : f32[2, 3, 4, 5] = aten.div.Tensor(%s, 4.0)\n"),
               {{"return y", "return (y, p)"}}),
          "'p' is returned by the model");
  // A mask without rows, which the fused operator does not take.
  refused(name, attention("input a : f32[5]\n", "m : f32[2, 3, 4, 5] = aten.add.Tensor(%s, %a)\n"),
          "cannot infer the type of its result");
  // The mask is multiplied.
  refused(name,
          attention("input a : f32[4, 5]\n", "m : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, %a)\n"),
          "does not hold");
  // Dropout that works.
  no_match(name,
           with(attention("", "m : f32[2, 3, 4, 5] = aten.dropout.default(%s, 0.1, True)\n"), {}));
  // Scores that are rounded to integers.
  const std::string rounded = kHeads + kScores + R"(
m : i64[2, 3, 4, 5] = aten.to.dtype(%s, torch.int64)
p : f32[2, 3, 4, 5] = aten.softmax.int(%m, -1, torch.float32)
y : f32[2, 3, 4, 8] = aten.matmul.default(%p, %v)
return y)";
  refused(name, rounded, "floating(wide) does not hold");
}

TEST(ShippedRules, AttentionMaskedByWhere) {
  const std::string mask = "input b : b8[4, 5]\n";
  const std::string filled = R"(
c : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, 0.5)
m : f32[2, 3, 4, 5] = aten.masked_fill.Scalar(%c, %b, -3.4028234663852886e+38)
)";
  applies("fuse-attention-masked-fill", attention(mask, filled));
  const std::string chosen = R"(
c : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, 0.5)
m : f32[2, 3, 4, 5] = aten.where.ScalarOther(%b, %c, -inf)
)";
  applies("fuse-attention-where", attention(mask, chosen));
  // A number that is not so large is added, not put in the place of others.
  refused("fuse-attention-masked-fill",
          attention(mask, with(filled, {{"-3.4028234663852886e+38", "-5.0"}})),
          "f < -1e30 does not hold");
  refused("fuse-attention-where", attention(mask, with(chosen, {{"-inf", "0.0"}})),
          "f < -1e30 does not hold");
  // The other way round.
  no_match(
      "fuse-attention-where",
      attention(mask, with(chosen, {{"ScalarOther(%b, %c, -inf)", "ScalarSelf(%b, -inf, %c)"}})));
}

// Falcon divides in place, and its keys and values have one head for all of the queries'.
TEST(ShippedRules, AttentionInPlaceAndWithOneHeadForAll) {
  const std::string name = "fuse-attention";
  const std::string heads =
      "input q : f32[2, 3, 4, 8]\ninput k : f32[2, 1, 5, 8]\ninput v : f32[2, 1, 5, 8]\n";
  const std::string text = heads + R"(
t : f32[2, 1, 8, 5] strides=(40, 40, 1, 8) = aten.transpose.int(%k, -1, -2)
s : f32[2, 3, 4, 5] = aten.matmul.default(%q, %t)
m : f32[2, 3, 4, 5] = aten.div_.Tensor(%s, 4.0)
p : f32[2, 3, 4, 5] = aten.softmax.int(%m, -1, torch.float32)
y : f32[2, 3, 4, 8] = aten.matmul.default(%p, %v)
return y)";
  rewritten(name, text,
            heads +
                "y : f32[2, 3, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v) "
                "{scale: 0.25, enable_gqa: True}\nreturn y");
  // Someone else sees the scores, which are divided in place.
  refused(name,
          with(text, {{"return y", "z : f32[2, 3, 4, 5] = aten.neg.default(%s)\nreturn (y, z)"}}),
          "'s' is also used by 'z'");
  // One batch for all of the queries' is no head.
  refused(
      name,
      with(text, {{"[2, 1, 5, 8]", "[1, 3, 5, 8]"},
                  {"[2, 1, 8, 5] strides=(40, 40, 1, 8)", "[1, 3, 8, 5] strides=(120, 40, 1, 8)"}}),
      "");
}

// SwinV2: the product of directions, scaled by a number for each head.
TEST(ShippedRules, AttentionScaledByATensor) {
  const std::string name = "fuse-attention";
  const std::string text = attention("input c : f32[3, 1, 1]\ninput a : f32[1, 3, 4, 5]\n", R"(
z : f32[2, 3, 4, 5] = aten.mul.Tensor(%s, %c)
m : f32[2, 3, 4, 5] = aten.add.Tensor(%z, %a)
)");
  applies(name, text);
  refused(name, with(text, {{"c : f32[3, 1, 1]", "c : f32[3, 1, 5]"}}), "does not hold");
  refused(name, with(text, {{"c : f32[3, 1, 1]", "c : f32[5]"}}), "");
}

// Applies them one after the other, each at one place.
void one_by_one(const std::string& text, std::initializer_list<const char*> rules) {
  Model model = parse_filled(long_text(text));
  const Model original = model;
  for (const char* rule : rules)
    EXPECT_EQ(find_transformation(rule)(model).steps.size(), 1u) << rule << print(model);
  expect_same_results(original, model, random_inputs(original));
  reverse_all(model);
  EXPECT_EQ(print(model), print(original));
}

TEST(ShippedRules, AttentionInWindows) {
  const std::string name = "reshape-attention-window-mask";
  const std::string text = R"(
input q : f32[6, 2, 4, 8]
input k : f32[6, 2, 4, 8]
input v : f32[6, 2, 4, 8]
input c : f32[2, 1, 1]
input b : f32[1, 2, 4, 4]
input a : f32[1, 3, 1, 4, 4]
t : f32[6, 2, 8, 4] strides=(64, 32, 1, 8) = aten.transpose.int(%k, -2, -1)
s : f32[6, 2, 4, 4] = aten.matmul.default(%q, %t)
e : f32[6, 2, 4, 4] = aten.mul.Tensor(%s, %c)
f : f32[6, 2, 4, 4] = aten.add.Tensor(%e, %b)
g : f32[2, 3, 2, 4, 4] = aten.view.default(%f, [2, 3, 2, 4, 4])
h : f32[2, 3, 2, 4, 4] = aten.add.Tensor(%g, %a)
i : f32[2, 3, 2, 4, 4] = aten.add.Tensor(%h, %a)
j : f32[6, 2, 4, 4] = aten.view.default(%i, [-1, 2, 4, 4])
p : f32[6, 2, 4, 4] = aten.softmax.int(%j, -1)
y : f32[6, 2, 4, 8] = aten.matmul.default(%p, %v)
return y)";
  one_by_one(text, {name.c_str(), "fuse-attention"});
  // A mask that is not repeated for each image would meet other windows; one image has no others.
  refused(name, with(text, {{"%f, [2, 3, 2, 4, 4]", "%f, [-1, 3, 2, 4, 4]"}}),
          "cannot infer the type");
  // Back to another shape than the scores had.
  refused(name,
          with(text, {{"j : f32[6, 2, 4, 4]", "j : f32[2, 6, 4, 4]"},
                      {"[-1, 2, 4, 4]", "[-1, 6, 4, 4]"},
                      {"p : f32[6, 2, 4, 4]", "p : f32[2, 6, 4, 4]"},
                      {"v : f32[6, 2, 4, 8]", "v : f32[2, 6, 4, 8]"},
                      {"y : f32[6, 2, 4, 8]", "y : f32[2, 6, 4, 8]"}}),
          "");
}

// Falcon with alibi, which is scaled together with the scores.
TEST(ShippedRules, AttentionWithAScaledBias) {
  const std::string name = "fuse-attention-scaled-bias";
  const std::string text = attention("input l : f32[2, 3, 1, 5]\ninput a : f32[2, 1, 4, 5]\n", R"(
e : f32[2, 3, 4, 5] = aten.add.Tensor(%s, %l)
f : f32[2, 3, 4, 5] = aten.mul_.Tensor(%e, 0.25)
m : f32[2, 3, 4, 5] = aten.add.Tensor(%f, %a)
)");
  applies(name, text);
  no_match("fuse-attention", text);
}

// Bloom: batch and heads in one dimension, and alibi added by baddbmm.
TEST(ShippedRules, AttentionByBaddbmm) {
  const std::string name = "split-baddbmm";
  const std::string text = R"(
input q : f32[2, 3, 4, 8]
input k : f32[2, 3, 5, 8]
input v : f32[2, 3, 5, 8]
input l : f32[6, 1, 5]
input a : f32[2, 1, 4, 5]
fq : f32[6, 4, 8] = aten.reshape.default(%q, [6, -1, 8])
fk : f32[6, 5, 8] = aten.reshape.default(%k, [6, -1, 8])
t : f32[6, 8, 5] strides=(40, 1, 8) = aten.transpose.int(%fk, -1, -2)
fv : f32[6, 5, 8] = aten.reshape.default(%v, [6, -1, 8])
b : f32[6, 4, 5] = aten.baddbmm.default(%l, %fq, %t) {beta: 1.0, alpha: 0.25}
s : f32[2, 3, 4, 5] = aten.view.default(%b, [2, 3, 4, -1])
m : f32[2, 3, 4, 5] = aten.add.Tensor(%s, %a)
p : f32[2, 3, 4, 5] = aten.softmax.int(%m, -1, torch.float32)
w : f32[6, 4, 5] = aten.view.default(%p, [6, 4, -1])
o : f32[6, 4, 8] = aten.bmm.default(%w, %fv)
y : f32[2, 3, 4, 8] = aten.view.default(%o, [2, 3, 4, 8])
return y)";
  one_by_one(text, {"fuse-matmul", name.c_str(), "fuse-attention"});
  no_match(name, with(text, {{"beta: 1.0", "beta: 2.0"}}));
  // Heads and batches the other way round.
  refused(name,
          with(text, {{"s : f32[2, 3, 4, 5]", "s : f32[3, 2, 4, 5]"},
                      {"%b, [2, 3, 4, -1]", "%b, [3, 2, 4, -1]"},
                      {"m : f32[2, 3, 4, 5]", "m : f32[3, 2, 4, 5]"},
                      {"p : f32[2, 3, 4, 5]", "p : f32[3, 2, 4, 5]"},
                      {"a : f32[2, 1, 4, 5]", "a : f32[3, 1, 4, 5]"}}),
          "its result would have different sizes");
}

TEST(ShippedRules, AttentionWithRepeatedHeads) {
  const std::string name = "fuse-attention-repeated-heads";
  auto text = [](const std::string& dim) {
    return R"(
input q : f32[2, 6, 4, 8]
input k : f32[2, 3, 5, 8]
input v : f32[2, 3, 5, 8]
a : f32[2, 3, 1, 5, 8] = aten.unsqueeze.default(%k, )" +
           dim + R"()
b : f32[2, 3, 2, 5, 8] strides=(120, 40, 0, 8, 1) = aten.expand.default(%a, [2, 3, 2, 5, 8])
kk : f32[2, 6, 5, 8] = aten.reshape.default(%b, [2, 6, 5, 8])
c : f32[2, 3, 1, 5, 8] = aten.unsqueeze.default(%v, 2)
d : f32[2, 3, 2, 5, 8] strides=(120, 40, 0, 8, 1) = aten.expand.default(%c, [2, 3, 2, 5, 8])
vv : f32[2, 6, 5, 8] = aten.reshape.default(%d, [2, 6, 5, 8])
y : f32[2, 6, 4, 8] = aten.scaled_dot_product_attention.default(%q, %kk, %vv)
return y)";
  };
  rewritten(name, text("2"), R"(
input q : f32[2, 6, 4, 8]
input k : f32[2, 3, 5, 8]
input v : f32[2, 3, 5, 8]
y : f32[2, 6, 4, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v) {enable_gqa: True}
return y)");
  // Heads one after the other, again and again: other heads meet.
  no_match(name, with(text("2"), {{"k : f32[2, 3, 5, 8]", "k : f32[2, 3, 5, 8]"},
                                  {"a : f32[2, 3, 1, 5, 8] = aten.unsqueeze.default(%k, 2)",
                                   "a : f32[2, 1, 3, 5, 8] = aten.unsqueeze.default(%k, 1)"},
                                  {"b : f32[2, 3, 2, 5, 8] strides=(120, 40, 0, 8, 1) = "
                                   "aten.expand.default(%a, [2, 3, 2, 5, 8])",
                                   "b : f32[2, 2, 3, 5, 8] strides=(120, 0, 40, 8, 1) = "
                                   "aten.expand.default(%a, [2, 2, 3, 5, 8])"}}));
  // Causal attention stays causal, or is left alone.
  const std::string causal =
      with(text("2"), {{"(%q, %kk, %vv)", "(%q, %kk, %vv, None, 0.0, True)"}});
  no_match(name, causal);
}

// ---- norms -------------------------------------------------------------------------------------

const std::string kRows = "input x : f32[2, 3, 8]\nparameter w : f32[8]\nparameter b : f32[8]\n";
const std::string kCentred =
    "m : f32[2, 3, 1] = aten.mean.dim(%x, [-1], True)\nd : f32[2, 3, 8] = aten.sub.Tensor(%x, "
    "%m)\n";

TEST(ShippedRules, LayerNormWrittenOut) {
  const std::string name = "fuse-layer-norm";
  const std::string scaled = R"(
g : f32[2, 3, 8] = aten.mul.Tensor(%p_w, %n)
y : f32[2, 3, 8] = aten.add.Tensor(%g, %p_b)
return y)";
  const std::string whole =
      kRows + "y : f32[2, 3, 8] = aten.layer_norm.default(%x, [8], %p_w, %p_b, 1e-06)\nreturn y";
  rewritten(name, kRows + kCentred + R"(
q : f32[2, 3, 8] = aten.pow.Tensor_Scalar(%d, 2)
v : f32[2, 3, 1] = aten.mean.dim(%q, [2], True)
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.sqrt.default(%e)
n : f32[2, 3, 8] = aten.div.Tensor(%d, %r)
)" + scaled,
            whole);
  rewritten(name, kRows + kCentred + R"(
q : f32[2, 3, 8] = aten.mul.Tensor(%d, %d)
v : f32[2, 3, 1] = aten.mean.dim(%q, [-1], True)
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.rsqrt.default(%e)
n : f32[2, 3, 8] = aten.mul.Tensor(%r, %d)
)" + scaled,
            whole);
  rewritten(name, kRows + kCentred + R"(
v : f32[2, 3, 1] = aten.var.correction(%x, [-1]) {correction: 0, keepdim: True}
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.sqrt.default(%e)
n : f32[2, 3, 8] = aten.div.Tensor(%d, %r)
)" + scaled,
            whole);
}

// Cohere: the difference to the mean twice, all of it in float32, the weight too, and cast back
// last.
TEST(ShippedRules, LayerNormInAWiderType) {
  const std::string name = "fuse-layer-norm";
  for (const std::string type : {"bf16", "f16", "f32"}) {
    const std::string dtype = type == "bf16" ? "bfloat16" : type == "f16" ? "float16" : "float32";
    const std::string head = fmt::format("input x : {0}[2, 3, 8]\nparameter w : {0}[8]\n", type);
    const std::string text = head + fmt::format(R"(
h : f32[2, 3, 8] = aten.to.dtype(%x, torch.float32)
m : f32[2, 3, 1] = aten.mean.dim(%h, [-1], True)
d : f32[2, 3, 8] = aten.sub.Tensor(%h, %m)
q : f32[2, 3, 8] = aten.pow.Tensor_Scalar(%d, 2)
v : f32[2, 3, 1] = aten.mean.dim(%q, [-1], True)
c : f32[2, 3, 8] = aten.sub.Tensor(%h, %m)
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-05)
r : f32[2, 3, 1] = aten.rsqrt.default(%e)
n : f32[2, 3, 8] = aten.mul.Tensor(%c, %r)
u : f32[8] = aten.to.dtype(%p_w, torch.float32)
g : f32[2, 3, 8] = aten.mul.Tensor(%u, %n)
y : {0}[2, 3, 8] = aten.to.dtype(%g, torch.{1})
return y)",
                                                type, dtype);
    rewritten(
        name, text,
        head +
            fmt::format(
                "y : {}[2, 3, 8] = aten.layer_norm.default(%x, [8], %p_w, None, 1e-05)\nreturn y",
                type));
    // What is centred is not what is normalized.
    no_match(name, with(text, {{"c : f32[2, 3, 8] = aten.sub.Tensor(%h, %m)",
                                "c : f32[2, 3, 8] = aten.sub.Tensor(%h, %v)"}}));
  }
}

TEST(ShippedRules, LayerNormButNotQuite) {
  const std::string name = "fuse-layer-norm";
  const std::string text = kRows + kCentred + R"(
v : f32[2, 3, 1] = aten.var.correction(%x, [-1]) {correction: 0, keepdim: True}
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.sqrt.default(%e)
y : f32[2, 3, 8] = aten.div.Tensor(%d, %r)
return y)";
  applies(name, text);
  no_match(name, with(text, {{"correction: 0", "correction: 1"}}));
  no_match(name, with(text, {{"%x, [-1]) {", "%x, [-2]) {"}}));
  no_match(name, with(text, {{"%x, [-1], True)", "%x, [1], True)"}}));
  refused(name, with(text, {{"return y", "return (y, m)"}}), "'m' is returned by the model");
  refused(name, with(text, {{"return y", "return (y, v)"}}), "'v' is returned by the model");
  // Over all of the rows' numbers at once.
  no_match(name, with(text, {{"%x, [-1], True)", "%x, [-1, -2], True)"}}));
}

TEST(ShippedRules, LayerNormInParts) {
  rewritten(
      "fuse-native-layer-norm", kRows + R"(
n = aten.native_layer_norm.default(%x, [8], %p_w, %p_b, 1e-05)
y : f32[2, 3, 8] = operator.getitem(%n, 0)
return y)",
      kRows + "y : f32[2, 3, 8] = aten.layer_norm.default(%x, [8], %p_w, %p_b, 1e-05)\nreturn y");
  refused("fuse-native-layer-norm", kRows + R"(
n = aten.native_layer_norm.default(%x, [8], %p_w, %p_b, 1e-05)
y : f32[2, 3, 8] = operator.getitem(%n, 0)
z : f32[2, 3, 1] = operator.getitem(%n, 1)
return (y, z))",
          "'n' is also used by 'z'");
}

TEST(ShippedRules, RmsNormWrittenOut) {
  const std::string name = "fuse-rms-norm";
  const std::string head = "input x : f16[2, 3, 8]\nparameter w : f16[8]\n";
  const std::string text = head + R"(
h : f32[2, 3, 8] = aten.to.dtype(%x, torch.float32)
q : f32[2, 3, 8] = aten.pow.Tensor_Scalar(%h, 2)
v : f32[2, 3, 1] = aten.mean.dim(%q, [-1], True)
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.rsqrt.default(%e)
n : f32[2, 3, 8] = aten.mul.Tensor(%h, %r)
c : f16[2, 3, 8] = aten.to.dtype(%n, torch.float16)
y : f16[2, 3, 8] = aten.mul.Tensor(%p_w, %c)
return y)";
  rewritten(name, text,
            head + "y : f16[2, 3, 8] = aten.rms_norm.default(%x, [8], %p_w, 1e-06)\nreturn y");
  no_match(name, with(text, {{"%q, [-1]", "%q, [-2]"}}));
  no_match(name, with(text, {{"Scalar(%h, 2)", "Scalar(%h, 3)"}}));
  // A weight for every row is no weight of a norm: it stays.
  applies(name, with(text, {{"w : f16[8]", "w : f16[3, 8]"}}));
  // Rounded to integers before.
  const std::string rounded = with(text, {{"f16", "f32"},
                                          {"float16", "float32"},
                                          {"h : f32[2, 3, 8] = aten.to.dtype(%x, torch.float32)",
                                           "h : i32[2, 3, 8] = aten.to.dtype(%x, torch.int32)"},
                                          {"q : f32[2, 3, 8] = aten.pow.Tensor_Scalar(%h, 2)",
                                           "qi : i32[2, 3, 8] = aten.pow.Tensor_Scalar(%h, 2)\nq : "
                                           "f32[2, 3, 8] = aten.to.dtype(%qi, torch.float32)"}});
  no_match(name, rounded);
}

// GPT-OSS and OLMo: cast back after the weight, which float32 numbers are multiplied by.
TEST(ShippedRules, RmsNormCastBackLast) {
  const std::string name = "fuse-rms-norm";
  const std::string head = "input x : bf16[2, 3, 8]\nparameter w : bf16[8]\n";
  const std::string text = head + R"(
h : f32[2, 3, 8] = aten.to.dtype(%x, torch.float32)
q : f32[2, 3, 8] = aten.pow.Tensor_Scalar(%h, 2)
v : f32[2, 3, 1] = aten.mean.dim(%q, [-1], True)
e : f32[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : f32[2, 3, 1] = aten.rsqrt.default(%e)
n : f32[2, 3, 8] = aten.mul.Tensor(%h, %r)
g : f32[2, 3, 8] = aten.mul.Tensor(%p_w, %n)
y : bf16[2, 3, 8] = aten.to.dtype(%g, torch.bfloat16)
return y)";
  rewritten(name, text,
            head + "y : bf16[2, 3, 8] = aten.rms_norm.default(%x, [8], %p_w, 1e-06)\nreturn y");
  // The part of it that stays float32 is no refusal.
  EXPECT_TRUE(find_transformation(name).find(parse_filled(long_text(text))).refusals.empty());
  refused(name,
          with(text, {{"y : bf16[2, 3, 8] = aten.to.dtype(%g, torch.bfloat16)",
                       "y : f32[2, 3, 8] = aten.neg.default(%g)"}}),
          "its result would be BFloat16 instead of Float");
  // Rounded to a narrower type on the way.
  refused(name, R"(
input x : f32[2, 3, 8]
h : bf16[2, 3, 8] = aten.to.dtype(%x, torch.bfloat16)
q : bf16[2, 3, 8] = aten.pow.Tensor_Scalar(%h, 2)
v : bf16[2, 3, 1] = aten.mean.dim(%q, [-1], True)
e : bf16[2, 3, 1] = aten.add.Tensor(%v, 1e-06)
r : bf16[2, 3, 1] = aten.rsqrt.default(%e)
n : bf16[2, 3, 8] = aten.mul.Tensor(%h, %r)
y : f32[2, 3, 8] = aten.to.dtype(%n, torch.float32)
return y)",
          "wider(x, wide) == wide does not hold");
}

// ---- activations -------------------------------------------------------------------------------

TEST(ShippedRules, GeluWrittenOut) {
  const std::string name = "fuse-gelu";
  const std::string text = R"(
input x : f32[2, 4]
h : f32[2, 4] = aten.mul.Tensor(%x, 0.5)
c : f32[2, 4] = aten.div.Tensor(%x, 1.4142135623730951)
e : f32[2, 4] = aten.erf.default(%c)
o : f32[2, 4] = aten.add.Tensor(%e, 1.0)
y : f32[2, 4] = aten.mul.Tensor(%h, %o)
return y)";
  rewritten(name, text, "input x : f32[2, 4]\ny : f32[2, 4] = aten.gelu.default(%x)\nreturn y");
  applies(
      name,
      with(text, {{"div.Tensor(%x, 1.4142135623730951)", "mul.Tensor(%x, 0.7071067811865475)"}}));
  applies(name, with(text, {{"mul.Tensor(%h, %o)", "mul.Tensor(%o, %h)"},
                            {"mul.Tensor(%x, 0.5)", "div.Tensor(%x, 2)"}}));
  refused(name, with(text, {{"1.4142135623730951", "1.41521"}}),
          "near(c, 0.7071067811865476) does not hold");
  refused(name, with(text, {{"mul.Tensor(%x, 0.5)", "mul.Tensor(%x, 0.5001)"}}),
          "h == 0.5 does not hold");
  no_match(name, with(text, {{"add.Tensor(%e, 1.0)", "add.Tensor(%e, 1.001)"}}));
  no_match(name, with(text, {{"add.Tensor(%e, 1.0)", "add.Tensor(%e, 1.0) {alpha: 2}"}}));
  refused(name, with(text, {{"return y", "return (y, e)"}}), "'e' is returned by the model");
}

TEST(ShippedRules, GeluByTanhWrittenOut) {
  const std::string name = "fuse-gelu-tanh";
  const std::string text = R"(
input x : f32[2, 4]
h : f32[2, 4] = aten.mul.Tensor(%x, 0.5)
q : f32[2, 4] = aten.pow.Tensor_Scalar(%x, 3.0)
a : f32[2, 4] = aten.mul.Tensor(%q, 0.044715)
s : f32[2, 4] = aten.add.Tensor(%x, %a)
c : f32[2, 4] = aten.mul.Tensor(%s, 0.7978845608028654)
e : f32[2, 4] = aten.tanh.default(%c)
o : f32[2, 4] = aten.add.Tensor(%e, 1.0)
y : f32[2, 4] = aten.mul.Tensor(%h, %o)
return y)";
  rewritten(
      name, text,
      "input x : f32[2, 4]\ny : f32[2, 4] = aten.gelu.default(%x) {approximate: 'tanh'}\nreturn y");
  refused(name, with(text, {{"0.044715", "0.0457"}}), "near(a, 0.044715) does not hold");
  no_match(name, with(text, {{"Scalar(%x, 3.0)", "Scalar(%x, 2.0)"}}));
  no_match(name, with(text, {{"input x : f32[2, 4]", "input x : f32[2, 4]\ninput z : f32[2, 4]"},
                             {"Tensor(%x, %a)", "Tensor(%z, %a)"}}));
}

TEST(ShippedRules, SiluWrittenOut) {
  const std::string name = "fuse-silu";
  const std::string text = R"(
input x : f32[2, 4]
s : f32[2, 4] = aten.sigmoid.default(%x)
y : f32[2, 4] = aten.mul.Tensor(%s, %x)
return y)";
  rewritten(name, text, "input x : f32[2, 4]\ny : f32[2, 4] = aten.silu.default(%x)\nreturn y");
  applies(name, R"(
input x : f16[2, 4]
h : f32[2, 4] = aten.to.dtype(%x, torch.float32)
s : f32[2, 4] = aten.sigmoid.default(%h)
m : f32[2, 4] = aten.mul.Tensor(%h, %s)
y : f16[2, 4] = aten.to.dtype(%m, torch.float16)
return y)");
  refused(name, R"(
input x : f32[2, 4]
h : i32[2, 4] = aten.to.dtype(%x, torch.int32)
s : f32[2, 4] = aten.sigmoid.default(%h)
y : f32[2, 4] = aten.mul.Tensor(%h, %s)
return y)",
          "floating(wide) does not hold");
  refused(name, with(text, {{"return y", "return (y, s)"}}), "'s' is returned by the model");
}

// ---- layers ------------------------------------------------------------------------------------

TEST(ShippedRules, MergeLora) {
  const std::string text = R"(
input x : f32[3, 4]
parameter l.base.weight : f32[6, 4]
parameter l.base.bias : f32[6]
parameter l.A.weight : f32[2, 4]
parameter l.B.weight : f32[6, 2]
w : f32[3, 6] = aten.linear.default(%x, %p_l_base_weight, %p_l_base_bias)
a : f32[3, 2] = aten.linear.default(%x, %p_l_A_weight)
b : f32[3, 6] = aten.linear.default(%a, %p_l_B_weight)
s : f32[3, 6] = aten.mul.Tensor(%b, 0.5)
y : f32[3, 6] = aten.add.Tensor(%w, %s)
return y)";
  rewritten("merge-lora", text, R"(
input x : f32[3, 4]
parameter l.base.M : f32[6, 4]
parameter l.base.bias : f32[6]
y : f32[3, 6] = aten.linear.default(%x, %p_l_base_M, %p_l_base_bias)
return y)");
  refused("merge-lora", with(text, {{"return y", "return (y, a)"}}),
          "'a' is returned by the model");
  no_match("merge-lora",
           with(text, {{"input x : f32[3, 4]", "input x : f32[3, 4]\ninput z : f32[3, 4]"},
                       {"a : f32[3, 2] = aten.linear.default(%x",
                        "a : f32[3, 2] = aten.linear.default(%z"}}));
  refused(
      "merge-lora",
      with(text, {{"return y", "z : f32[6, 2] = aten.exp.default(%p_l_B_weight)\nreturn (y, z)"}}),
      "l.B.weight");
}

TEST(ShippedRules, LinearAfterLinear) {
  const std::string text = R"(
input x : f32[3, 4]
parameter a.weight : f32[8, 4]
parameter a.bias : f32[8]
parameter b.weight : f32[2, 8]
parameter b.bias : f32[2]
l : f32[3, 8] = aten.linear.default(%x, %p_a_weight, %p_a_bias)
y : f32[3, 2] = aten.linear.default(%l, %p_b_weight, %p_b_bias)
return y)";
  applies("fuse-consecutive-linears", text);
  applies("fuse-consecutive-linears-without-bias",
          with(text, {{"parameter a.bias : f32[8]\n", ""}, {", %p_a_bias", ""}}));
  refused("fuse-consecutive-linears",
          with(text, {{"[8, 4]", "[1, 4]"},
                      {"a.bias : f32[8]", "a.bias : f32[1]"},
                      {"[2, 8]", "[2, 1]"},
                      {"f32[3, 8]", "f32[3, 1]"}}),
          "does not hold");
  refused("fuse-consecutive-linears", with(text, {{"return y", "return (y, l)"}}),
          "'l' is returned by the model");
  no_match("fuse-consecutive-linears",
           with(text, {{"y : f32[3, 2]", "r : f32[3, 8] = aten.relu.default(%l)\ny : f32[3, 2]"},
                       {"default(%l, %p_b_w", "default(%r, %p_b_w"}}));
}

// As DETR has it.
TEST(ShippedRules, FrozenBatchNormInConv) {
  const std::string name = "fuse-frozen-batch-norm-in-conv-2d";
  const std::string text = R"(
input x : f32[2, 4, 5, 5]
parameter c.weight : f32[6, 4, 3, 3]
buffer n.weight : f32[6]
buffer n.bias : f32[6]
buffer n.mean : f32[6]
buffer n.var : f32[6]
c : f32[2, 6, 3, 3] = aten.conv2d.default(%x, %p_c_weight, None, [1, 1], [0, 0])
g : f32[1, 6, 1, 1] = aten.reshape.default(%b_n_weight, [1, -1, 1, 1])
z : f32[1, 6, 1, 1] = aten.reshape.default(%b_n_bias, [1, -1, 1, 1])
v : f32[1, 6, 1, 1] = aten.reshape.default(%b_n_var, [1, -1, 1, 1])
m : f32[1, 6, 1, 1] = aten.reshape.default(%b_n_mean, [1, -1, 1, 1])
e : f32[1, 6, 1, 1] = aten.add.Tensor(%v, 1e-05)
r : f32[1, 6, 1, 1] = aten.rsqrt.default(%e)
s : f32[1, 6, 1, 1] = aten.mul.Tensor(%g, %r)
k : f32[1, 6, 1, 1] = aten.mul.Tensor(%m, %s)
t : f32[1, 6, 1, 1] = aten.sub.Tensor(%z, %k)
w : f32[2, 6, 3, 3] = aten.mul.Tensor(%c, %s)
y : f32[2, 6, 3, 3] = aten.add.Tensor(%w, %t)
return y)";
  rewritten(name, text, R"(
input x : f32[2, 4, 5, 5]
parameter c.c : f32[6]
parameter c.M : f32[6, 4, 3, 3]
y : f32[2, 6, 3, 3] = aten.conv2d.default(%x, %p_c_M, %p_c_c, [1, 1], [0, 0], [1, 1], 1)
return y)");
  applies(name, with(text, {{"parameter c.weight : f32[6, 4, 3, 3]\n",
                             "parameter c.weight : f32[6, 4, 3, 3]\nparameter c.bias : f32[6]\n"},
                            {"%p_c_weight, None", "%p_c_weight, %p_c_bias"}}));
  // Scaled along the width.
  no_match(name, with(text, {{"f32[6, 4, 3, 3]", "f32[3, 4, 3, 3]"},
                             {"f32[2, 6, 3, 3]", "f32[2, 3, 3, 3]"},
                             {"f32[6]", "f32[3]"},
                             {"f32[1, 6, 1, 1]", "f32[1, 1, 1, 3]"},
                             {"[1, -1, 1, 1]", "[1, 1, 1, -1]"}}));
  refused(name, with(text, {{"return y", "return (y, c)"}}), "'c' is returned by the model");
}

// As torch.fx has them.
TEST(ShippedRules, LayersThatAreModules) {
  expect_applies("merge-lora", R"(
parameter base.weight : f32[6, 4]
parameter base.bias : f32[6]
parameter a.weight : f32[2, 4]
parameter b.weight : f32[6, 2]
module base : torch.nn.Linear(in_features=4, out_features=6, bias=True)
module a : torch.nn.Linear(in_features=4, out_features=2, bias=False)
module b : torch.nn.Linear(in_features=2, out_features=6, bias=False)
module drop : torch.nn.Dropout(p=0.1) training=False
graph():
    %x = placeholder[target=x]
    %w = call_module[target=base](args = (%x,))
    %d = call_module[target=drop](args = (%x,))
    %l = call_module[target=a](args = (%d,))
    %u = call_module[target=b](args = (%l,))
    %s = call_function[target=operator.mul](args = (%u, 2.0))
    %y = call_function[target=operator.add](args = (%w, %s))
    return y
)");
}

// ---- lossy ones --------------------------------------------------------------------------------

constexpr const char* kOfLinears[] = {"compute-linear-bf16", "store-linear-bf16",
                                      "store-linear-int8", "quantize-linear-int8"};

// As GPT-2 (Conv1D) and Falcon write their linears.
TEST(ShippedRules, LossyLinearsInOtherSpellings) {
  for (const std::string name : kOfLinears) {
    for (const char* call : {"y : f32[3, 6] = aten.addmm.default(%p_b, %x, %p_v)",
                             "y : f32[3, 6] = aten.mm.default(%x, %p_v)",
                             "m : f32[3, 6] = aten.matmul.default(%x, %p_v)\ny : f32[3, 6] = "
                             "aten.add.Tensor(%m, %p_b)",
                             "t : f32[8, 6] strides=(1, 8) = aten.numpy_T.default(%p_w)\n"
                             "y : f32[3, 6] = aten.matmul.default(%x, %t)",
                             "t : f32[8, 6] strides=(1, 8) = aten.t.default(%p_w)\n"
                             "y : f32[3, 6] = aten.addmm.default(%p_b, %x, %t)"}) {
      Model model = parse_filled(
          long_text("input x : f32[3, 8]\nparameter w : f32[6, 8]\nparameter v : f32[8, 6]\n"
                    "parameter b : f32[6]\n" +
                    std::string(call) + "\nreturn y"));
      const Model original = model;
      const auto inputs = random_inputs(original);
      ASSERT_EQ(find_transformation(name)(model).steps.size(), 1u) << name << call;
      const at::Tensor was = Executor(original).run(inputs).toTensor();
      const at::Tensor now = Executor(model).run(inputs).toTensor();
      EXPECT_LT((was - now).norm().item<double>(), 3e-2 * was.norm().item<double>())
          << name << call;
      reverse_all(model);
      EXPECT_EQ(print(model), print(original));
    }
  }
}

// The weights of experts: as transformers has them for float32, and as aten has them.
TEST(ShippedRules, LossyGroupedProducts) {
  for (const std::string name : {"store-grouped-mm-bf16", "store-grouped-mm-int8"}) {
    for (const char* op :
         {"aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"}) {
      for (bool turned : {false, true}) {
        const std::string text =
            "input x : f32[6, 8]\ninput e : f32[3]\n"
            "parameter w : f32[3, 16, 8]\nparameter v : f32[3, 8, 16]\n"
            "o : i32[3] = aten.to.dtype(%e, torch.int32)\n" +
            std::string(turned ? "t : f32[3, 8, 16] strides=(128, 1, 8) = "
                                 "aten.transpose.int(%p_w, -2, -1)\n"
                               : "") +
            fmt::format("g : f32[6, 16] = {}(%x, {}, %o)\n", op, turned ? "%t" : "%p_v") +
            // GPT-OSS adds its biases in place.
            "y : f32[6, 16] = aten.add_.Tensor(%g, 1.0)\nreturn y";
        Model model = parse_filled(long_text(text));
        const Model original = model;
        const std::vector<c10::IValue> inputs = {at::randn({6, 8}), at::tensor({2.F, 2.F, 6.F})};
        ASSERT_EQ(find_transformation(name)(model).steps.size(), 1u) << name << text;
        EXPECT_NE(print(model).find(op), std::string::npos) << print(model);
        const at::Tensor was = Executor(original).run(inputs).toTensor();
        const at::Tensor now = Executor(model).run(inputs).toTensor();
        EXPECT_LT((was - now).norm().item<double>(), 3e-2 * was.norm().item<double>()) << name;
        EXPECT_GT((was - now).abs().max().item<double>(), 0) << name;
        reverse_all(model);
        EXPECT_EQ(print(model), print(original));
      }
    }
  }
}

// Whoever writes into the result of a product writes into that of a linear.
TEST(ShippedRules, ResultsThatAreWrittenInPlace) {
  const std::string text = kWeights + R"(
t : f32[4, 6] strides=(1, 4) = aten.t.default(%p_fc_weight)
m : f32[3, 6] = aten.matmul.default(%x, %t)
y : f32[3, 6] = aten.add_.Tensor(%m, 1.0)
z : f32[3, 6] = aten.neg.default(%m)
return (y, z))";
  applies("fuse-linear", text);
  // A view of something else may be written, but not be another tensor then.
  refused("remove-reshapes-around-linear", R"(
input x : f32[2, 3, 4]
parameter w : f32[6, 4]
f : f32[6, 4] = aten.view.default(%x, [6, 4])
l : f32[6, 6] = aten.linear.default(%f, %p_w)
v : f32[2, 3, 6] = aten.view.default(%l, [2, 3, 6])
y : f32[2, 3, 6] = aten.add_.Tensor(%v, 1.0)
return y)",
          "'v' may be written in place");
}

}  // namespace
}  // namespace refx::testing
