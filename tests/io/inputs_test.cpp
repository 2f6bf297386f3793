// SPDX-License-Identifier: Apache-2.0

#include "refx/inputs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <fstream>

#include "fake_source.h"

namespace refx {
namespace {

using c10::IValue;
using namespace testing;

using ValueList = std::vector<IValue>;

at::Tensor x() { return at::ones({2, 4}); }
IValue tuple(ValueList items) { return c10::ivalue::Tuple::create(std::move(items)); }
IValue list(ValueList items) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (IValue& item : items) list.push_back(item);
  return list;
}
IValue dict(std::vector<std::pair<IValue, IValue>> items) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  for (auto& [key, value] : items) dict.insert(key, value);
  return dict;
}

constexpr const char* kTwoInputs = R"(graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %mask : f32[2, 4] [num_users=1] = placeholder[target=mask]
    %mul : [num_users=1] = call_function[target=aten.mul.Tensor](args = (%x, %mask), kwargs = {})
    return mul)";

Model nested() {
  FakeSource source;
  source.in = versioned(tuple_spec(
      {tuple_spec(
           {kLeaf, dict_spec({"b", "a"}, {spec("builtins.list", "\"null\"", {kLeaf}), kLeaf})}),
       dict_spec({"mask", "k"}, {kLeaf, kLeaf})}));
  return from_source(R"(graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %d_b_0 : f32[2, 4] [num_users=1] = placeholder[target=d_b_0]
    %d_a : f32[2] [num_users=0] = placeholder[target=d_a]
    %mask : f32[2] [num_users=0] = placeholder[target=mask]
    %k : [num_users=0] = placeholder[target=k]
    %add : [num_users=1] = call_function[target=aten.add.Tensor](args = (%x, %d_b_0), kwargs = {})
    return add)",
                     std::move(source));
}

std::string complaint(const Model& model, const IValue& inputs) {
  return error_of([&] { flatten_inputs(model, inputs); });
}

TEST(FlattenInputs, WithoutASpecTakesATupleAsItIs) {
  const Model model = parse(kTwoInputs);
  EXPECT_EQ(flatten_inputs(model, tuple({x(), x()})).size(), 2u);
  EXPECT_EQ(flatten_inputs(model, list({x(), x()})).size(), 2u);
  EXPECT_EQ(flatten_inputs(model, tuple({tuple({x(), x()}), dict({})})).size(), 2u);
}

TEST(FlattenInputs, TakesInputsByName) {
  const Model model = parse(kTwoInputs);
  const at::Tensor mask = at::zeros({2, 4});
  const ValueList flat = flatten_inputs(model, dict({{"mask", mask}, {"x", x()}}));
  EXPECT_TRUE(flat[1].toTensor().is_same(mask));
  const ValueList mixed = flatten_inputs(model, tuple({tuple({x()}), dict({{"mask", mask}})}));
  EXPECT_TRUE(mixed[1].toTensor().is_same(mask));
}

// A model that takes an object of a class that only Python has, with that context.
Model taking(const std::string& context, const std::vector<std::string>& children) {
  FakeSource source;
  source.in = versioned(
      tuple_spec({tuple_spec({spec("lib.Cache", context, children)}), dict_spec({}, {})}));
  return from_source(R"(graph():
    %c_0 : f32[1] [num_users=1] = placeholder[target=c_0]
    %c_1 : f32[1] [num_users=0] = placeholder[target=c_1]
    %c_2 : f32[1] [num_users=0] = placeholder[target=c_2]
    %c_3 : f32[1] [num_users=0] = placeholder[target=c_3]
    return c_0)",
                     std::move(source));
}

std::string numbers(const ValueList& flat) {
  std::string text;
  for (const IValue& value : flat) text += std::to_string(value.toTensor().item<int>());
  return text;
}

// As a pickle has it: by its attributes.
IValue cache() {
  auto number = [](float n) { return IValue(at::full({1}, n)); };
  auto layer = [&](float n) {
    return dict({{"keys", number(n)}, {"values", number(n + 1)}, {"length", 3}});
  };
  return dict({{"layers", list({layer(1), layer(3)})}, {"offloading", false}, {"more", IValue()}});
}

TEST(FlattenInputs, TakesTheTensorsOfAnObjectInOrder) {
  const Model model = taking(R"("{\"_t\": \"obj\"}")", {kLeaf, kLeaf, kLeaf, kLeaf});
  EXPECT_EQ(numbers(flatten_inputs(model, tuple({tuple({cache()}), dict({})}))), "1234");
}

TEST(FlattenInputs, TakesACacheOfTransformers) {
  const std::string two = spec("builtins.list", "\"null\"", {kLeaf, kLeaf});
  const Model model = taking(R"("[[\"key_cache\", \"value_cache\"], [null, null]]")", {two, two});
  EXPECT_EQ(numbers(flatten_inputs(model, tuple({tuple({cache()}), dict({})}))), "1324");
  EXPECT_NE(complaint(model, tuple({tuple({dict({{"layers", list({})}})}), dict({})}))
                .find("should be a list of 2"),
            std::string::npos);
}

TEST(FlattenInputs, TakesOneBareTensor) {
  const Model model = parse(R"(graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    return x)");
  EXPECT_EQ(flatten_inputs(model, x()).size(), 1u);
  EXPECT_EQ(complaint(parse(kTwoInputs), x()),
            "input 'mask' is missing: the model takes (x, mask)");
}

TEST(FlattenInputs, SaysWhatIsMissingOrTooMuch) {
  const Model model = parse(kTwoInputs);
  EXPECT_EQ(complaint(model, tuple({x()})), "input 'mask' is missing: the model takes (x, mask)");
  EXPECT_EQ(complaint(model, tuple({x(), x(), x()})),
            "3 inputs are given, but the model takes (x, mask)");
  EXPECT_EQ(complaint(model, dict({{"x", x()}, {"maks", x()}})),
            "the model has no input 'maks': the model takes (x, mask); did you mean 'mask'?");
  EXPECT_EQ(complaint(model, tuple({tuple({x(), x()}), dict({{"x", x()}})})),
            "input 'x' is given twice");
}

TEST(FlattenInputs, SaysWhatIsOfTheWrongKind) {
  const Model model = parse(kTwoInputs);
  EXPECT_EQ(complaint(model, tuple({x(), 3})),
            "input 'mask' should be a tensor, f32[2, 4], not an int");
  EXPECT_EQ(complaint(model, tuple({x(), at::ones({2, 5})})),
            "input 'mask', dimension 1 is 5, not 4: it should be f32[2, 4], not f32[2, 5]");
  EXPECT_EQ(complaint(model, tuple({x(), at::ones({2, 4}, at::kDouble)})),
            "input 'mask' should be f32[2, 4], not f64[2, 4]");
}

TEST(FlattenInputs, FollowsTheNestingOfTheSpec) {
  const Model model = nested();
  const at::Tensor a = at::zeros({2}), b = at::zeros({2, 4}), mask = at::ones({2});
  const IValue d = dict({{"a", a}, {"b", list({b})}});
  const ValueList flat =
      flatten_inputs(model, tuple({tuple({x(), d}), dict({{"k", 2}, {"mask", mask}})}));
  ASSERT_EQ(flat.size(), 5u);
  EXPECT_TRUE(flat[1].toTensor().is_same(b));
  EXPECT_TRUE(flat[2].toTensor().is_same(a));
  EXPECT_TRUE(flat[3].toTensor().is_same(mask));
  EXPECT_EQ(flat[4].toInt(), 2);
  // By the names of placeholders too; a constant that the graph does not read may be left out.
  const ValueList named =
      flatten_inputs(model, dict({{"x", x()}, {"d_b_0", b}, {"d_a", a}, {"mask", mask}}));
  EXPECT_TRUE(named[1].toTensor().is_same(b));
  EXPECT_TRUE(named[4].isNone());
}

TEST(FlattenInputs, NamesThePlaceInsideANest) {
  const Model model = nested();
  const at::Tensor a = at::zeros({2}), b = at::zeros({2, 4}), mask = at::ones({2});
  const auto with = [&](const IValue& d) {
    return complaint(model, tuple({tuple({x(), d}), dict({{"mask", mask}})}));
  };
  EXPECT_EQ(with(a), "input 'd' should be a dict with the keys 'b', 'a', not a tensor");
  EXPECT_EQ(with(dict({{"a", a}})),
            "input 'd['b']' is missing: 'd' should be a dict with the keys 'b', 'a'");
  EXPECT_EQ(with(dict({{"a", a}, {"b", list({b, b})}})),
            "input 'd['b']' should be a list of 1, not a list of 2");
  EXPECT_EQ(with(dict({{"a", a}, {"b", list({a})}})),
            "input 'd['b'][0]' should be f32[2, 4], not f32[2]");
  EXPECT_EQ(with(dict({{"a", a}, {"b", list({b})}, {"c", b}})),
            "input 'd' should be a dict with the keys 'b', 'a', not a dict of 3");
  EXPECT_EQ(complaint(model, tuple({tuple({x()}), dict({{"mask", mask}})})),
            "input 'd' is missing: the model takes (x, d, mask, k)");
}

TEST(FlattenInputs, ChecksRangesOfSymbolicSizes) {
  FakeSource source;
  source.symbols["s0"] = {2, 8};
  const Model model = from_source(R"(graph():
    %x : f32[s0{3}, 4] [num_users=1] = placeholder[target=x]
    return x)",
                                  std::move(source));
  EXPECT_EQ(flatten_inputs(model, at::ones({8, 4})).size(), 1u);
  EXPECT_NE(complaint(model, at::ones({9, 4})), "no error");
  EXPECT_NE(complaint(model, at::ones({1, 4})), "no error");
}

// Once a loop over leaves counted them anew in every turn.
TEST(FlattenInputs, TakesTimeInProportion) {
  constexpr std::size_t kLeaves = 30'000;
  std::string graph = "graph():\n";
  for (std::size_t i = 0; i < kLeaves; ++i)
    graph += "    %x" + std::to_string(i) + " : f32[] [num_users=0] = placeholder[target=x]\n";
  FakeSource source;
  source.in = versioned(
      tuple_spec({tuple_spec({tuple_spec(std::vector(kLeaves, kLeaf))}), dict_spec({}, {})}));
  const Model model = from_source(graph + "    return None", std::move(source));
  const IValue inputs = tuple({tuple(ValueList(kLeaves, at::zeros({})))});
  const std::clock_t start = std::clock();
  EXPECT_EQ(flatten_inputs(model, inputs).size(), kLeaves);
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
}

TEST(NestOutput, RefusesKeysThatCollideInTorchsTable) {
  std::uint64_t inverse = 1;  // of the number that torch multiplies hashes with
  for (int i = 0; i < 6; ++i) inverse *= 2 - 11400714819323198485ull * inverse;
  std::string keys;
  for (std::uint64_t i = 0; i < 40; ++i)
    keys += (i ? "," : "") + std::to_string(static_cast<std::int64_t>(i * inverse));
  FakeSource source;
  source.out = versioned(spec("builtins.dict", "[" + keys + "]", std::vector(40, kLeaf)));
  const Model model = from_source(kTwoInputs, std::move(source));
  EXPECT_NE(error_of([&] { nest_output(model, tuple(ValueList(40))); }).find("keys that collide"),
            std::string::npos);
}

TEST(Leaves, HaveOnlySoMuchTextInTheirPaths) {
  const IValue items = list(ValueList(1000));
  EXPECT_EQ(leaves(dict({{std::string(1000, 'k'), items}})).size(), 1000u);
  EXPECT_NE(error_of([&] {
              leaves(dict({{std::string(100'000, 'k'), items}}));
            }).find("use shorter keys"),
            std::string::npos);
}

TEST(NestOutput, BuildsWhatPythonReturns) {
  FakeSource source;
  source.out = versioned(tuple_spec(
      {spec("collections.namedtuple", "\"my.Result\"",
            {kLeaf, dict_spec({"z"}, {spec("builtins.list", "\"null\"", {kLeaf, kLeaf})})}),
       kLeaf}));
  const Model model = from_source(kTwoInputs, std::move(source));
  const IValue output = nest_output(model, tuple({x(), IValue(), 3, x()}));
  const std::vector<IValue> items = output.toTupleRef().elements().vec();
  EXPECT_TRUE(items[0].toTupleRef().elements()[0].isTensor());
  const IValue z = items[0].toTupleRef().elements()[1].toGenericDict().at("z");
  EXPECT_TRUE(z.isList());
  EXPECT_EQ(z.toListRef()[1].toInt(), 3);
  std::vector<std::string> paths;
  for (const Leaf& leaf : leaves(output)) paths.push_back(leaf.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"output[0][0]", "output[0][1]['z'][0]",
                                             "output[0][1]['z'][1]", "output[1]"}));
  EXPECT_EQ(error_of([&] { nest_output(model, tuple({x()})); }),
            "the file describes 4 outputs, but its graph returns 1");
}

TEST(NestOutput, ASingleLeafIsNotWrapped) {
  FakeSource source;
  source.out = versioned(kLeaf);
  const Model model = from_source(kTwoInputs, std::move(source));
  EXPECT_TRUE(nest_output(model, tuple({x()})).isTensor());
}

TEST(TreeSpec, DamageIsAnErrorThatSaysSo) {
  for (const char* bad :
       {"", "[]", "[1]", "[1, 3]", "[1, {}]", "[1, {\"type\": 3, \"children_spec\": []}]",
        "[1, {\"type\": null, \"children_spec\": [3]}]", "[2, null]", "{", "[1, null]",
        R"([1, {"type": "builtins.dict", "context": "[]", "children_spec": [)"
        R"({"type": null, "context": null, "children_spec": []}]}])"}) {
    FakeSource source;
    source.out = bad;
    if (source.out.empty()) continue;
    const Model model = from_source(kTwoInputs, std::move(source));
    EXPECT_NE(error_of([&] { nest_output(model, tuple({x()})); }).find("described"), 0u) << bad;
    EXPECT_NE(error_of([&] { nest_output(model, tuple({x()})); }), "no error") << bad;
  }
}

TEST(TreeSpec, DefaultAndOrderedDictsHaveTheirKeys) {
  FakeSource source;
  source.out = versioned(tuple_spec(
      {spec(
           "collections.defaultdict",
           R"({"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["p"]})",
           {kLeaf}),
       spec("collections.OrderedDict", R"("[1, \"q\"]")", {kLeaf, kLeaf})}));
  const Model model = from_source(kTwoInputs, std::move(source));
  const IValue output = nest_output(model, tuple({1, 2, 3}));
  const std::vector<IValue> items = output.toTupleRef().elements().vec();
  EXPECT_EQ(items[0].toGenericDict().at("p").toInt(), 1);
  EXPECT_EQ(items[1].toGenericDict().at(1).toInt(), 2);
  EXPECT_EQ(items[1].toGenericDict().at("q").toInt(), 3);
}

// ---- generated inputs --------------------------------------------------------------------------

TEST(GeneratedInputs, AreTheSameForASeedAndLeaveTheGlobalGeneratorAlone) {
  const Model model = parse(kTwoInputs);
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  const ValueList a = generated_inputs(model, 1), b = generated_inputs(model, 1),
                  c = generated_inputs(model, 2);
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
  EXPECT_TRUE(at::equal(a[0].toTensor(), b[0].toTensor()));
  EXPECT_FALSE(at::equal(a[0].toTensor(), c[0].toTensor()));
  EXPECT_FALSE(at::equal(a[0].toTensor(), a[1].toTensor()));
}

TEST(GeneratedInputs, IndicesFitTheSmallestTable) {
  const Model model = parse(R"(parameter words : f32[5, 2]
parameter more : f32[9, 2]
graph():
    %p_words : f32[5, 2] [num_users=1] = placeholder[target=p_words](state=words)
    %p_more : f32[9, 2] [num_users=1] = placeholder[target=p_more](state=more)
    %ids : i64[64, 8] [num_users=2] = placeholder[target=ids]
    %view : [num_users=1] = call_function[target=aten.view.default](args = (%ids, [-1]), kwargs = {})
    %a : [num_users=1] = call_function[target=aten.embedding.default](args = (%p_words, %view), kwargs = {})
    %b : [num_users=1] = call_function[target=aten.embedding.default](args = (%p_more, %ids), kwargs = {})
    return (a, b))");
  const at::Tensor ids = generated_inputs(model, 0)[0].toTensor();
  EXPECT_EQ(ids.scalar_type(), at::kLong);
  EXPECT_EQ(ids.max().item<std::int64_t>(), 4);
  EXPECT_EQ(ids.min().item<std::int64_t>(), 0);
}

TEST(GeneratedInputs, MasksHoldBothValuesAndNoRowIsAllZeros) {
  const Model model = parse(R"(graph():
    %mask : i64[3, 8] [num_users=1] = placeholder[target=mask]
    %one : b8[1, 8] [num_users=1] = placeholder[target=one]
    %flag : i64[] [num_users=1] = placeholder[target=flag]
    return (mask, one, flag))");
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const IValue& value : generated_inputs(model, seed)) {
      const at::Tensor mask = value.toTensor().to(at::kLong);
      EXPECT_EQ(mask.max().item<std::int64_t>(), 1);
      if (mask.dim() == 0) continue;
      EXPECT_EQ(mask.min().item<std::int64_t>(), 0);
      EXPECT_EQ(mask.amax(-1).min().item<std::int64_t>(), 1);
      EXPECT_TRUE((mask.slice(-1, 1) <= mask.slice(-1, 0, -1)).all().item<bool>());  // ones first
    }
}

TEST(GeneratedInputs, AreLikeTheSamples) {
  const std::string path = ::testing::TempDir() + "/refx_samples_like.pt";
  const auto tensors = [](std::vector<at::Tensor> all) {
    std::vector<IValue> values(all.begin(), all.end());
    return c10::ivalue::Tuple::create(
        {c10::ivalue::Tuple::create(std::move(values)), c10::Dict<std::string, at::Tensor>()});
  };
  write_values(path, tensors({at::randn({4, 64}) * 10 + 100, at::arange(8).expand({4, 8}).clone(),
                              at::randint(3, 7, {4, 64}), at::ones({4, 8})}));
  std::ifstream file(path, std::ios::binary);
  FakeSource source;
  source.samples = std::string(std::istreambuf_iterator<char>(file), {});
  source.in = versioned(tuple_spec({tuple_spec({kLeaf, kLeaf, kLeaf, kLeaf}), dict_spec({}, {})}));
  const Model model = from_source(R"(graph():
    %x : f32[4, 64] [num_users=1] = placeholder[target=x]
    %positions : i64[4, 8] [num_users=1] = placeholder[target=positions]
    %kinds : i64[4, 64] [num_users=1] = placeholder[target=kinds]
    %weights : f32[4, 8] [num_users=1] = placeholder[target=weights]
    return (x, positions, kinds, weights))",
                                  std::move(source));
  const ValueList values = generated_inputs(model, 0);
  EXPECT_NEAR(values[0].toTensor().mean().item<double>(), 100, 5);
  EXPECT_NEAR(values[0].toTensor().std().item<double>(), 10, 3);
  EXPECT_TRUE(at::equal(values[1].toTensor(), at::arange(8).expand({4, 8})));
  EXPECT_EQ(values[2].toTensor().min().item<std::int64_t>(), 3);
  EXPECT_EQ(values[2].toTensor().max().item<std::int64_t>(), 6);
  EXPECT_EQ(values[3].toTensor().min().item<double>(), 0);  // all ones are a mask, too
  EXPECT_EQ(values[3].toTensor().max().item<double>(), 1);
  std::remove(path.c_str());
}

TEST(GeneratedInputs, SymbolsHaveOneValueInsideTheirRange) {
  FakeSource source;
  source.symbols["s0"] = {2, 4};
  const Model model = from_source(R"(graph():
    %x : f32[s0{7}, 4] [num_users=1] = placeholder[target=x]
    %y : f32[2*s0 + 1{15}, s0{7}] [num_users=1] = placeholder[target=y]
    %flag : b8[s0{7}] [num_users=0] = placeholder[target=flag]
    return (x, y))",
                                  std::move(source));
  EXPECT_TRUE(has_symbolic_inputs(model));
  for (int variation : {0, 1, 2}) {
    const ValueList values = generated_inputs(model, 0, variation);
    const std::int64_t s0 = values[0].toTensor().size(0);
    EXPECT_GE(s0, 2);
    EXPECT_LE(s0, 4);
    EXPECT_EQ(values[1].toTensor().sizes(), (std::vector<std::int64_t>{2 * s0 + 1, s0}));
    EXPECT_EQ(values[2].toTensor().scalar_type(), at::kBool);
  }
  EXPECT_FALSE(has_symbolic_inputs(parse(kTwoInputs)));
}

TEST(GeneratedInputs, VariationsHaveOtherSizes) {
  const Model model = parse(R"(graph():
    %x : f32[s0{7}, 4] [num_users=1] = placeholder[target=x]
    return x)");
  const auto size = [&](int variation) {
    return generated_inputs(model, 0, variation)[0].toTensor().size(0);
  };
  EXPECT_EQ(size(0), 7);
  EXPECT_NE(size(1), 7);
  EXPECT_NE(size(2), 7);
  EXPECT_NE(size(1), size(2));
}

TEST(GeneratedInputs, AreNotLargerThanIsSensible) {
  for (const char* type :
       {"f32[1000000, 1000000, 10]", "f32[4611686018427387904, 4, 3]",
        "i64[2] strides=(1099511627776,)", "f32[s0]", "f32[2, 9223372036854775807]"}) {
    FakeSource source;
    source.symbols["s0"] = {.min = 1ll << 40, .max = std::nullopt};
    const Model model = from_source("graph():\n    %x : " + std::string(type) +
                                        " [num_users=1] = placeholder[target=x]\n    return x",
                                    std::move(source));
    for (int variation : {0, 1, 2})
      EXPECT_EQ(error_of([&] { generated_inputs(model, 0, variation); }),
                "generated inputs would take more than 8589934592 bytes: give inputs")
          << type;
  }
}

TEST(GeneratedInputs, SayWhatCannotBeGenerated) {
  const Model model = parse(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    return x)");
  EXPECT_EQ(error_of([&] { generated_inputs(model, 0); }),
            "input 'x' has no known type, so none can be generated: give inputs");
}

}  // namespace
}  // namespace refx
