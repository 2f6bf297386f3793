// SPDX-License-Identifier: Apache-2.0

// Linears, convolutions and batch norms in every spelling, as the views of operators see them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kit.h"
#include "ops/views.h"

namespace refx::testing {
namespace {

// A norm with all its tensors.
std::string all(const char* eps) {
  return fmt::format("x by bn.running_mean bn.running_var bn.weight bn.bias eps {}", eps);
}

struct Row {
  const char *node, *seen;
};

// A model whose last node is y, after lines that declare and read its tensors.
Model with_node(const std::string& declared, const std::string& read, const std::string& node) {
  return parse(
      fmt::format("{}graph():\n    %x = placeholder[target=x]\n{}    %y = {}\n    return (y,)\n",
                  declared, read, node));
}

const std::string kLinear = "parameter fc.weight : f32[3, 4]\nparameter fc.bias : f32[3]\n";
const std::string kLifted =
    "    %w = placeholder[target=w](state=fc.weight)\n"
    "    %b = placeholder[target=b](state=fc.bias)\n";
const std::string kFetched =
    "    %w = get_attr[target=fc.weight]\n    %b = get_attr[target=fc.bias]\n";

TEST(LinearView, Calls) {
  const Row rows[] = {
      {"call_function[target=aten.linear.default](args = (%x, %w, %b))", "x * fc.weight + fc.bias"},
      {"call_function[target=torch.ops.aten.linear.default](args = (%x, %w, %b))",
       "x * fc.weight + fc.bias"},
      {"call_function[target=torch.nn.functional.linear](args = (%x, %w, %b))",
       "x * fc.weight + fc.bias"},
      {"call_function[target=torch._C._nn.linear](args = (%x, %w, %b))", "x * fc.weight + fc.bias"},
      {"call_function[target=torch.nn.functional.linear](args = (%x,), kwargs = {weight: %w, bias: "
       "%b})",
       "x * fc.weight + fc.bias"},
      {"call_function[target=torch.nn.functional.linear](args = (), kwargs = {input: %x, weight: "
       "%w, bias: %b})",
       "x * fc.weight + fc.bias"},
      {"call_function[target=aten.linear.default](args = (%x, %w))", "x * fc.weight"},
      {"call_function[target=aten.linear.default](args = (%x, %w, None))", "x * fc.weight"},
      {"call_function[target=torch.nn.functional.linear](args = (%x, %w), kwargs = {bias: None})",
       "x * fc.weight"},
      {"call_function[target=aten.linear.default](args = (%x, %x))",
       "x * ?: its weight is an input, not stored"},
      {"call_function[target=aten.linear.default](args = (%x, %w, %x))",
       "x * fc.weight: its bias is an input, not stored"},
      {"call_function[target=aten.linear.default](args = (1.0, %w))",
       "? * fc.weight: its input is not a tensor of the graph"},
      {"call_function[target=aten.linear.default](args = (%x, %b))",
       "x * fc.bias: its weight is not a matrix"},
      // Not a linear, though its name or arguments look like one.
      {"call_function[target=aten.addmm.default](args = (%b, %x, %w))", "no"},
      {"call_function[target=my.linear.default](args = (%x, %w, %b))", "no"},
      {"call_function[target=mine.linear](args = (%x, %w, %b))", "no"},
      {"call_method[target=linear](args = (%x, %w, %b))", "no"},
      {"call_function[target=aten.matmul.default](args = (%x, %w))", "no"},
  };
  for (const auto& [node, seen] : rows)
    for (const std::string& read : {kLifted, kFetched})
      EXPECT_EQ(linear_in(with_node(kLinear, read, node), "y"), seen) << node << "\n" << read;
}

TEST(LinearView, AWeightThatIsAlsoItsInputIsShared) {
  const char* node = "call_function[target=aten.linear.default](args = (%w, %w))";
  EXPECT_EQ(linear_in(with_node(kLinear, kLifted, node), "y"),
            "w * fc.weight: 'fc.weight' is used in more than one place");
}

TEST(LinearView, Modules) {
  const std::string linear =
      fmt::format("{}module fc : torch.nn.Linear(in_features=4, out_features=3)\n", kLinear);
  const Row rows[] = {
      {"call_module[target=fc](args = (%x,))", "x * fc.weight + fc.bias"},
      {"call_module[target=fc](args = (), kwargs = {input: %x})", "x * fc.weight + fc.bias"},
      {"call_module[target=fc](args = (%x, %x))",
       "x * fc.weight + fc.bias: module 'fc' is not called with one tensor"},
      {"call_module[target=fc](args = (2.0,))",
       "? * fc.weight + fc.bias: module 'fc' is not called with one tensor"},
  };
  for (const auto& [node, seen] : rows)
    EXPECT_EQ(linear_in(with_node(linear, "", node), "y"), seen);

  const char* twice = "    %z = call_module[target=fc](args = (%x,))\n";
  EXPECT_EQ(linear_in(with_node(linear, twice, rows[0].node), "y"),
            "x * fc.weight + fc.bias: module 'fc' is used in more than one place");
  EXPECT_EQ(
      linear_in(with_node(linear, "    %w = get_attr[target=fc.weight]\n", rows[0].node), "y"),
      "x * fc.weight + fc.bias: 'fc.weight' is used in more than one place");
  for (const char* type : {"torch.nn.Bilinear", "torch.nn.LazyLinear", "mine.Linear"}) {
    const std::string other = fmt::format("{}module fc : {}()\n", kLinear, type);
    EXPECT_EQ(linear_in(with_node(other, "", rows[0].node), "y"), "no") << type;
  }
}

TEST(LinearView, TensorsThatCannotBeRewritten) {
  const char* node = "call_function[target=aten.linear.default](args = (%x, %w, %b))";
  const Row rows[] = {
      {"parameter fc.weight : f32[3, 4]\nparameter fc.bias : f64[3]\n",
       "weight and bias have different dtypes"},
      {"parameter fc.weight : f32[3, 4]\nparameter fc.bias : f32[4]\n",
       "its bias does not fit its weight"},
      {"parameter fc.weight : f32[3, 4]\nparameter fc.bias : f32[1, 3]\n",
       "its bias does not fit its weight"},
      {"parameter fc.weight : f32[2, 3, 4]\nparameter fc.bias : f32[3]\n",
       "its weight is not a matrix"},
      {"buffer fc.weight : i64[3, 4]\nparameter fc.bias : f32[3]\n",
       "'fc.weight' is Long, not a floating-point type that refx supports"},
      {"buffer fc.weight : c64[3, 4]\nparameter fc.bias : f32[3]\n",
       "'fc.weight' is ComplexFloat, not a floating-point type that refx supports"},
      {"parameter fc.weight : f32[3, 4]\nparameter fc.bias : f32[3] shares=fc.weight\n",
       "'fc.weight' shares its memory with another tensor"},
  };
  for (const auto& [declared, problem] : rows)
    EXPECT_EQ(linear_in(with_node(declared, kLifted, node), "y"),
              fmt::format("x * fc.weight + fc.bias: {}", problem));
  EXPECT_EQ(linear_in(parse(R"(buffer fc.weight : f32[3, 4]
mutates fc.weight = output 0
graph():
    %w = placeholder[target=w](state=fc.weight)
    %x = placeholder[target=x]
    %y = call_function[target=aten.linear.default](args = (%x, %w))
    return (x, y)
)"),
                      "y"),
            "x * fc.weight: 'fc.weight' is changed by the model itself");
}

TEST(ConvolutionView, EverySpelling) {
  const char* declared = "parameter fc.weight : f32[4, 2, 3, 3]\nparameter fc.bias : f32[4]\n";
  const Row rows[] = {
      {"call_function[target=aten.conv2d.default](args = (%x, %w, %b))", "x * fc.weight + fc.bias"},
      {"call_function[target=aten.conv2d.padding](args = (%x, %w, %b, [1, 1], \"same\"))",
       "x * fc.weight + fc.bias"},
      {"call_function[target=aten.conv2d.default](args = (%x, %w, None, [1, 1], [0, 0], [1, 1], "
       "2))",
       "groups 2 x * fc.weight"},
      {"call_function[target=torch.conv2d](args = (%x, %w, %b), kwargs = {groups: 2})",
       "groups 2 x * fc.weight + fc.bias"},
      {"call_function[target=torch.nn.functional.conv2d](args = (%x, %w), kwargs = {bias: %b})",
       "x * fc.weight + fc.bias"},
      {"call_function[target=aten.conv_transpose2d.input](args = (%x, %w, %b, [1, 1], [0, 0], [0, "
       "0], 2))",
       "transposed groups 2 x * fc.weight + fc.bias"},
      {"call_function[target=torch.nn.functional.conv_transpose2d](args = (%x, %w))",
       "transposed x * fc.weight"},
      {"call_function[target=aten.convolution.default](args = (%x, %w, %b, [1, 1], [0, 0], [1, 1], "
       "False, [0, 0], 2))",
       "groups 2 x * fc.weight + fc.bias"},
      {"call_function[target=aten.convolution.default](args = (%x, %w, %b, [1, 1], [0, 0], [1, 1], "
       "True, [0, 0], 1))",
       "transposed x * fc.weight + fc.bias"},
      {"call_function[target=aten.conv2d.default](args = (%x, %x))",
       "x * ?: its weight is an input, not stored"},
      {"call_function[target=aten.conv1d.default](args = (%x, %w, %b))",
       "1d x * fc.weight + fc.bias: its weight does not have the dimensions of the convolution"},
      {"call_function[target=aten.conv_transpose3d.input](args = (%x, %w, %b))",
       "3d transposed x * fc.weight + fc.bias: its weight does not have the dimensions of the "
       "convolution"},
      {"call_function[target=my.conv2d.default](args = (%x, %w, %b))", "no"},
      {"call_method[target=conv2d](args = (%x, %w, %b))", "no"},
  };
  for (const auto& [node, seen] : rows)
    for (const std::string& read : {kLifted, kFetched})
      EXPECT_EQ(convolution_in(with_node(declared, read, node), "y"), seen) << node << "\n" << read;

  const char* call = "call_module[target=fc](args = (%x,))";
  const Row modules[] = {
      {"torch.nn.Conv2d(groups=2)", "groups 2 x * fc.weight + fc.bias"},
      {"torch.nn.Conv2d()", "x * fc.weight + fc.bias"},
      {"torch.nn.ConvTranspose2d(groups=2)", "transposed groups 2 x * fc.weight + fc.bias"},
      {"torch.nn.Conv1d()",
       "1d x * fc.weight + fc.bias: its weight does not have the dimensions of the convolution"},
      {"torch.nn.LazyConv2d()", "no"},
      {"mine.Conv2d()", "no"},
  };
  for (const auto& [type, seen] : modules)
    EXPECT_EQ(
        convolution_in(with_node(fmt::format("{}module fc : {}\n", declared, type), "", call), "y"),
        seen);
  EXPECT_EQ(convolution_in(with_node(kLinear, kLifted, rows[0].node), "y"),
            "x * fc.weight + fc.bias: its weight does not have the dimensions of the convolution");
}

TEST(ConvolutionView, OfSequencesAndVolumes) {
  for (int dims : {1, 3}) {
    const std::string declared =
        fmt::format("parameter fc.weight : f32[4, 2{}]\nparameter fc.bias : f32[4]\n",
                    dims == 1 ? ", 3" : ", 3, 3, 3");
    const auto seen = [&](const std::string& target, const std::string& more) {
      return convolution_in(
          with_node(declared, kLifted,
                    fmt::format("call_function[target={}](args = (%x, %w, %b{}))", target, more)),
          "y");
    };
    EXPECT_EQ(seen(fmt::format("aten.conv{}d.default", dims), ""),
              fmt::format("{}d x * fc.weight + fc.bias", dims));
    EXPECT_EQ(seen(fmt::format("torch.nn.functional.conv_transpose{}d", dims), ""),
              fmt::format("{}d transposed x * fc.weight + fc.bias", dims));
    EXPECT_EQ(seen("aten.convolution.default", ", [1], [0], [1], False, [0], 2"),
              fmt::format("{}d groups 2 x * fc.weight + fc.bias", dims));
    const std::string module = fmt::format("{}module fc : torch.nn.Conv{}d()\n", declared, dims);
    EXPECT_EQ(convolution_in(with_node(module, "", "call_module[target=fc](args = (%x,))"), "y"),
              fmt::format("{}d x * fc.weight + fc.bias", dims));
  }
}

const std::string kNorm =
    "parameter bn.weight : f32[4]\nparameter bn.bias : f32[4]\n"
    "buffer bn.running_mean : f32[4]\nbuffer bn.running_var : f32[4]\n";
const std::string kNormRead =
    "    %w = get_attr[target=bn.weight]\n    %b = get_attr[target=bn.bias]\n"
    "    %m = get_attr[target=bn.running_mean]\n    %v = get_attr[target=bn.running_var]\n";

TEST(BatchNormView, Calls) {
  const std::pair<const char*, std::string> rows[] = {
      // The statistics come last in aten, and first in torch.nn.functional.
      {"call_function[target=aten.batch_norm.default](args = (%x, %w, %b, %m, %v, False, 0.1, "
       "0.001, True))",
       all("0.001")},
      {"call_function[target=torch.batch_norm](args = (%x, %w, %b, %m, %v, False, 0.1, 0.001, "
       "True))",
       all("0.001")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v, %w, %b, False, "
       "0.1, 0.001))",
       all("0.001")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v, %w, %b))",
       all("1e-05")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v), kwargs = "
       "{weight: %w, bias: %b, training: 0, eps: 1})",
       all("1")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v))",
       "x by bn.running_mean bn.running_var none none eps 1e-05"},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v, %w, %b, True))",
       all("1e-05: the batch norm is in training mode")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v, %w, %b), kwargs = "
       "{training: 1})",
       all("1e-05: the batch norm is in training mode")},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, None, None, %w, %b))",
       "x by ? ? bn.weight bn.bias eps 1e-05: the batch norm has no running statistics"},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %x, %v, %w, %b))",
       "x by ? bn.running_var bn.weight bn.bias eps 1e-05: a tensor of the batch norm is an input, "
       "not stored"},
      {"call_function[target=torch.nn.functional.batch_norm](args = (%x, %m, %v, %w, %b, False, "
       "0.1, %x))",
       all("1e-05: the batch norm's eps is not a number")},
      {"call_function[target=aten.native_batch_norm.default](args = (%x, %w, %b, %m, %v, False, "
       "0.1, 0.001))",
       "no"},
      {"call_function[target=mine.batch_norm](args = (%x, %m, %v, %w, %b))", "no"},
      {"call_method[target=batch_norm](args = (%x, %m, %v, %w, %b))", "no"},
      {"call_function[target=aten.layer_norm.default](args = (%x, [4], %w, %b))", "no"},
  };
  for (const auto& [node, seen] : rows)
    EXPECT_EQ(norm_in(with_node(kNorm, kNormRead, node), "y"), seen) << node;
}

TEST(BatchNormView, Modules) {
  const char* call = "call_module[target=bn](args = (%x,))";
  const std::pair<std::string, std::string> rows[] = {
      {fmt::format("{}module bn : torch.nn.BatchNorm1d(eps=0.001)\n", kNorm), all("0.001")},
      {fmt::format("{}module bn : torch.nn.BatchNorm2d()\n", kNorm), all("1e-05")},
      {"buffer bn.running_mean : f32[4]\nbuffer bn.running_var : f32[4]\n"
       "module bn : torch.nn.BatchNorm2d(affine=False)\n",
       "x by bn.running_mean bn.running_var none none eps 1e-05"},
      {"parameter bn.weight : f32[4]\nmodule bn : torch.nn.BatchNorm2d()\n",
       "x by ? ? bn.weight none eps 1e-05: the batch norm has no running statistics"},
      {fmt::format("{}module bn : torch.nn.BatchNorm3d()\n", kNorm), all("1e-05")},
      {fmt::format("{}module bn : torch.nn.SyncBatchNorm()\n", kNorm), "no"},
      {fmt::format("{}module bn : torch.nn.InstanceNorm2d()\n", kNorm), "no"},
  };
  for (const auto& [declared, seen] : rows)
    EXPECT_EQ(norm_in(with_node(declared, "", call), "y"), seen) << declared;
  EXPECT_EQ(
      norm_in(with_node(rows[0].first, "    %z = call_module[target=bn](args = (%x,))\n", call),
              "y"),
      all("0.001: module 'bn' is used in more than one place"));
}

TEST(ParamView, WhatANodeReads) {
  const Model model = parse(R"(
parameter fc.weight : f32[3, 4]
parameter fc.bias : f32[3]
parameter tied : f32[3] shares=fc.bias
buffer ids : i64[3]
module fc : torch.nn.Linear(in_features=4, out_features=3)
graph():
    %w = placeholder[target=w](state=fc.weight)
    %t = get_attr[target=tied]
    %i = get_attr[target=ids]
    %x = placeholder[target=x]
    %z = call_function[target=aten.relu.default](args = (%w,))
    %y = call_module[target=fc](args = (%x,))
    return (y, z, t, i)
)");
  EXPECT_EQ(param_in(model, "w"), "fc.weight: 'fc.weight' is used in more than one place");
  EXPECT_EQ(param_in(model, "t"), "tied: 'tied' shares its memory with another tensor");
  EXPECT_EQ(param_in(model, "i"),
            "ids: 'ids' is Long, not a floating-point type that refx supports");
  EXPECT_EQ(param_in(model, "x"), "is an input, not stored");
  EXPECT_EQ(param_in(model, "z"), "is computed, not stored");
}

}  // namespace
}  // namespace refx::testing
