// SPDX-License-Identifier: Apache-2.0

// Sequences of calls for models that keep state.

#include <ATen/ATen.h>

#include "io/fake_source.h"

namespace refx::testing {
namespace {

using c10::IValue;

// A cache that is written at `where`, which a cast and a sum lead to.
constexpr const char* kDecoder = R"(parameter table : f32[10, 4]
buffer cache : f32[1, 8, 4]
graph():
    %p_table : f32[10, 4] [num_users=1] = placeholder[target=p_table](state=table)
    %b_cache : f32[1, 8, 4] [num_users=2] = placeholder[target=b_cache](state=cache)
    %ids : i64[1, s0{3}] [num_users=1] = placeholder[target=ids]
    %where : i32[s0{3}] [num_users=1] = placeholder[target=where]
    %scale : f32[1, s0{3}, 4] [num_users=1] = placeholder[target=scale]
    %mask : i64[1, s0{3}] [num_users=1] = placeholder[target=mask]
    %x : f32[1, s0{3}, 4] [num_users=1] = call_function[target=aten.embedding.default](args = (%p_table, %ids), kwargs = {})
    %wide : i64[s0{3}] [num_users=1] = call_function[target=aten.to.dtype](args = (%where, torch.int64), kwargs = {})
    %slot : i64[s0{3}] [num_users=1] = call_function[target=aten.add.Tensor](args = (%wide, 0), kwargs = {})
    %y : f32[1, s0{3}, 4] [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, %scale), kwargs = {})
    %z : f32[1, s0{3}, 4] [num_users=1] = call_function[target=aten.add.Tensor](args = (%y, %m), kwargs = {})
    %write : f32[1, 8, 4] [num_users=0] = call_function[target=aten.index_copy_.default](args = (%b_cache, 1, %slot, %z), kwargs = {})
    %sum : f32[] [num_users=1] = call_function[target=aten.sum.default](args = (%b_cache,), kwargs = {})
    return sum)";

Model decoder(std::int64_t shortest = 1) {
  std::string text = kDecoder;
  const std::string use =
      "    %m : i64[1, s0{3}, 1] [num_users=1] = call_function[target=aten.unsqueeze.default](args "
      "= "
      "(%mask, 2), kwargs = {})\n";
  text.insert(text.find("    %z "), use);
  FakeSource source;
  source.symbols["s0"] = {shortest, 8};
  return from_source(text, std::move(source));
}

Inputs first_call() {
  return {{at::tensor({1, 2, 3}, at::kLong).unsqueeze(0), at::tensor({0, 1, 2}, at::kInt),
           at::randn({1, 3, 4}), at::tensor({1, 1, 0}, at::kLong).unsqueeze(0)},
          "given"};
}

std::vector<std::int64_t> numbers(const IValue& value) {
  const at::Tensor flat = value.toTensor().to(at::kLong).flatten().contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

using Numbers = std::vector<std::int64_t>;

TEST(Sequences, KnowWhatEachInputIs) {
  using enum InputRole;
  EXPECT_EQ(input_roles(decoder()), (std::vector{fresh, position, fresh, fixed}));
}

TEST(Sequences, GoOnWhereTheCallBeforeEnded) {
  const Inputs all = with_steps(decoder(), first_call(), 3, 0);
  ASSERT_EQ(all.calls(), 4u);
  EXPECT_EQ(all.origin, "given, then 3 steps");
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(numbers(all.call(i)[1]), Numbers{static_cast<std::int64_t>(2 + i)});
    EXPECT_EQ(all.call(i)[1].toTensor().scalar_type(), at::kInt);
    EXPECT_EQ(all.call(i)[0].toTensor().sizes(), (Numbers{1, 1}));
    EXPECT_EQ(all.call(i)[2].toTensor().sizes(), (Numbers{1, 1, 4}));
    EXPECT_EQ(numbers(all.call(i)[3]), Numbers{0});  // the last of the mask
  }
  EXPECT_FALSE(at::equal(all.call(1)[2].toTensor(), all.call(2)[2].toTensor()));
  const Inputs again = with_steps(decoder(), first_call(), 3, 0);
  EXPECT_TRUE(at::equal(all.call(3)[0].toTensor(), again.call(3)[0].toTensor()));
}

TEST(Sequences, TakeAsFewTokensAsTheRangeAllows) {
  const Inputs all = with_steps(decoder(2), first_call(), 2, 0);
  EXPECT_EQ(numbers(all.call(1)[1]), (Numbers{3, 4}));
  EXPECT_EQ(numbers(all.call(2)[1]), (Numbers{5, 6}));
}

TEST(Sequences, OfGeneratedInputsBeginAtTheBeginning) {
  const std::vector<IValue> inputs = generated_inputs(decoder(), 0);
  EXPECT_EQ(numbers(inputs[1]), (Numbers{0, 1, 2}));
}

TEST(Sequences, AreRunOnTheStateThatTheCallsBeforeLeft) {
  const Model model = decoder();
  const Inputs first = first_call();
  const RunResult one = run_on_copies(model, {.inputs = first});
  const RunResult all = run_on_copies(model, {.inputs = first, .steps = 2});
  ASSERT_EQ(all.outputs.size(), 3u);
  EXPECT_TRUE(at::equal(all.outputs[0].toTensor(), one.output.toTensor()));
  ASSERT_EQ(all.state.size(), 1u);
  EXPECT_EQ(all.state[0].first, "cache");
  const at::Tensor before(model.state().tensor(model.state().find("cache")));
  const auto rows = [](const at::Tensor& a, const at::Tensor& b) {
    return a.ne(b).any(2).sum().item<std::int64_t>();
  };
  EXPECT_EQ(rows(one.state[0].second, before), 3);
  EXPECT_EQ(rows(all.state[0].second, before), 5);
}

TEST(Sequences, ThatDoNotFitTellTheCall) {
  EXPECT_NE(error_of([] {
              run_on_copies(decoder(), {.inputs = first_call(), .steps = 6});
            }).find("call 7 of 7"),
            std::string::npos);
}

IValue list_of(std::vector<IValue> items) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (IValue& item : items) list.push_back(std::move(item));
  return list;
}

TEST(Sequences, AreListsOfCallsWhereTheyCannotBeOneCall) {
  const Model model = decoder();
  const IValue call = c10::ivalue::Tuple::create(first_call().values);
  EXPECT_EQ(flatten_calls(model, call).size(), 1u);
  EXPECT_EQ(flatten_calls(model, list_of({call, call, call})).size(), 3u);
  const auto complaint = [&](const IValue& value) {
    return error_of([&] { flatten_calls(model, value); });
  };
  EXPECT_EQ(complaint(list_of({call, list_of({})})).substr(0, 8), "call 2: ");
  EXPECT_EQ(complaint(list_of({at::ones({1})})).find("call"), std::string::npos);
  const Model one = parse_filled(R"(graph():
    %x : f32[2] [num_users=1] = placeholder[target=x]
    %y : f32[2] [num_users=1] = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
    return y)");
  EXPECT_EQ(flatten_calls(one, list_of({at::ones({2}), at::ones({2})})).size(), 2u);
}

}  // namespace
}  // namespace refx::testing
