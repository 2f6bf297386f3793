// SPDX-License-Identifier: Apache-2.0

// What a model may call.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "book/allowed_ops.h"
#include "exec/same.h"
#include "io/fake_source.h"
#include "refx/hint.h"
#include "util/glob.h"

namespace refx::testing {
namespace {

at::Tensor twice(const at::Tensor& x) { return x * 2; }
TORCH_LIBRARY(refx_policy_test, m) { m.def("twice(Tensor x) -> Tensor", &twice); }

constexpr const char* kTwice = R"(
graph():
    %x : f32[2] = placeholder[target=x]
    %y = call_function[target=refx_policy_test.twice.default](args = (%x,), kwargs = {})
    return y
)";
constexpr const char* kRefused[] = {
    "aten.from_file.default",      "torch.from_file",          "torch.ops.aten.from_file",
    "aten.set_.source_Tensor",     "aten.resize_.default",     "torch.Tensor.resize_",
    "aten._reshape_alias.default", "aten.as_strided_.default", "aten.from_file.out",
};

const std::string kNone = "no error";

std::string refusal(const Model& model, const ExecutorOptions& options = {}) {
  return error_of([&] { Executor executor(model, options); });
}

TEST(Policy, RefusesInWhateverSpelling) {
  for (const std::string target : kRefused) {
    const Model model = one_input([&](Builder& b, NodeId x) { return b.call(target, {x}); });
    expect_error([&] { Executor executor(model); }, {"node '", "is refused: it "});
    ASSERT_EQ(refused_ops(model).size(), 1) << target;
    EXPECT_TRUE(refused_ops(model)[0].op.starts_with("aten."));
  }
  const Model method = one_input([](Builder& b, NodeId x) {
    return b.method("resize_", {x, 1000});
  });
  expect_error([&] { Executor executor(method); }, {"aten.resize_ is refused"});
}

TEST(Policy, SaysWhatHelps) {
  const Model model =
      one_input([](Builder& b, NodeId x) { return b.call("torch.from_file", {x}); });
  try {
    Executor executor(model);
    FAIL();
  } catch (const HintedError& error) {
    EXPECT_EQ(error.hint(), Hint::allow_ops);
    EXPECT_NE(error.problem().find("aten.from_file"), std::string::npos);
  }
}

TEST(Policy, RunsWhatIsAllowedByName) {
  const Model model = one_input([](Builder& b, NodeId x) {
    return b.call("aten.resize_.default", {x, ints({1})});
  });
  EXPECT_NE(refusal(model), kNone);
  EXPECT_NE(refusal(model, {.allow_ops = {"aten"}}), kNone);
  EXPECT_EQ(
      Executor(model, {.allow_ops = {"aten.resize_"}}).run({at::ones({2})}).toTensor().numel(), 1);
}

TEST(Policy, OtherNamespacesRunInModelsThatAreMadeHere) {
  Model model = parse_filled(kTwice);
  EXPECT_TRUE(same(model.forward({at::ones({2})}).toTensor(), at::full({2}, 2.0f)));
  EXPECT_TRUE(refused_ops(model).empty());
}

TEST(Policy, OtherNamespacesOfAFileHaveToBeAllowed) {
  const Model strange = from_source(kTwice, {});
  expect_error([&] { Executor executor(strange); }, {"namespace 'refx_policy_test'"});
  ASSERT_EQ(refused_ops(strange).size(), 1);
  EXPECT_EQ(refused_ops(strange)[0].op, "refx_policy_test.twice");
  EXPECT_EQ(refusal(strange, {.allow_ops = {"refx_policy_test"}}), kNone);
  FakeSource source;
  source.allowed = {"refx_policy_test.twice"};
  const Model allowed = from_source(kTwice, source);
  EXPECT_EQ(refusal(allowed), kNone);
  EXPECT_TRUE(refused_ops(allowed).empty());
  EXPECT_TRUE(verify(allowed).passed());
  EXPECT_THROW(verify(strange), HintedError);
  EXPECT_THROW(run_on_copies(strange), HintedError);
  EXPECT_THROW(bench(strange, {.measure = {.seconds = 0.01}}), HintedError);
  Model tuned = strange;
  EXPECT_THROW(tune(tuned, {.measure = {.seconds = 0.01}}), HintedError);
}

constexpr const char* kUntried = R"(
graph():
    %x : f32[2] = placeholder[target=x]
    %y = call_function[target=aten.range.step](args = (0, 3, 1), kwargs = {})
    return y
)";

TEST(Policy, AFileCallsOnlyWhatTheTableHas) {
  EXPECT_EQ(refusal(parse_filled(kUntried)), kNone);
  const Model strange = from_source(kUntried, {});
  expect_error([&] { Executor executor(strange); },
               {"operator aten.range is refused: it is not known to check its arguments"});
  EXPECT_EQ(refusal(strange, {.allow_ops = {"aten.range"}}), kNone);
  ASSERT_EQ(refused_ops(strange).size(), 1);
}

TEST(Policy, AFileCallsOnlyOverloadsThatTheTableHas) {
  std::string text = kUntried;
  text.replace(text.find("aten.range.step"), 15, "aten.arange.start_out");
  expect_error([&] { Executor executor(from_source(text, {})); }, {"its overload 'start_out'"});
}

// A pattern that fits nothing protects nobody.
TEST(Policy, EveryRowFitsAnOperatorOfTorch) {
  std::vector<std::string> names;
  for (const auto& op : c10::Dispatcher::singleton().getAllOpNames())
    if (op.name.starts_with("aten::")) names.push_back(op.name.substr(6));
  for (const book::RefusedOps& row : book::refused_ops()) {
    const bool fits = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return glob_match(row.names, name) && book::why_refused(name) == row.reason &&
             !book::is_allowed(name, std::nullopt);
    });
    EXPECT_TRUE(fits) << row.names;
  }
}

TEST(Policy, TheTableIsSortedAndHasNoOperatorThatWritesIntoAGivenResult) {
  std::vector<std::string> names;
  for (const std::string& op : book::allowed_ops()) {
    const auto dot = std::min(op.find('.'), op.size());
    names.push_back(op.substr(0, dot));
    EXPECT_TRUE(book::is_allowed(op.substr(6, dot - 6), op.substr(std::min(dot + 1, op.size()))))
        << op;
    const auto known = c10::Dispatcher::singleton().findSchema(
        {op.substr(0, dot), op.substr(std::min(dot + 1, op.size()))});
    if (!known) continue;  // of another version of torch
    for (const c10::Argument& argument : known->schema().arguments())
      EXPECT_FALSE(argument.is_out()) << op;
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(Policy, AViewStaysInItsMemory) {
  const auto strided = [](std::int64_t size, std::int64_t stride, std::int64_t offset) {
    return one_input([=](Builder& b, NodeId x) {
      return b.call("aten.as_strided.default", {x, ints({size}), ints({stride}), offset});
    });
  };
  const at::Tensor x = at::arange(6);
  EXPECT_TRUE(same(strided(3, 2, 1).forward({x}).toTensor(), at::tensor({1, 3, 5}, at::kLong)));
  for (const auto& model : {strided(7, 1, 0), strided(1, 1, 6), strided(2, 1LL << 40, 0),
                            strided(1, 1, -1), strided(3, (1LL << 62) + 1, 0), strided(2, -1, 1)})
    expect_error([&] { Model(model).forward({x}); }, {"node 'as_strided"});
}

}  // namespace
}  // namespace refx::testing
