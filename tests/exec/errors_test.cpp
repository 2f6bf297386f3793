// SPDX-License-Identifier: Apache-2.0

// Every refusal of the executor names the node and says what to do.

#include "exec/same.h"

namespace refx::testing {
namespace {

void expect_refused(const Body& body, const std::vector<std::string>& parts) {
  expect_error([&] { Executor executor(one_input(body)); }, parts);
}

TEST(ExecutorErrors, UnknownOperatorSuggestsTheNearest) {
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.linaer.default", {x, x});
      },
      {"node 'linaer", "aten.linaer.default", "linear"});
  expect_refused([](Builder& b, NodeId x) { return b.call("mylib.foo.default", {x}); },
                 {"mylib::foo", "load the library"});
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("torch.sofmax", {x, 1});
      },
      {"aten::sofmax", "softmax"});
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.method("unsqeeze", {x, 1});
      },
      {"aten::unsqeeze", "unsqueeze"});
}

TEST(ExecutorErrors, UnknownOverloadListsTheOverloads) {
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.div.Tensro", {x, x});
      },
      {"'Tensro'", "aten::div", "Tensor_mode"});
}

TEST(ExecutorErrors, UnknownFunctionSaysWhatRuns) {
  expect_refused([](Builder& b, NodeId x) { return b.call("mylib.utils.deep.foo", {x}); },
                 {"mylib.utils.deep.foo", "torch.nn.functional"});
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("operator.spaceship", {x, x});
      },
      {"operator.spaceship"});
}

TEST(ExecutorErrors, ArgumentsThatDoNotFitTheSchema) {
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.relu.default", {x, x});
      },
      {"too many arguments", "aten::relu"});
  expect_refused([](Builder& b, NodeId) { return b.call("aten.relu.default", {}); },
                 {"'self' is missing"});
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.relu.default", {x}, {{"dim", 1}});
      },
      {"no argument 'dim'"});
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.view.default", {x, "a"});
      },
      {"argument 'size'", "String"});
}

TEST(ExecutorErrors, UnknownModuleTypeSaysWhatToDo) {
  expect_refused(
      [](Builder& b, NodeId x) {
        b.module({"enc", "torch.nn.Linaer", {}, false, ""});
        return b.call_module("enc", {x});
      },
      {"node 'enc'", "torch.nn.Linaer", "torch.nn.Linear", "torch.export"});
}

TEST(ExecutorErrors, ModulesThatAreMoreThanTheirType) {
  expect_refused(
      [](Builder& b, NodeId x) {
        b.module({"act", "torch.nn.ReLU", {}, false, "a forward hook"});
        return b.call_module("act", {x});
      },
      {"act", "a forward hook"});
}

TEST(ExecutorErrors, MissingTensorOfALayer) {
  expect_refused(
      [](Builder& b, NodeId x) {
        b.module({"fc", "torch.nn.Linear", {}, false, ""});
        return b.call_module("fc", {x});
      },
      {"node 'fc'", "no state entry 'fc.weight'"});
}

TEST(ExecutorErrors, WhatRefxDoesNotInterpretCannotRun) {
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.add.Tensor", {x, Raw{"{\"as_graph\": {}}"}});
      },
      {"node 'add", "subgraph or a custom object"});
}

TEST(ExecutorErrors, UnboundSymbol) {
  expect_refused(
      [](Builder& b, NodeId x) {
        return b.call("aten.view.default", {x, List{{SymInt{"2*s0"}, 3}}});
      },
      {"node 'view", "2*s0", "not bound"});
}

TEST(ExecutorErrors, WrongNumberOfInputs) {
  Builder b;
  NodeId x = b.input("x"), mask = b.input("mask");
  Model model = b.build(b.call("aten.add.Tensor", {x, mask}));
  expect_error([&] { model.forward({at::ones({1})}); }, {"model takes 2 inputs (x, mask), got 1"});
}

TEST(ExecutorErrors, AFailingOperatorNamesItsNode) {
  Model model = one_input([](Builder& b, NodeId x) { return b.call("aten.mm.default", {x, x}); });
  expect_error([&] { model.forward({at::ones({2, 3})}); }, {"node 'mm", "aten.mm.default"});
  EXPECT_EQ(error_of([&] { model.forward({at::ones({2, 3})}); }).find('\n'), std::string::npos);
  // … and leaves the executor usable.
  EXPECT_TRUE(same(model.forward({at::ones({2, 2})}).toTensor(), at::full({2, 2}, 2.0f)));
}

TEST(ExecutorErrors, NoOverloadFits) {
  Model model = one_input([](Builder& b, NodeId x) {
    return b.call("torch.softmax", {x, "rows"});
  });
  expect_error(
      [&] {
        model.forward({at::ones({2, 3})});
      },
      {"node 'softmax", "aten::softmax", "String"});
}

TEST(ExecutorErrors, IndexOutOfRange) {
  Model model = one_input([](Builder& b, NodeId x) {
    return b.call("operator.getitem", {b.call("aten.split.Tensor", {x, 1}), 7});
  });
  expect_error([&] { model.forward({at::ones({2, 3})}); }, {"node 'getitem", "7", "2 elements"});
}

}  // namespace
}  // namespace refx::testing
