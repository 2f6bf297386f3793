// SPDX-License-Identifier: Apache-2.0

// What is wrong with a text, and the message that says so.

#include <gtest/gtest.h>

#include "refx/error.h"
#include "refx/text.h"

namespace refx {
namespace {

void expect_error(const std::string& text, const std::string& message) {
  try {
    parse(text);
    ADD_FAILURE() << "no error for\n" << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message) << text;
  }
}

void expect_graph_error(const std::string& lines, const std::string& message) {
  expect_error("graph():\n" + lines, message);
}

void expect_arg_error(const std::string& arg, const std::string& message) {
  expect_error("graph():\n%x = placeholder[target=x]\nreturn [" + arg + "]", message);
}

void expect_state_error(const std::string& line, const std::string& message) {
  expect_error(line + "\ngraph():\n  return ()", message);
}

// ---- lines -------------------------------------------------------------------------------------

TEST(ParseError, NoGraph) {
  expect_error("", "line 1, column 1: expected 'graph():', found the end of the text");
  expect_error("graph", "line 1, column 6: expected '(', found the end of the text");
  expect_error("%x = placeholder[target=x]", "line 1, column 1: expected 'graph():', found '%'");
  expect_error("grahp():", "line 1, column 1: 'grahp' begins no line; did you mean 'graph'?");
}

TEST(ParseError, NoReturn) {
  expect_graph_error(
      "%x = placeholder[target=x]\n",
      "line 3, column 1: expected 'return': the graph has no result, found the end of "
      "the text");
}

TEST(ParseError, SomethingAfterTheReturn) {
  expect_graph_error("return None\n%x = placeholder[target=x]",
                     "line 3, column 1: expected nothing after the return, found '%'");
}

TEST(ParseError, NotANode) {
  expect_graph_error("x = 1",
                     "line 2, column 1: expected a node such as '%x = …', or 'return', found 'x'");
  expect_graph_error(
      "%x = plaecholder[target=x]",
      "line 2, column 6: no opcode is called 'plaecholder'; did you mean 'placeholder'?");
  expect_graph_error("%\"\" = placeholder[target=x]", "line 2, column 1: a node needs a name");
}

TEST(ParseError, TrailingComment) {
  expect_graph_error(
      "return None # done",
      "line 2, column 15: expected 'meta' or 'marks' (a comment has a line of its own), "
      "found 'done'");
}

TEST(ParseError, CountsCharactersNotBytes) {
  expect_graph_error("return ['üü' x]", "line 2, column 14: expected ',' or ']', found 'x'");
}

// ---- names -------------------------------------------------------------------------------------

TEST(ParseError, UndefinedNode) {
  expect_graph_error("%linear = placeholder[target=x]\nreturn lienar",
                     "line 3, column 8: there is no node 'lienar'; did you mean 'linear'?");
  expect_graph_error("return %softmax", "line 2, column 8: there is no node 'softmax'");
}

TEST(ParseError, UseBeforeDefinition) {
  expect_graph_error(
      "%a = call_function[target=f](args = (%b,))\n%b = call_function[target=f](args = "
      "(%a,))\nreturn b",
      "line 2, column 38: node 'b' is used before its definition in line 3");
  expect_graph_error("%a = call_function[target=f](args = (%a,))",
                     "line 2, column 38: node 'a' is used before its definition in line 2");
}

TEST(ParseError, DuplicateName) {
  expect_graph_error("%x = placeholder[target=x]\n%x = placeholder[target=y]",
                     "line 3, column 1: a second node 'x'");
  expect_state_error("buffer a : f32[]\nbuffer a : f32[]",
                     "line 2, column 8: a second state entry 'a'");
  expect_state_error("module a : A()\nmodule a : A()", "line 2, column 8: a second module 'a'");
  expect_state_error("module a : A(b=1, b=2)", "line 1, column 13: 'b' is given twice");
}

TEST(ParseError, MissingStateEntry) {
  expect_error("parameter q.weight : f32[2]\ngraph():\n%p = placeholder[target=p](state=q.wieght)",
               "line 3, column 34: there is no state entry 'q.wieght'; did you mean 'q.weight'?");
  expect_graph_error("%p = get_attr[target=w]", "line 2, column 22: there is no state entry 'w'");
  expect_state_error("parameter a : f32[2] shares=b",
                     "line 1, column 29: there is no state entry 'b'");
}

TEST(ParseError, MissingModule) {
  expect_error("module act : torch.nn.ReLU()\ngraph():\n%a = call_module[target=atc](args = ())",
               "line 3, column 25: there is no module 'atc'; did you mean 'act'?");
}

TEST(ParseError, WrongNumberOfUsers) {
  expect_graph_error("%x : [num_users=2] = placeholder[target=x]\nreturn x",
                     "line 2, column 17: node 'x' has num_users=1, not 2");
}

TEST(ParseError, Mutation) {
  expect_error("mutates n = output 0\ngraph():\nreturn ()",
               "line 1, column 9: there is no state entry or input 'n'");
  expect_error("buffer n : f32[]\nmutates n = output 1\ngraph():\nreturn (1,)",
               "line 2, column 9: the graph has 1 outputs: there is no output 1");
  expect_error("buffer n : f32[]\nmutates n = output -1\ngraph():\nreturn (1,)",
               "line 2, column 9: the graph has 1 outputs: there is no output -1");
}

// ---- types -------------------------------------------------------------------------------------

TEST(ParseError, UnknownDtype) {
  expect_graph_error("%x : f23[2] = placeholder[target=x]",
                     "line 2, column 6: no dtype is called 'f23'; did you mean 'f32'?");
}

TEST(ParseError, UnknownAttribute) {
  expect_graph_error(
      "%x : f32[2] stride=(1) = placeholder[target=x]",
      "line 2, column 13: there is no attribute 'stride' here; did you mean 'strides'?");
  expect_state_error("buffer a : f32[2] persistant=False",
                     "line 1, column 19: there is no attribute 'persistant' here; did you mean "
                     "'persistent'?");
  expect_state_error(
      "module a : A() trainng=True",
      "line 1, column 16: there is no attribute 'trainng' here; did you mean 'training'?");
  expect_graph_error("%x = placeholder[target=x](stat=y)",
                     "line 2, column 28: there is no attribute 'stat' here; did you mean 'state'?");
}

TEST(ParseError, Device) {
  expect_graph_error("%x : f32[2] device=cudda = placeholder[target=x]",
                     "line 2, column 20: no device is called 'cudda'; did you mean 'cuda'?");
  expect_graph_error("%x : f32[2] device=cuda:128 = placeholder[target=x]",
                     "line 2, column 25: the index of a device must be between 0 and 127");
}

TEST(ParseError, SizesThatAreNone) {
  expect_graph_error("%x : f32[2.5] = placeholder[target=x]",
                     "line 2, column 10: expected a size such as 4 or 2*s0, found '2.5'");
  expect_graph_error("%x : f32[99999999999999999999] = placeholder[target=x]",
                     "line 2, column 10: '99999999999999999999' does not fit into 64 bits");
}

TEST(ParseError, TypeThatIsNotItsTensors) {
  expect_error("buffer a : f32[2]\ngraph():\n%a : f32[3] = get_attr[target=a]\nreturn a",
               "line 3, column 6: node 'a' and its tensor 'a' have different sizes");
  expect_error("buffer a : f32[2]\ngraph():\n%a : f64[2] = get_attr[target=a]\nreturn a",
               "line 3, column 6: node 'a' says Double, but its tensor 'a' is Float");
}

// ---- tensors -----------------------------------------------------------------------------------

TEST(ParseError, TensorThatCannotBe) {
  expect_state_error("buffer a : f32[-1]", "line 1, column 12: 'a': a size of -1");
  expect_state_error("buffer a : f32[s0]",
                     "line 1, column 12: 'a': a tensor has sizes that are numbers, not 's0'");
  expect_state_error("buffer a : f32[2, 2] strides=(1)",
                     "line 1, column 12: 'a': 2 sizes, but 1 strides");
  expect_state_error("buffer a : f32[2] strides=(-1)", "line 1, column 12: 'a': a stride of -1");
  expect_state_error("buffer a : f32[2] offset=-1", "line 1, column 12: 'a': an offset of -1");
  expect_state_error("buffer a : f32[2] storage=4",
                     "line 1, column 12: 'a': 4 bytes of storage, but it needs 8");
  expect_state_error("buffer a : undefined[2]", "line 1, column 12: 'a': a tensor needs a dtype");
  expect_state_error("buffer a : i64[2] requires_grad=True",
                     "line 1, column 12: 'a': a tensor of i64 cannot require a gradient");
}

TEST(ParseError, TensorThatIsTooLarge) {
  const std::string most = "9223372036854775807";
  expect_state_error("buffer a : f32[" + most + "]",
                     "line 1, column 12: 'a': a tensor of more than a terabyte");
  expect_state_error("buffer a : f32[" + most + ", " + most + "]",
                     "line 1, column 12: 'a': more elements than a tensor can have");
  expect_state_error("buffer a : f32[0, " + most + ", " + most + "]",
                     "line 1, column 12: 'a': more elements than a tensor can have");
  expect_state_error("buffer a : f32[" + most + ", " + most + "] strides=(0, 0)",
                     "line 1, column 12: 'a': more elements than a tensor can have");
  expect_state_error("buffer a : f32[2] offset=" + most,
                     "line 1, column 12: 'a': a tensor of more than a terabyte");
  expect_state_error("buffer a : f32[2] storage=" + most,
                     "line 1, column 12: 'a': a storage of more than a terabyte");
  expect_state_error("buffer a : u8[800000000000]\nbuffer b : u8[800000000000]",
                     "line 2, column 12: 'b': tensors of more than a terabyte in all");
}

TEST(ParseError, SharingThatCannotBe) {
  const std::string a = "buffer a : f32[2]\n";
  expect_state_error(
      a + "buffer b : f32[4] shares=a",
      "line 2, column 12: 'b': it needs 16 bytes, but the storage that it shares has 8");
  expect_state_error(a + "buffer b : f32[2] shares=a device=meta",
                     "line 2, column 12: 'b': tensors on different devices cannot share a storage");
  expect_state_error(
      a + "buffer b : f32[2] shares=a storage=8",
      "line 2, column 12: 'b': the size of a storage is stated where it is first used");
  expect_state_error(a + "buffer b : f32[2] shares=a layout=sparse_coo",
                     "line 2, column 12: 'b': only strided tensors share a storage");
}

// ---- arguments ---------------------------------------------------------------------------------

TEST(ParseError, Numbers) {
  expect_arg_error("9223372036854775808",
                   "line 3, column 9: '9223372036854775808' does not fit into 64 bits");
  expect_arg_error("1e999", "line 3, column 9: '1e999' is out of the range of a double");
  expect_arg_error("12ab", "line 3, column 9: expected a number, found '12ab'");
  expect_arg_error("-", "line 3, column 9: expected a number, found '-'");
  expect_arg_error("nan(0x1)",
                   "line 3, column 13: expected the bits of a nan, such as 0x7ff8000000000001");
}

TEST(ParseError, Strings) {
  expect_arg_error("\"abc", "line 3, column 9: a string without its closing quote");
  expect_arg_error(
      "\"\\q\"",
      "line 3, column 10: an unknown escape; known are \\n \\r \\t \\\\ \\' \\\" and \\xNN");
  expect_arg_error("raw(1)", "line 3, column 13: expected a string in quotes, found '1'");
}

TEST(ParseError, Containers) {
  expect_arg_error("(x)", "line 3, column 9: a tuple of one item needs a comma: (x,)");
  expect_arg_error("1 2", "line 3, column 11: expected ',' or ']', found '2'");
  expect_arg_error("{1}", "line 3, column 11: expected ':', found '}'");
  expect_arg_error("1, ,", "line 3, column 12: expected a value, found ','");
}

TEST(ParseError, Words) {
  expect_arg_error(
      "torch.flaot32",
      "line 3, column 9: torch has no dtype, layout or memory format 'flaot32'; did you mean "
      "'float32'?");
  expect_arg_error("....", "line 3, column 9: expected '...', found '....'");
  expect_graph_error("%x = placeholder[target=x]\n%y = call_function[target=f](args = (x,))",
                     "line 3, column 38: 'x' is not a value; did you mean '%x'?");
}

TEST(ParseError, DeepNesting) {
  const std::string deep(100'000, '[');
  expect_graph_error("return " + deep, "line 2, column 208: more than 200 brackets deep");
  EXPECT_NO_THROW(parse("graph():\nreturn " + std::string(200, '[') + std::string(200, ']')));
}

}  // namespace
}  // namespace refx
