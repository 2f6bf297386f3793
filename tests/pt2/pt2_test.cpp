// SPDX-License-Identifier: Apache-2.0

// Files that torch wrote (in REFX_MODELS, see tests/cli/make_models.py): read, written, damaged.

#include "refx/pt2.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "archive/archive.h"
#include "archive/files.h"
#include "book/schemas.h"
#include "cli/program.h"
#include "graph_json/check_graph_text.h"
#include "json_tree.h"
#include "kit.h"
#include "property.h"
#include "pt2/small_file.h"
#include "refx/diff.h"
#include "refx/original.h"
#include "refx/reverse.h"

namespace refx::testing {
namespace {

namespace fs = std::filesystem;

class Pt2 : public SmallFile {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
  }

  // Everything that can be seen of the model in the file, or nothing if it is refused.
  std::optional<std::string> seen(const std::string& name) const {
    try {
      const Model model = load(file(name));
      check_contents(model);
      std::ostringstream text;
      text << content(model) << content(original_of(model));
      for (const Step& step : model.history()) text << step << '\n';
      return text.str();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      return std::nullopt;
    }
  }

  // Bits flipped all over the file, and the file cut at many lengths.
  void expect_no_silent_damage(const std::string& name) const {
    const std::string bytes = contents(file(name));
    const auto whole = seen(name);
    ASSERT_TRUE(whole);
    std::mt19937_64 random(7);
    int refused = 0;
    constexpr int kFlips = 1500;
    for (int i = 0; i < kFlips; ++i) {
      const std::uint64_t bit = random() % (bytes.size() * 8);
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      write("damaged.pt2", damaged);
      const auto found = seen("damaged.pt2");
      if (!found) {
        ++refused;
        continue;
      }
      ASSERT_EQ(*found, *whole) << "bit " << bit;
    }
    EXPECT_GT(refused, kFlips / 2);
    for (std::size_t length = 0; length < bytes.size(); length += 1 + random() % 97) {
      write("damaged.pt2", bytes.substr(0, length));
      ASSERT_FALSE(seen("damaged.pt2")) << "cut at " << length;
    }
  }
};

TEST_F(Pt2, AnUntouchedModelIsSavedAsTheSameFile) {
  save(load(file("small.pt2")), file("copy.pt2"));
  EXPECT_EQ(contents(file("copy.pt2")), contents(file("small.pt2")));
}

TEST_F(Pt2, AHistorySurvivesTheFile) {
  const Model model = rewritten();
  save(model, file("fast.pt2"));
  const Model back = load(file("fast.pt2"));
  EXPECT_EQ(content(back), content(model));
  EXPECT_EQ(content(original_of(back)), content(load(file("small.pt2"))));
  save(back, file("again.pt2"));
  EXPECT_EQ(contents(file("again.pt2")), contents(file("fast.pt2")));
}

TEST_F(Pt2, ReversedOneByOneWithAFileBetweenItIsTheOriginalFile) {
  save(rewritten(), file("all.pt2"));
  check_property("with a file between reversals", 3, 1, [&] {
    const auto order = *up_to(20, any_number());
    fs::copy_file(file("all.pt2"), file("fast.pt2"), fs::copy_options::overwrite_existing);
    for (std::size_t i = 0; i < 100; ++i) {
      Model model = load(file("fast.pt2"));
      if (model.history().empty()) break;
      const auto ids = model.history().ids();
      const auto which = static_cast<std::size_t>(i < order.size() ? order[i] : 0);
      RC_LOG() << "reverse " << model.history()[ids[which % ids.size()]] << std::endl;
      reverse(model, ids[which % ids.size()]);
      save(model, file("fast.pt2"));
    }
    EXPECT_EQ(contents(file("fast.pt2")), contents(file("small.pt2")));
  });
}

TEST_F(Pt2, WhatWasTrainedInMemoryIsCarriedBackAfterTheFile) {
  Model model = load(file("small.pt2"));
  find_transformation("merge-linears")(model);
  ASSERT_EQ(model.history().size(), 1u);
  const Piece piece = model.history().back().pieces.front();
  const std::string name = load(file("small.pt2")).state()[piece.part].name;
  const at::Tensor old =
      at::Tensor(load(file("small.pt2")).state().tensor(piece.part)).detach().clone();
  at::Tensor(model.state().tensor(piece.whole)).detach().mul_(2);
  save(model, file("trained.pt2"));

  Model back = load(file("trained.pt2"));
  reverse_all(back);
  EXPECT_TRUE(at::Tensor(back.state().tensor(back.state().find(name))).detach().equal(old.mul(2)));
  save(back, file("back.pt2"));
  EXPECT_EQ(content(load(file("back.pt2"))), content(back));

  Model discarded = load(file("trained.pt2"));
  reverse_all(discarded, {.discard_changes = true});
  save(discarded, file("discarded.pt2"));
  EXPECT_EQ(contents(file("discarded.pt2")), contents(file("small.pt2")));
}

TEST_F(Pt2, WritingIntoATensorLeavesTheFileAlone) {
  const std::string before = contents(file("small.pt2"));
  const Model model = load(file("small.pt2"));
  for (StateId id : model.state()) at::Tensor(model.state().tensor(id)).detach().zero_();
  EXPECT_EQ(contents(file("small.pt2")), before);
  EXPECT_NE(content(load(file("small.pt2"))), content(model));
  save(model, file("zeros.pt2"));
  EXPECT_EQ(content(load(file("zeros.pt2"))), content(model));
}

TEST_F(Pt2, ForgottenStepsAreGone) {
  Model model = rewritten();
  forget(model);
  save(model, file("slim.pt2"));
  const Model back = load(file("slim.pt2"));
  EXPECT_TRUE(back.history().empty());
  const auto archive = Archive::open(file("slim.pt2"));
  for (const Record& record : archive->records())
    EXPECT_FALSE(record.name.starts_with("refx/")) << record.name;
  // A new history on it has it as its original.
  Model more = load(file("slim.pt2"));
  for (const auto& transformation : registry()) (*transformation)(more);
  save(more, file("more.pt2"));
  Model less = load(file("more.pt2"));
  reverse_all(less);
  save(less, file("less.pt2"));
  EXPECT_EQ(contents(file("less.pt2")), contents(file("slim.pt2")));
}

TEST_F(Pt2, ForgottenInMemoryAndTransformedAgain) {
  Model model = load(file("small.pt2"));
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  forget(model);
  find_transformation("merge-linears")(model);
  save(model, file("mixed.pt2"));
  Model back = load(file("mixed.pt2"));
  EXPECT_EQ(to_text(diff(back, model)), "");
  reverse_all(back);
  reverse_all(model);
  EXPECT_EQ(to_text(diff(back, model)), "");
}

TEST_F(Pt2, DamageIsRefusedOrWithoutEffect) { expect_no_silent_damage("small.pt2"); }

TEST_F(Pt2, DamageOfAFileWithAHistoryIsRefusedOrWithoutEffect) {
  save(rewritten(), file("fast.pt2"));
  expect_no_silent_damage("fast.pt2");
}

TEST_F(Pt2, AModelMadeInMemoryCannotBeSaved) {
  const Model model = parse_filled(
      "graph():\n    %x : f32[2] [num_users=1] = placeholder[target=x]\n    return x\n");
  EXPECT_EQ(error_of([&] { save(model, file("no.pt2")); }),
            "only a model that was loaded from a .pt2 file can be saved as one; "
            "export it with torch.export.save and load that");
  EXPECT_FALSE(fs::exists(file("no.pt2")));
}

// ---- results of calls --------------------------------------------------------------------------

// What a call gives, by the targets of the file's calls.
std::multimap<std::string, std::string> results_in(const std::string& file) {
  std::multimap<std::string, std::string> results;
  const auto archive = Archive::open(file);
  Json program = Json::parse(std::string(archive->read(archive->at("models/model.json"))));
  for (Json& node : program["graph_module"]["graph"]["nodes"].items)
    results.emplace(node["target"].text,
                    node["outputs"].print() + " " + node["is_hop_single_tensor_return"].print());
  return results;
}

TEST_F(Pt2, ACallWithAnotherArgumentKeepsItsResults) {
  fs::copy_file(fs::path(std::getenv("REFX_MODELS")) / "results.pt2", file("results.pt2"));
  Model model = load(file("results.pt2"));
  {
    Editor editor(model);
    const NodeId x = editor.graph().find("x");
    Node copy{.name = "copy", .target = "aten.clone.default", .type = editor.graph()[x].type};
    copy.args = {x};
    const NodeId id = editor.insert_after(x, std::move(copy));
    editor.replace_uses(x, id);
    editor.set_arg(id, 0, x);
    // A result that nobody reads is still one.
    for (NodeId item : std::vector<NodeId>(editor.graph().begin(), editor.graph().end()))
      if (editor.graph()[item].target == "operator.getitem" && editor.graph().num_users(item) == 0)
        editor.erase_node(item);
    editor.commit({"copy", "copy", "x", {}});
  }
  save(model, file("copied.pt2"));
  auto results = results_in(file("copied.pt2"));
  EXPECT_EQ(results.erase("torch.ops.aten.clone.default"), 1u);
  EXPECT_EQ(results, results_in(file("results.pt2")));
  EXPECT_EQ(content(load(file("copied.pt2"))), content(model));
}

// The text of a call with these outputs.
std::string call_with(const std::string& outputs) {
  return fmt::format(
      R"({{"target": "f", "inputs": [{{"name": "x", "arg": {{"as_tensor": {{"name": "x"}}}}, )"
      R"("kind": 1}}, {{"name": "", "arg": {{"as_graph": {{"name": "g", "graph": )"
      R"({{"inputs": [{{"as_tensor": {{"name": "inner"}}}}]}}}}}}, "kind": 1}}], "outputs": [{}]}})",
      outputs);
}

std::string what_is_wrong(const std::string& op, const std::string& outputs) {
  const auto* schema = book::find_schema(book::parse_target(op));
  EXPECT_TRUE(schema) << op;
  try {
    GraphTextCheck().call(call_with(outputs), schema);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

TEST(ProgramText, OutputsAreThoseOfTheSchema) {
  const std::string y = R"({"as_tensor": {"name": "y"}})", z = R"({"as_tensor": {"name": "z"}})";
  const std::string list = R"({"as_tensors": [{"name": "y"}, {"name": "z"}]})";
  const std::string n = R"({"as_sym_int": {"as_name": "n"}})", none = R"({"as_none": true})";
  const std::string wrong = "a call of 'f' is written wrong: ";
  const std::string assertion = "aten._assert_tensor_metadata.default";
  EXPECT_EQ(what_is_wrong(assertion, ""), "");
  EXPECT_EQ(what_is_wrong(assertion, y), wrong + "it has 1 outputs, and its schema 0");
  EXPECT_EQ(what_is_wrong("aten.relu.default", y), "");
  EXPECT_EQ(what_is_wrong("aten.relu.default", ""), wrong + "it has 0 outputs, and its schema 1");
  EXPECT_EQ(what_is_wrong("aten.relu.default", n),
            wrong + "output 0 is written as 'as_sym_int', and its type is Tensor");
  EXPECT_EQ(what_is_wrong("aten.max.dim", y + ", " + z), "");
  EXPECT_EQ(what_is_wrong("aten.max.dim", y + ", " + none), "");
  EXPECT_EQ(what_is_wrong("aten.max.dim", list), wrong + "it has 1 outputs, and its schema 2");
  EXPECT_EQ(what_is_wrong("aten.max.dim", y + ", " + y),
            wrong + "its output 'y' is also one of 'f'");
  EXPECT_EQ(what_is_wrong("aten.split.Tensor", list), "");
  EXPECT_EQ(what_is_wrong("aten.split.Tensor", y),
            wrong + "output 0 is written as 'as_tensor', and its type is Tensor[]");
  EXPECT_EQ(what_is_wrong("aten.sym_size.int", n), "");
  EXPECT_EQ(what_is_wrong("aten.sym_size.int", y),
            wrong + "output 0 is written as 'as_tensor', and its type is SymInt");
}

TEST(ProgramText, ValuesThatATextNames) {
  GraphTextCheck check;
  check.call(call_with(R"({"as_tensors": [{"name": "y"}]}, {"as_sym_int": {"as_name": "n"}})"),
             nullptr);
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(Values(check.values().begin(), check.values().end()),
            (Values{{"n", "sym_int"}, {"x", "tensor"}, {"y", "tensor"}}));
}

}  // namespace
}  // namespace refx::testing
