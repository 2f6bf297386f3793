// SPDX-License-Identifier: Apache-2.0

// Text in, text out: each construct once.

#include <gtest/gtest.h>

#include <sstream>

#include "refx/builder.h"
#include "refx/text.h"

namespace refx {
namespace {

void expect_same(const std::string& text) { EXPECT_EQ(print(parse(text)), text); }

// The text comes back when it is one argument of a node.
void expect_same_arg(const std::string& arg) {
  expect_same(
      "graph():\n    %x : [num_users=1] = placeholder[target=x]\n"
      "    %y : [num_users=1] = call_function[target=f](args = (%x, " +
      arg + "), kwargs = {})\n    return y\n");
}

void expect_same_type(const std::string& type) {
  expect_same("graph():\n    %x : " + type +
              " [num_users=1] = placeholder[target=x]\n    return x\n");
}

void expect_same_state(const std::string& lines) {
  expect_same(lines + "graph():\n    return ()\n");
}

TEST(Text, IsTheOneInTheHeader) {
  expect_same(R"(parameter q.weight : f32[8, 4]
module act : torch.nn.ReLU(inplace=False)
graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %p_q_weight : f32[8, 4] [num_users=1] = placeholder[target=p_q_weight](state=q.weight)
    %linear : [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q_weight), kwargs = {})
    %act : [num_users=1] = call_module[target=act](args = (%linear,), kwargs = {})
    return act
)");
}

TEST(Text, IsTheOneInTheManual) {
  expect_same(R"(parameter q.weight : f32[8, 4] requires_grad=True
buffer bn.running_mean : f32[8] persistent=False
module bn : torch.nn.BatchNorm1d(num_features=8, eps=1e-05) training=True
mutates bn.running_mean = output 0
graph():
    %x : f32[s0{2}, 4] [num_users=1] = placeholder[target=x]
    %p_q_weight : f32[8, 4] [num_users=1] = placeholder[target=p_q_weight](state=q.weight)
    %linear : [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q_weight), kwargs = {})
    return linear  # meta {stack_trace: "model.py:7"} marks ["merge-linears"]
)");
}

TEST(Text, HasEveryOpcode) {
  expect_same(R"(buffer scale : f32[]
module act : torch.nn.ReLU()
graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=0] = placeholder[target=y](default=None)
    %z : [num_users=1] = placeholder[target=z](default=1.0, state=scale)
    %scale : [num_users=1] = get_attr[target=scale]
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%x, %scale), kwargs = {})
    %act : [num_users=1] = call_module[target=act](args = (%mul,), kwargs = {})
    %view : [num_users=1] = call_method[target=view](args = (%act, -1), kwargs = {dtype: %z})
    return view
)");
}

TEST(Text, ReturnsAnything) {
  for (const std::string result : {"x", "(x,)", "(x, x, None)", "[x]", R"({"logits": x})", "()",
                                   "None", "(x, [1, 2.0], \"x\")"}) {
    const bool used = result.find('x') != std::string::npos && result != "()";
    expect_same("graph():\n    %x : [num_users=" + std::string(used ? "1" : "0") +
                "] = placeholder[target=x]\n    return " + result + "\n");
  }
}

TEST(Text, SpellsOutAnUnusualOutput) {
  expect_same(R"(graph():
    %output : [num_users=1] = placeholder[target=output]
    %output_1 : [num_users=0] = output[target=output](args = (%output,), kwargs = {})
)");
  expect_same(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %output : f32[2] [num_users=0] = output[target=output](args = (%x,), kwargs = {})
)");
}

TEST(Text, QuotesOddNames) {
  expect_same(R"(parameter "a b" : f32[2]
parameter "" : f32[2]
module "m\n" : "__main__.<locals>.M"("odd key"=1)
graph():
    %"a b" : [num_users=2] = placeholder[target="a b"](state="a b")
    %None : [num_users=1] = placeholder[target=x]
    %0 : [num_users=1] = placeholder[target="ü"]
    %a.b : [num_users=1] = placeholder[target=c]
    %f : [num_users=1] = call_function[target="<built-in function add>"](args = (%"a b",), kwargs = {"odd key": 1})
    return (%"a b", %None, %0, %a.b, f)
)");
}

TEST(Text, KeepsMetaAndMarks) {
  expect_same(R"~(graph():
    %x : [num_users=1] = placeholder[target=x]  # meta {nn_module_stack: "a\n\"b\"", "odd key": ""}
    %y : [num_users=1] = call_function[target=f](args = (%x,), kwargs = {})  # marks ["merge-linears()"]
    return y  # meta {k: "v"} marks ["a", "b"]
)~");
}

TEST(Text, KeepsMutations) {
  expect_same(R"(buffer n : i64[]
mutates n = output 0
mutates x = output 1
graph():
    %b_n : [num_users=1] = placeholder[target=b_n](state=n)
    %x : [num_users=1] = placeholder[target=x]
    return (b_n, x, x)
)");
}

TEST(Text, KeepsModules) {
  expect_same_state(
      "module bn : torch.nn.BatchNorm2d(num_features=8, eps=1e-05) training=True custom=\"a "
      "hook\"\n"
      "module encoder.0 : torch.nn.Conv2d(kernel_size=(3, 3), padding_mode=\"zeros\", "
      "dtype=torch.float32)\n");
}

TEST(Text, HasEveryKindOfArgument) {
  for (const char* arg : {"None",
                          "True",
                          "False",
                          "7",
                          "-7",
                          "9223372036854775807",
                          "-9223372036854775808",
                          "complex(1.0, -0.0)",
                          "complex(nan, -inf)",
                          "torch.float32",
                          "torch.bool",
                          "torch.uint7",
                          "device(type='cpu')",
                          "device(type='cuda', index=0)",
                          "torch.strided",
                          "torch.sparse_coo",
                          "torch.channels_last",
                          "torch.preserve_format",
                          "%x",
                          "sym(2*s0)",
                          "sym(Max(1, s0 + 3)//2)",
                          "sym(\"4\")",
                          "sym(\"\")",
                          "sym(\"a]\")",
                          "...",
                          "raw(\"{\\\"as_graph\\\": 1}\")",
                          "[]",
                          "[1, [2]]",
                          "()",
                          "(1,)",
                          "(1, 2)",
                          "slice(None, 3, None)",
                          "slice(%x, sym(s0), -1)",
                          "{}",
                          "{\"a\": 1, 2: {None: %x}}",
                          "\"\"",
                          "\"it's\"",
                          "\"\\\"\\\\\\n\\r\\t\\x00\\x7f\\xff\"",
                          "\"\\xc2\\x9b\\xe2\\x80\\xae\"",
                          "\"grün 🙂\""}) {
    expect_same_arg(arg);
  }
}

TEST(Text, WritesFloatsAsPython) {
  for (const char* number :
       {"0.0", "-0.0", "1.0", "7.0", "0.1", "1e-05", "0.0001", "1e+16", "1000000000000000.0",
        "1.5e+300", "5e-324", "1.7976931348623157e+308", "-2.5", "inf", "-inf", "nan",
        "nan(0xfff8000000000000)", "123456.789", "3.141592653589793"})
    expect_same_arg(number);
}

TEST(Text, WritesTypes) {
  for (const char* type :
       {"f32[]", "f32[2, 4]", "f32[s0, 4]", "f32[s0{2}, 2*s0{4}, Max(1, s0){-2}]", "i64[\"4\"{4}]",
        "bf16[2, 3] strides=(1, 2)", "f16[s0{8}, 3] strides=(1, s0{8}) device=cuda:0",
        "f32[2] device=cuda", "f32[2] device=cpu:0", "f32[2, 2] layout=sparse_csr",
        "f64[1] requires_grad=True", "f8e4m3fn[16]"})
    expect_same_type(type);
}

TEST(Text, NamesEveryDtype) {
  for (int i = 0; i < c10::NumScalarTypes; ++i) {
    TensorType type;
    type.dtype = static_cast<c10::ScalarType>(i);
    expect_same_type(print(type));
    expect_same_arg(print(Arg(type.dtype), Graph()));
  }
}

TEST(Text, NamesEveryDevice) {
  for (int i = 0; i < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++i)
    expect_same_arg(print(Arg(c10::Device(static_cast<c10::DeviceType>(i))), Graph()));
}

TEST(Text, WritesStateWithWhatIsUnusual) {
  expect_same_state("parameter w : f32[8, 4] requires_grad=True\n");
  expect_same_state("buffer b : i64[] persistent=False\n");
  expect_same_state("constant c : f32[8, 4] strides=(1, 8)\n");
  expect_same_state("constant c : f32[1, 4] strides=(7, 1)\n");
  expect_same_state("constant c : f32[1000000, 3] strides=(0, 1)\n");
  expect_same_state("constant c : f32[4] offset=2\n");
  expect_same_state("constant c : f32[4] storage=64\n");
  expect_same_state("constant c : f32[0, 4] storage=64\n");
  expect_same_state("constant c : f32[8, 4] device=meta\n");
  expect_same_state("constant c : f32[8, 4] layout=sparse_coo\n");
  expect_same_state("constant c : f32[8, 4] layout=sparse_csr\n");
  expect_same_state(
      "parameter a : f32[4, 4]\nparameter b : f32[4, 4] shares=a\n"
      "parameter c : f32[2] shares=a offset=4\nbuffer d : i32[16] shares=a\n");
}

TEST(Text, MakesStateOfEveryDtype) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::Undefined); ++i) {
    TensorType type;
    type.dtype = static_cast<c10::ScalarType>(i);
    type.sizes = {2, 4};
    expect_same_state("constant c : " + print(type) + "\n");
  }
}

TEST(Text, IsWhatAStreamShows) {
  const std::string text = "graph():\n    return ()\n";
  std::ostringstream out;
  out << parse(text);
  EXPECT_EQ(out.str(), text);
}

TEST(Text, PrintsOneNodeAndOneType) {
  const Model model = parse("graph():\n%x = placeholder[target=x]\nreturn x");
  EXPECT_EQ(print(model.graph(), model.graph().first()),
            "%x : [num_users=1] = placeholder[target=x]");
  TensorType type;
  type.sizes = {Dim("s0", 2), 4};
  EXPECT_EQ(print(type), "f32[s0{2}, 4]");
}

// ---- hand-written text may say less ------------------------------------------------------------

TEST(Parse, FillsInWhatIsLeftOut) {
  const Model model = parse(R"(
    # a comment
    graph():
      %x = placeholder[target=x]

      %y = call_function[target=aten.relu.default](args = (
          %x,
      ))
      return y)");
  EXPECT_EQ(print(model), R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
    return y
)");
}

TEST(Parse, TakesEitherQuoteAndLineEnd) {
  EXPECT_EQ(print(parse("graph():\r\n  return 'it\\'s'\r\n")), "graph():\n    return \"it's\"\n");
}

TEST(Parse, MakesZerosThatShareStorages) {
  const Model model = parse(
      "parameter a : f32[4, 4]\nparameter b : f32[2] shares=a offset=4\ngraph():\n return ()");
  const State& state = model.state();
  const at::TensorBase& a = state.tensor(state.find("a"));
  const at::TensorBase& b = state.tensor(state.find("b"));
  EXPECT_TRUE(a.is_alias_of(b));
  EXPECT_EQ(b.const_data_ptr<float>(), a.const_data_ptr<float>() + 4);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(a.const_data_ptr<float>()[i], 0.0f);
  EXPECT_EQ(state.storage_sharers(state.find("a")), 2u);
}

TEST(Parse, LargeTensorsCostNothingUntilWritten) {
  const Model model = parse("parameter a : f32[100000000000]\ngraph():\n return ()");
  EXPECT_EQ(model.state().tensor(model.state().first()).const_data_ptr<float>()[99999999999], 0.0f);
}

}  // namespace
}  // namespace refx
