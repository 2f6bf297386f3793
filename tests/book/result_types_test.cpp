// SPDX-License-Identifier: Apache-2.0

#include "book/result_types.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "exec/on_meta.h"

namespace refx::book {
namespace {

// A call whose tensors are numbered from 1.
struct Asked {
  std::map<std::string, Arg, std::less<>> arguments;
  std::vector<TensorType> tensors;

  Asked& tensor(const char* name, std::vector<Dim> sizes,
                c10::ScalarType dtype = c10::ScalarType::Float) {
    TensorType type;
    type.sizes = std::move(sizes);
    type.dtype = dtype;
    tensors.push_back(std::move(type));
    arguments.insert_or_assign(name, NodeId(static_cast<std::uint32_t>(tensors.size())));
    return *this;
  }
  Asked& literal(const char* name, Arg value) {
    arguments.insert_or_assign(name, std::move(value));
    return *this;
  }

  TypePtr type(NodeId id) const {
    return std::make_shared<const TensorType>(tensors[id.value - 1]);
  }
  TypePtr result(std::string_view op) const {
    return result_type(
        op,
        [&](std::string_view name) -> const Arg* {
          const auto it = arguments.find(name);
          return it == arguments.end() ? nullptr : &it->second;
        },
        [&](const Arg& arg) { return type(*arg.get<NodeId>()); });
  }
};

std::string text(const TypePtr& type) {
  if (!type) return "unknown";
  std::string out = c10::toString(type->dtype);
  for (const Dim& dim : type->sizes)
    out += " " + (dim.known() ? std::to_string(dim.value) : std::string(dim.expr));
  return out;
}

Dim batch() { return {"s0", 2}; }

TEST(ResultTypes, ElementwiseOperatorsKeepTheTypeOfFloatingPointInputs) {
  for (const char* op : {"relu", "gelu", "softmax", "exp", "rsqrt", "clone", "neg"})
    EXPECT_EQ(text(Asked().tensor("self", {batch(), 4}, c10::ScalarType::Half).result(op)),
              "Half s0 4")
        << op;
  // exp of integers is a float, and neg of them is not.
  EXPECT_EQ(text(Asked().tensor("self", {4}, c10::ScalarType::Int).result("exp")), "unknown");
}

TEST(ResultTypes, BinaryOperatorsBroadcastAndPromote) {
  EXPECT_EQ(text(Asked().tensor("self", {batch(), 1, 4}).tensor("other", {3, 1}).result("add")),
            "Float s0 3 4");
  EXPECT_EQ(text(Asked()
                     .tensor("self", {4}, c10::ScalarType::Half)
                     .tensor("other", {4}, c10::ScalarType::Float)
                     .result("mul")),
            "Float 4");
  // A tensor without dimensions does not widen one that has some.
  EXPECT_EQ(text(Asked()
                     .tensor("self", {4}, c10::ScalarType::Half)
                     .tensor("other", {}, c10::ScalarType::Float)
                     .result("mul")),
            "Half 4");
  EXPECT_EQ(
      text(Asked().tensor("self", {4}, c10::ScalarType::Int).literal("other", 2).result("div")),
      "Float 4");
  EXPECT_EQ(text(Asked().tensor("self", {4}).tensor("other", {3}).result("add")), "unknown");
}

TEST(ResultTypes, ProductsAndLayers) {
  EXPECT_EQ(text(Asked().tensor("self", {batch(), 3, 4}).tensor("other", {4, 5}).result("matmul")),
            "Float s0 3 5");
  EXPECT_EQ(text(Asked().tensor("self", {3, 4}).tensor("other", {5, 4}).result("matmul")),
            "unknown");
  EXPECT_EQ(text(Asked().tensor("input", {batch(), 4}).tensor("weight", {6, 4}).result("linear")),
            "Float s0 6");
  Asked conv;
  conv.tensor("input", {batch(), 3, 8, 8}).tensor("weight", {16, 3, 3, 3});
  conv.literal("groups", 1).literal("stride", List{{2, 2}}).literal("padding", List{{1, 1}});
  EXPECT_EQ(text(conv.literal("dilation", List{{1, 1}}).result("conv2d")), "Float s0 16 4 4");
}

TEST(ResultTypes, ShapesAreMoved) {
  EXPECT_EQ(text(Asked()
                     .tensor("self", {batch(), 3, 4})
                     .literal("dim0", -2)
                     .literal("dim1", -1)
                     .result("transpose")),
            "Float s0 4 3");
  EXPECT_EQ(text(Asked().tensor("self", {2, 6}).literal("shape", List{{3, -1}}).result("reshape")),
            "Float 3 4");
  EXPECT_EQ(text(Asked().tensor("self", {2, 6}).literal("dim", 0).result("unsqueeze")),
            "Float 1 2 6");
}

TEST(ResultTypes, AnOperatorThatTheBookDoesNotKnowHasNone) {
  EXPECT_EQ(text(Asked().tensor("self", {4}).result("cumsum")), "unknown");
  EXPECT_EQ(text(Asked().tensor("self", {4}).result("no_such_operator")), "unknown");
}

// Both ways of finding a type agree where both know the operator.
TEST(ResultTypes, AgreeWithRunsOnTheMetaDevice) {
  Asked asked;
  asked.tensor("self", {batch(), 3, 4}).tensor("mat2", {4, 5}).tensor("row", {4});
  const NodeId x(1), y(2), row(3);
  const auto on_meta = [&](const char* target, Args args) {
    const Node call{.op = Opcode::call_function, .target = target, .args = std::move(args)};
    return text(exec::type_on_meta(call, [&](NodeId id) { return asked.type(id); }));
  };
  EXPECT_EQ(on_meta("aten.matmul.default", {x, y}), "Float s0 3 5");
  EXPECT_EQ(on_meta("aten.add.Tensor", {x, row}), "Float s0 3 4");
  EXPECT_EQ(on_meta("aten.transpose.int", {x, 0, 2}), "Float 4 3 s0");
  EXPECT_EQ(on_meta("aten.flatten.using_ints", {x, 0, 1}), "Float 3*s0 4");
  EXPECT_EQ(on_meta("aten.cumsum.default", {x, 1}), "Float s0 3 4");
  // Arguments that do not fit, and sizes that are no product of symbols.
  EXPECT_EQ(on_meta("aten.matmul.default", {y, x}), "unknown");
  EXPECT_EQ(on_meta("aten.constant_pad_nd.default", {x, List{{0, 0, 0, 0, 1, 0}}}), "unknown");
}

}  // namespace
}  // namespace refx::book
