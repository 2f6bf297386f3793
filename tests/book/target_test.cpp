// SPDX-License-Identifier: Apache-2.0

#include "book/target.h"

#include "kit.h"

namespace refx::testing {
namespace {

using book::Target;
using Kind = Target::Kind;

struct Case {
  const char* target;
  Kind kind;
  const char *space, *name, *overload;
};

TEST(BookTarget, IsReadInParts) {
  for (const Case& c : {
           Case{"aten.linear.default", Kind::op, "aten", "linear", "default"},
           {"aten.view.dtype", Kind::op, "aten", "view", "dtype"},
           {"torch.ops.aten.view.dtype", Kind::op, "aten", "view", "dtype"},
           {"mylib.norm.default", Kind::op, "mylib", "norm", "default"},
           {"torch.ops.mylib.norm", Kind::packet, "mylib", "norm", ""},
           {"aten.view", Kind::packet, "aten", "view", ""},
           {"prims.add", Kind::packet, "prims", "add", ""},
           {"torch.nn.functional.linear", Kind::functional, "torch.nn.functional", "linear", ""},
           {"torch.matmul", Kind::torch, "torch", "matmul", ""},
           {"torch._C._nn.linear", Kind::torch, "torch._C._nn", "linear", ""},
           {"torch.Tensor.view", Kind::torch, "torch.Tensor", "view", ""},
           {"operator.truediv", Kind::python, "operator", "truediv", ""},
           {"_operator.truediv", Kind::python, "operator", "truediv", ""},
           {"math.floor", Kind::python, "math", "floor", ""},
           {"builtins.getattr", Kind::builtin, "builtins", "getattr", ""},
           {"getattr", Kind::builtin, "", "getattr", ""},
           {"mylib.norm", Kind::other, "", "mylib.norm", ""},
           {"my.package.fast.norm", Kind::other, "", "my.package.fast.norm", ""},
       }) {
    const Target target = book::parse_target(c.target);
    EXPECT_EQ(target.kind, c.kind) << c.target;
    EXPECT_EQ(target.space, c.space) << c.target;
    EXPECT_EQ(target.name, c.name) << c.target;
    EXPECT_EQ(target.overload, c.overload) << c.target;
  }
}

TEST(BookTarget, AsTheDispatcherHasIt) {
  const Target target = book::parse_target("aten.linear.default");
  EXPECT_EQ(target.qualified_name(), "aten::linear");
  EXPECT_EQ(target.overload_name(), "");
  EXPECT_EQ(book::operator_of(book::parse_target("torch.linalg.norm")), "linalg_norm");
  EXPECT_EQ(book::operator_of(book::parse_target("torch._C._nn.gelu")), "gelu");
}

TEST(BookTarget, InFilesAndBack) {
  for (const auto& [in_file, in_model] : {
           std::pair{"torch.ops.aten.linear.default", "aten.linear.default"},
           {"torch.ops.higher_order.cond", "higher_order.cond"},
           {"_operator.mul", "operator.mul"},
           {"math.floor", "math.floor"},
       }) {
    EXPECT_EQ(book::target_from_file(in_file), in_model);
    EXPECT_EQ(book::target_for_file(in_model), in_file);
  }
}

TEST(BookTarget, NamesItsValueAsTorchFxDoes) {
  EXPECT_EQ(book::value_name("aten.linear.default"), "linear");
  EXPECT_EQ(book::value_name("torch.ops.aten.linear.default"), "linear");
  EXPECT_EQ(book::value_name("torch.nn.functional.linear"), "linear");
  EXPECT_EQ(book::value_name("operator.mul"), "mul");
  EXPECT_EQ(book::value_name("my.package.fast.norm"), "norm");
}

}  // namespace
}  // namespace refx::testing
