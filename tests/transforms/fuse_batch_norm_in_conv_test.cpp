// SPDX-License-Identifier: Apache-2.0

// Batch norms after convolutions over sequences and volumes. What they share with those over images
// is in fuse_batch_norm_test.cpp.

#include <fmt/format.h>

#include "refx/pt2.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

// "[2, 4, 5, 5, 5]" for sizes(3, "2, 4", 5).
std::string sizes(int dims, const std::string& first, int size) {
  std::string text = "[" + first;
  for (int i = 0; i < dims; ++i) text += fmt::format(", {}", size);
  return text + "]";
}

std::string name_of(int dims, bool transposed) {
  return fmt::format("fuse-batch-norm-in-conv-{}{}d", transposed ? "transpose-" : "", dims);
}

// The arguments after the bias are those of an operator.
std::string model_text(int dims, const std::string& op, const std::string& weight,
                       const std::string& result, const std::string& arguments) {
  return fmt::format(R"(
parameter c.weight : f32{0}
parameter c.bias : f32[6]
parameter n.weight : f32[6]
parameter n.bias : f32[6]
buffer n.running_mean : f32[6]
buffer n.running_var : f32[6]
graph():
    %w : f32{0} = placeholder[target=w](state=c.weight)
    %b : f32[6] = placeholder[target=b](state=c.bias)
    %g : f32[6] = placeholder[target=g](state=n.weight)
    %z : f32[6] = placeholder[target=z](state=n.bias)
    %m : f32[6] = placeholder[target=m](state=n.running_mean)
    %v : f32[6] = placeholder[target=v](state=n.running_var)
    %x : f32{1} = placeholder[target=x]
    %c : f32{2} = call_function[target=aten.{3}](args = (%x, %w, %b{4}))
    %y : f32{2} = call_function[target=aten.batch_norm.default](args = (%c, %g, %z, %m, %v, False, 0.1, 1e-05, True))
    return y
)",
                     weight, sizes(dims, "2, 4", 5), result, op, arguments);
}

std::string conv_text(int dims) {
  return model_text(dims, fmt::format("conv{}d.default", dims), sizes(dims, "6, 4", 3),
                    sizes(dims, "2, 6", 3), "");
}

// Strides of 2 and a padding of 1.
std::string transposed_text(int dims, int groups) {
  return model_text(dims,
                    fmt::format("conv_transpose{}d.{}", dims, dims == 1 ? "default" : "input"),
                    sizes(dims, fmt::format("4, {}", 6 / groups), 3), sizes(dims, "2, 6", 10),
                    fmt::format(", [2], [1], [1], {}", groups));
}

std::string without_bias(const std::string& text) {
  return with(text, {{"parameter c.bias : f32[6]\n", ""},
                     {"    %b : f32[6] = placeholder[target=b](state=c.bias)\n", ""},
                     {"(%x, %w, %b", "(%x, %w, None"}});
}

std::string without_affine(const std::string& text) {
  return with(text, {{"parameter n.weight : f32[6]\nparameter n.bias : f32[6]\n", ""},
                     {"    %g : f32[6] = placeholder[target=g](state=n.weight)\n", ""},
                     {"    %z : f32[6] = placeholder[target=z](state=n.bias)\n", ""},
                     {"(%c, %g, %z", "(%c, None, None"}});
}

void expect_folds_in_every_form(const std::string& name, const std::string& text) {
  SCOPED_TRACE(text);
  expect_applies(name, text);
  expect_applies(name, without_bias(text));
  expect_applies(name, without_affine(text));
  expect_refused(name, with(text, {{"False, 0.1", "True, 0.1"}}),
                 "the batch norm is in training mode");
}

TEST(FuseBatchNormInConv, FoldsIntoConvolutions) {
  for (int dims : {1, 3}) expect_folds_in_every_form(name_of(dims, false), conv_text(dims));
}

TEST(FuseBatchNormInConv, FoldsIntoTransposedConvolutions) {
  for (int dims : {1, 3})
    for (int groups : {1, 2})
      expect_folds_in_every_form(name_of(dims, true), transposed_text(dims, groups));
}

TEST(FuseBatchNormInConv, FoldsIntoTheGeneralConvolution) {
  for (int dims : {1, 3})
    for (bool transposed : {false, true}) {
      const std::string ones = sizes(dims - 1, "1", 1), zeros = sizes(dims - 1, "0", 0);
      const std::string text = model_text(
          dims, "convolution.default", sizes(dims, transposed ? "4, 6" : "6, 4", 3),
          sizes(dims, "2, 6", transposed ? 7 : 3),
          fmt::format(", {0}, {1}, {0}, {2}, {1}, 1", ones, zeros, transposed ? "True" : "False"));
      expect_folds_in_every_form(name_of(dims, transposed), text);
      expect_no_match(name_of(dims, !transposed), text);
      expect_no_match(name_of(4 - dims, transposed), text);
      expect_no_match("fuse-batch-norm-2d-in-conv-2d", text);
    }
}

TEST(FuseBatchNormInConv, EachFoldsOnlyIntoItsOwnKind) {
  for (int dims : {1, 3})
    for (bool transposed : {false, true}) {
      const std::string text = transposed ? transposed_text(dims, 1) : conv_text(dims);
      expect_no_match(name_of(dims, !transposed), text);
      expect_no_match(name_of(4 - dims, transposed), text);
      expect_no_match("fuse-batch-norm-2d-in-conv-2d", text);
    }
}

TEST(FuseBatchNormInConv, RefusesAResultThatIsReturned) {
  for (int dims : {1, 3})
    expect_refused(name_of(dims, false), with(conv_text(dims), {{"return y", "return (y, c)"}}),
                   "the convolution's result is used by nodes other than the batch norm");
}

TEST(FuseBatchNormInConv, RefusesAnotherNumberOfChannels) {
  for (bool transposed : {false, true})
    expect_refused(
        name_of(1, transposed),
        with(without_bias(transposed ? transposed_text(1, 1) : conv_text(1)),
             {{transposed ? "[4, 6, 3]" : "[6, 4, 3]", transposed ? "[4, 5, 3]" : "[5, 4, 3]"}}),
        "the batch norm and the convolution have different numbers of channels");
}

// As torch.fx has them.
std::string module_text(int dims) {
  return fmt::format(R"(
parameter c.weight : f32{0}
parameter c.bias : f32[6]
parameter n.weight : f32[6]
parameter n.bias : f32[6]
buffer n.running_mean : f32[6]
buffer n.running_var : f32[6]
buffer n.num_batches_tracked : i64[]
module c : torch.nn.Conv{1}d(in_channels=4, out_channels=6, kernel_size={3})
module n : torch.nn.BatchNorm{1}d(num_features=6) training=False
graph():
    %x : f32{2} = placeholder[target=x]
    %a = call_module[target=c](args = (%x,))
    %y = call_module[target=n](args = (%a,))
    return y
)",
                     sizes(dims, "6, 4", 3), dims, sizes(dims, "2, 4", 5),
                     dims == 1 ? "(3,)" : "(3, 3, 3)");
}

TEST(FuseBatchNormInConv, KeepsTheModuleOfTheConvolution) {
  for (int dims : {1, 3}) {
    const std::string name = name_of(dims, false), text = module_text(dims);
    expect_applies(name, text);
    Model model = parse_filled(text);
    find_transformation(name)(model);
    EXPECT_EQ(node(model, "y").op, Opcode::call_module);
    EXPECT_EQ(node(model, "y").target, "c");
    EXPECT_FALSE(model.modules().find("n"));
  }
}

// Without a batch dimension the channels are first, and the batch norm takes the second.
TEST(FuseBatchNormInConv, NeedsABatchDimension) {
  const std::string text = module_text(1), name = name_of(1, false);
  expect_refused(
      name, with(text, {{"f32[2, 4, 5]", "f32[4, 8]"}}),
      "the convolution's result has 2 dimensions: its channels are not the second dimension");
  expect_refused(name, with(text, {{"%x : f32[2, 4, 5]", "%x"}}),
                 "the convolution's result is not known to have a batch dimension (run shape "
                 "propagation)");
  expect_refused(name_of(3, false), with(module_text(3), {{"%x : f32[2, 4, 5, 5, 5]", "%x"}}),
                 "the convolution's result is not known to have a batch dimension (run shape "
                 "propagation)");
}

TEST(FuseBatchNormInConv, RefusesABatchNormOfOtherDimensions) {
  expect_refused(name_of(1, false),
                 with(module_text(1), {{"torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d"}}),
                 "the batch norm is two-dimensional");
  expect_refused(name_of(3, false),
                 with(module_text(3), {{"torch.nn.BatchNorm3d", "torch.nn.BatchNorm1d"}}),
                 "the batch norm is one-dimensional");
}

TEST(FuseBatchNormInConv, RefusesModulesThatAreUsedTwice) {
  expect_refused(name_of(1, false),
                 with(module_text(1), {{"    return y",
                                        "    %z = call_module[target=c](args = (%x,))\n"
                                        "    return (y, z)"}}),
                 "module 'c' is used in more than one place");
  expect_refused(name_of(1, false), with(module_text(1), {{"training=False", "training=True"}}),
                 "the batch norm is in training mode");
}

TEST(FuseBatchNormInConv, OldNamesOfTheRulesStillWork) {
  for (int dims : {1, 3})
    for (bool transposed : {false, true}) {
      const std::string old_name =
          fmt::format("batch-norm-in-conv-{}{}d", transposed ? "transpose-" : "", dims);
      EXPECT_EQ(find_transformation(old_name).name(), name_of(dims, transposed));
    }
}

// A file that the rules of those names wrote.
TEST(FuseBatchNormInConv, ReversesWhatTheRulesDid) {
  Model model = load("tests/data/pt2/norms.all.pt2");
  for (int dims : {1, 3})
    for (bool transposed : {false, true}) {
      const Outcome outcome = find_transformation(name_of(dims, transposed))(model, Reverse::yes);
      EXPECT_EQ(outcome.reversal.reversed.size(), 1u);
    }
  ASSERT_EQ(model.history().size(), 1u);
  for (int dims : {1, 3})
    for (bool transposed : {false, true}) {
      const Outcome outcome = find_transformation(name_of(dims, transposed))(model);
      EXPECT_EQ(outcome.steps.size(), 1u);
      EXPECT_TRUE(outcome.refusals.empty());
    }
  reverse_all(model);
  EXPECT_EQ(content(model), content(load("tests/data/pt2/norms.pt2")));
}

}  // namespace
}  // namespace refx::testing
