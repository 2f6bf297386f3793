// SPDX-License-Identifier: Apache-2.0

#include "report/data.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include "io/fake_source.h"
#include "kit.h"
#include "report/models.h"

namespace refx {
namespace {

using testing::parse_filled;

// What the page gets, with texts in place of their numbers.
class Data {
 public:
  explicit Data(const Model& model, const ReportOptions& options = {},
                const std::string& title = "m")
      : json_(page_data(model, options, title)), root_(parser_.parse(json_)) {}

  const std::string& json() const { return json_; }
  simdjson::dom::element root() const { return root_; }
  std::string text(std::int64_t i) const {
    return i < 0
               ? "-"
               : std::string(root_["strings"].at(static_cast<std::size_t>(i)).get_string().value());
  }
  std::string column(const char* name, std::size_t i) const {
    return text(root_["nodes"][name].at(i).get_int64());
  }
  std::size_t size() const { return root_["nodes"]["name"].get_array().size(); }

  // "path|name: before -> after", a line for each node.
  std::string nodes() const {
    std::string all;
    for (std::size_t i = 0; i < size(); ++i)
      all += column("path", i) + "|" + column("name", i) + ": " + column("before", i) + " -> " +
             column("after", i) + "\n";
    return all;
  }
  std::string lines(std::size_t step) const {
    std::string all;
    const auto numbers = root_["steps"].at(step)["lines"].get_array();
    for (std::size_t i = 0; i < numbers.size(); i += 2)
      all += text(numbers.at(i).get_int64()) + " -> " + text(numbers.at(i + 1).get_int64()) + "\n";
    return all;
  }

 private:
  std::string json_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

constexpr const char* kDivision = R"(
parameter fc.weight : f32[4, 4]
graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %p_fc_weight : f32[4, 4] [num_users=1] = placeholder[target=p_fc_weight](state=fc.weight)
    %linear : f32[2, 4] [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_fc_weight), kwargs = {})
    %div : f32[2, 4] [num_users=1] = call_function[target=aten.div.Tensor](args = (%linear, 4.0), kwargs = {})
    return (div,)
)";

TEST(ReportData, HasBothFormsOfEveryNode) {
  Model model = parse_filled(kDivision);
  ChangeTrueDivToMulByInverse()(model);
  EXPECT_EQ(Data(model).nodes(),
            "|x: %x : f32[2, 4] = placeholder -> %x : f32[2, 4] = placeholder\n"
            "fc|p_fc_weight: %p_fc_weight : f32[4, 4] = placeholder(fc.weight) -> "
            "%p_fc_weight : f32[4, 4] = placeholder(fc.weight)\n"
            "|linear: %linear : f32[2, 4] = aten.linear.default(%x, %p_fc_weight) -> "
            "%linear : f32[2, 4] = aten.linear.default(%x, %p_fc_weight)\n"
            "|div: %div : f32[2, 4] = aten.div.Tensor(%linear, 4.0) -> "
            "%div : f32[2, 4] = aten.mul.Tensor(%linear, 0.25)\n"
            "|output: return (%div,) -> return (%div,)\n");
}

TEST(ReportData, NamesTheTensorsThatNodesReadAndTheModulesThatTheyCall) {
  const Data data(parse_filled(kDivision));
  const auto labels = data.root()["nodes"]["label"].get_object().value();
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_EQ(data.text(labels["1"].get_int64()), "fc.weight");

  const Data calls(parse_filled(R"(
parameter layers.fc.weight : f32[4, 4]
module layers.fc : torch.nn.Linear(in_features=4, out_features=4, bias=False)
graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %layers_fc : f32[2, 4] [num_users=1] = call_module[target=layers.fc](args = (%x,), kwargs = {})
    return layers_fc
)"));
  EXPECT_EQ(calls.text(calls.root()["nodes"]["label"]["1"].get_int64()), "layers.fc");
}

TEST(ReportData, StepsHaveTheirBeforeAndAfter) {
  Model model = parse_filled(kDivision);
  ChangeTrueDivToMulByInverse()(model);
  const Data data(model);
  ASSERT_EQ(data.root()["steps"].get_array().size(), 1u);
  const auto step = data.root()["steps"].at(0);
  EXPECT_EQ(step["id"].get_int64().value(), 1);
  EXPECT_EQ(data.text(step["transformation"].get_int64()), "change-true-div-to-mul-by-inverse");
  EXPECT_EQ(step["nodes"].at(0).get_int64().value(), 3);
  EXPECT_EQ(data.lines(0),
            "%div : f32[2, 4] = aten.div.Tensor(%linear, 4.0) -> "
            "%div : f32[2, 4] = aten.mul.Tensor(%linear, 0.25)\n");
}

TEST(ReportData, MergedLinearsAreRemovedAddedAndChanged) {
  const Data data(testing::rewritten_encoder(1));
  std::size_t added = 0, removed = 0, changed = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::string before = data.column("before", i), after = data.column("after", i);
    if (before == "-")
      ++added;
    else if (after == "-")
      ++removed;
    else if (before != after)
      ++changed;
  }
  EXPECT_GE(added, 3u);    // a linear, its weight, its bias
  EXPECT_EQ(removed, 6u);  // three weights and biases
  EXPECT_EQ(changed, 4u);  // three linears and the division
  EXPECT_EQ(data.root()["before"]["nodes"].get_int64().value() + static_cast<std::int64_t>(added),
            static_cast<std::int64_t>(data.size()));
  EXPECT_NE(data.lines(0).find("- -> parameter "), std::string::npos) << data.lines(0);
  EXPECT_NE(data.nodes().find("encoder.layer.0.attention.self.query|linear: "), std::string::npos)
      << data.nodes();
}

TEST(ReportData, TensorsWithOtherValuesShow) {
  Model model = parse_filled(R"(
parameter fc.weight : f32[4, 4]
parameter fc.bias : f32[4]
module fc : torch.nn.Linear(in_features=4, out_features=4, bias=True)
graph():
    %x : f32[2, 4] [num_users=1] = placeholder[target=x]
    %fc : f32[2, 4] [num_users=1] = call_module[target=fc](args = (%x,), kwargs = {})
    return fc
)");
  FuseBiasInLinear()(model);
  ASSERT_EQ(model.history().size(), 1u);
  const Data data(model);
  bool marked = false;
  for (std::size_t i = 0; i < data.size(); ++i)
    marked |= data.column("after", i).find("# new weights") != std::string::npos;
  EXPECT_TRUE(marked) << data.nodes();
}

TEST(ReportData, StepsMayBuildOnEachOther) {
  Model model = testing::rewritten_encoder(1);
  FuseBiasInLinear()(model);  // drops tensors that merging the linears had made
  const Data data(model);
  EXPECT_EQ(data.root()["steps"].get_array().size(), model.history().size());
  EXPECT_EQ(data.nodes().find('?'), std::string::npos) << data.nodes();
  for (std::size_t i = 0; i < model.history().size(); ++i)
    EXPECT_EQ(data.lines(i).find('?'), std::string::npos) << data.lines(i);
}

TEST(ReportData, NothingInItEndsTheScript) {
  Model model = parse_filled(R"(
parameter "a</script><script>alert(1)</script>.<!--weight" : f32[4]
graph():
    %x : f32[4] [num_users=1] = placeholder[target=x]
    %w : f32[4] [num_users=1] = placeholder[target=w](state="a</script><script>alert(1)</script>.<!--weight")
    %"odd \"name\"\n" : f32[4] [num_users=1] = call_function[target=aten.add.Tensor](args = (%x, %w), kwargs = {})
    return (%"odd \"name\"\n",)
)");
  const Data data(model, {.not_verified = "because </script>"}, "<title> & \"more\"");
  EXPECT_EQ(data.json().find('<'), std::string::npos);
  EXPECT_EQ(data.column("path", 1), "a</script><script>alert(1)</script>");
  EXPECT_EQ(data.column("name", 2), "odd \"name\"\n");
  EXPECT_EQ(data.root()["title"].get_string().value(), "<title> & \"more\"");
  EXPECT_EQ(data.root()["verification"]["missing"].get_string().value(), "because </script>");
}

TEST(ReportData, HasResultsOrSaysWhyNot) {
  const Model model = parse_filled(kDivision);
  const Verification verification = testing::some_verification();
  const Benchmark benchmark = testing::some_benchmark();
  const Data with(model, {.verification = &verification, .benchmark = &benchmark});
  EXPECT_FALSE(with.root()["verification"]["passed"].get_bool().value());
  EXPECT_EQ(with.root()["benchmark"]["contest"]["speed"].get_string().value(), "faster");
  const Data without(model, {.not_benchmarked = "no operator foo"});
  EXPECT_EQ(without.root()["verification"]["missing"].get_string().value(), "It was not run.");
  EXPECT_EQ(without.root()["benchmark"]["missing"].get_string().value(), "no operator foo");
}

TEST(ReportData, HasTheSensitivityOfItsLossyStepsAndOfThoseTakenBack) {
  const Model model = testing::lossy_encoder();
  const std::size_t kept = model.history().size();
  const Sensitivity sensitive = sensitivity(model, {.reversed = true});
  const Data data(model, {.sensitivity = &sensitive});
  const auto steps = data.root()["sensitivity"]["steps"].get_array().value();
  EXPECT_EQ(steps.size(), 72u);
  std::size_t in_model = 0;
  for (const auto step : steps) in_model += step["in_model"].get_bool().value() ? 1 : 0;
  EXPECT_EQ(in_model, kept);
  EXPECT_LT(kept, 72u);
  EXPECT_TRUE(Data(model).root()["sensitivity"].is_null());
}

TEST(ReportData, SaysWhatOfTheFileIsForUndo) {
  const auto of_undo = [](const std::string& name) {
    const std::string path = "tests/data/pt2/" + name;
    return Data(load(path)).root()["file"]["history"].get_int64().value();
  };
  EXPECT_EQ(of_undo("encoder.pt2"), 0);
  EXPECT_GT(of_undo("encoder.all.pt2"), 1000);
}

TEST(ReportData, NamesTheFileWithoutItsFolders) {
  testing::FakeSource source;
  source.file = "/somewhere/private/model.pt2";
  const Data data(testing::from_source(kDivision, source));
  EXPECT_EQ(data.root()["file"]["name"].get_string().value(), "model.pt2");
  EXPECT_EQ(data.json().find("private"), std::string::npos);
}

TEST(ReportData, LongArgumentsAreCut) {
  Builder b;
  const NodeId x = b.input("x");
  List many;
  for (int i = 0; i < 100000; ++i) many.items.emplace_back(i);
  const NodeId y = b.call("aten.view.default", {x, many});
  const NodeId z = b.call("custom.op.default", {y, Raw{std::string(100000, 'r')}});
  EXPECT_LT(Data(b.build(z)).json().size(), 10000u);
}

TEST(ReportData, GrowsWithTheModelAndNotFaster) {
  const std::size_t small = page_data(testing::rewritten_encoder(85), {}, "m").size();
  const Data large(testing::rewritten_encoder(850));
  EXPECT_GT(large.size(), 20000u);
  EXPECT_LT(large.json().size(), small * 11);
  EXPECT_LT(large.json().size(), 8u << 20);
}

}  // namespace
}  // namespace refx
