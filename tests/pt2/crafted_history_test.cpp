// SPDX-License-Identifier: Apache-2.0

// Histories that nobody but an attacker writes: each is an Error that says what is wrong with it,
// or a history like any other, which can be reversed and saved.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "archive/archive.h"
#include "archive/files.h"
#include "json_tree.h"
#include "kit.h"
#include "mutate_json.h"
#include "refx/detach.h"
#include "refx/original.h"
#include "refx/pt2.h"

namespace refx::testing {
namespace {

constexpr std::string_view kRecord = "refx/history.json";
const std::string kFile = "tests/data/pt2/encoder.all.pt2";

// Copies of a file with another history.
class Copies {
 public:
  explicit Copies(const std::string& file = kFile)
      : root_(Archive::open(file)->root()), contents_(read_all(file)) {}

  Json history() const {
    for (const auto& [name, text] : contents_)
      if (name == kRecord) return Json::parse(text);
    throw std::logic_error("no history");
  }

  std::string with(const Json& history) {
    for (auto& [name, text] : contents_)
      if (name == kRecord) text = history.print();
    write_with_refx(folder_ / "crafted.pt2", root_, contents_);
    return folder_ / "crafted.pt2";
  }

  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
  std::string root_;
  Contents contents_;
};

// What loading says of the history after a change.
std::string refusal(const std::function<void(Json&)>& change) {
  Copies copies;
  Json history = copies.history();
  change(history);
  const std::string path = copies.with(history);
  const std::string what = error_of([&] { load(path); });
  EXPECT_TRUE(what.starts_with(path + ": record 'refx/history.json'")) << what;
  return what;
}

void expect_refusal(const std::function<void(Json&)>& change, std::string_view why) {
  const std::string what = refusal(change);
  EXPECT_NE(what.find(why), what.npos) << what;
}

// In the file: step 1 merges three linears, and makes of them the tensor of its first edit.
Json& edit(Json& history, std::size_t step, std::size_t number) {
  return history["steps"][step]["edits"][number];
}

TEST(CraftedHistory, WhatIsNotChangedLoads) {
  Copies copies;
  EXPECT_EQ(load(copies.with(copies.history())).history().size(), 5u);
}

TEST(CraftedHistory, TheOriginalHasNoHistory) {
  for (const char* name : {"refx/history.json", "refx/original/models/model.json", "refx/x"})
    expect_refusal(
        [&](Json& h) {
          h["records"].items.push_back(h["records"][0]);
          h["records"].items.back()["name"].text = name;
        },
        std::string("'") + name + "' is a record of a history, not of an original");
}

TEST(CraftedHistory, TheNextStepComesAfterAllOthers) {
  for (const char* next : {"0", "5", "4294967295", "99999999999"})
    expect_refusal([&](Json& h) { h["next_step"].text = next; }, next);
}

TEST(CraftedHistory, IdsOfStepsGrow) {
  for (const char* id : {"1", "0", "2"})
    expect_refusal([&](Json& h) { h["steps"][1]["id"].text = h["steps"][2]["id"].text = id; },
                   "step");
  expect_refusal([](Json& h) { h["steps"][4]["id"].text = "4294967295"; }, "a step has the number");
  expect_refusal([](Json& h) { h["steps"][4]["id"].text = "4294967301"; }, "the number of a step");
}

TEST(CraftedHistory, AnEditChangesSomething) {
  expect_refusal(
      [](Json& h) {  // of what step 1 erased
        Json& edits = h["steps"][1]["edits"];
        edits.items.push_back(h["steps"][0]["edits"].items.back());
      },
      "never was there");
}

TEST(CraftedHistory, AStepEditsAnObjectOnce) {
  expect_refusal([](Json& h) { h["steps"][0]["edits"].items.push_back(edit(h, 0, 0)); },
                 "step 1 has two edits of one object");
}

TEST(CraftedHistory, NothingChangesItsName) {
  for (const std::size_t number : {0, 1})
    expect_refusal([&](Json& h) { edit(h, 0, number)["value"]["name"].text = "other"; },
                   "changes its name");
}

TEST(CraftedHistory, PiecesAndMadeTensorsAreTheStepsOwn) {
  auto other = [](Json& h) { return Json::quoted(h["steps"][4]["made"][0]["state"].text); };
  expect_refusal([&](Json& h) { h["steps"][0]["made"][0]["state"] = other(h); }, "made");
  expect_refusal([&](Json& h) { h["steps"][0]["made"].items.clear(); }, "made");
  expect_refusal([&](Json& h) { h["steps"][0]["pieces"][0]["whole"] = other(h); }, "pieces");
  expect_refusal([&](Json& h) { h["steps"][0]["pieces"][0]["part"] = other(h); }, "piece");
  for (const char* field : {"dim", "start", "length"})
    for (const char* number : {"-1", "100", "9223372036854775807"})
      expect_refusal([&](Json& h) { h["steps"][0]["pieces"][0][field].text = number; },
                     "is not inside it");
}

TEST(CraftedHistory, NodesOfAStepAreTheStepsOwn) {
  expect_refusal([](Json& h) { h["steps"][0]["nodes"].items.push_back(Json::quoted("output")); },
                 "did not write");
  expect_refusal(
      [](Json& h) { h["steps"][0]["parameters"]["of"] = edit(h, 0, 4)["value"]["args"]; },
      "has a node of the graph as its parameter");
}

TEST(CraftedHistory, EveryStepLeadsToAModel) {
  expect_refusal([](Json& h) { h["steps"].items.erase(h["steps"].items.begin()); }, "step");
  expect_refusal([](Json& h) { edit(h, 0, 4)["value"]["args"][0]["node"].text = "linear"; },
                 "before it is defined");
  expect_refusal([](Json& h) { edit(h, 0, 1)["value"]["state"].text = "nowhere"; }, "nowhere");
  expect_refusal([](Json& h) { edit(h, 0, 1)["value"]["type"]["sizes"][0].text = "17"; }, "sizes");
}

TEST(CraftedHistory, HasOnlyWhatAProgramCanHave) {
  for (const char* op : {"call_method", "call_module", "get_attr", "no_op", ""})
    expect_refusal([&](Json& h) { edit(h, 0, 4)["value"]["op"].text = op; }, "unknown opcode");
  expect_refusal([](Json& h) { edit(h, 0, 0)["value"]["kind"].text = "weight"; },
                 "unknown kind of tensor 'weight'");
  for (const char* op : {"placeholder", "output"})
    expect_refusal([&](Json& h) { edit(h, 0, 4)["value"]["op"].text = op; }, "input or the output");
  for (const char* number : {"-1", "12", "200", "9999"}) {
    expect_refusal([&](Json& h) { edit(h, 0, 4)["value"]["type"]["dtype"].text = number; },
                   "unknown dtype");
    expect_refusal([&](Json& h) { edit(h, 0, 4)["value"]["type"]["layout"].text = number; },
                   "unknown layout");
    for (const char* tag : {"dtype", "layout", "memory_format"})
      expect_refusal(
          [&](Json& h) {
            edit(h, 0, 4)["value"]["kwargs"]["k"] =
                Json::parse(R"({")" + std::string(tag) + R"(": )" + number + "}");
          },
          "unknown ");
  }
  expect_refusal([](Json& h) { edit(h, 0, 4)["value"]["type"]["device"].text = "abc"; },
                 "unknown device 'abc'");
}

TEST(CraftedHistory, SizesAreThoseOfATensor) {
  auto type = [](Json& h) -> Json& { return edit(h, 0, 4)["value"]["type"]; };
  expect_refusal([&](Json& h) { type(h)["sizes"][1].text = "-3"; }, "'sizes'");
  expect_refusal([&](Json& h) { type(h)["sizes"].items.resize(65, Json::scalar("1")); }, "'sizes'");
  expect_refusal([&](Json& h) { type(h)["strides"].items.push_back(Json::scalar("1")); },
                 "strides");
  auto meta = [](Json& h) -> Json& { return h["tensors"][0]["meta"]; };
  expect_refusal([&](Json& h) { meta(h)["layout"].text = "1"; }, "tensor");
  expect_refusal(
      [&](Json& h) {  // 32 TB, of one element
        for (Json& stride : meta(h)["strides"].items) stride["as_int"].text = "0";
        meta(h)["sizes"][0]["as_int"].text = meta(h)["sizes"][1]["as_int"].text = "3000000";
      },
      "");
}

TEST(CraftedHistory, WhatItPointsToIsThere) {
  expect_refusal([](Json& h) { edit(h, 0, 0)["value"]["tensor"].text = "99"; }, "tensors[99]");
  expect_refusal([](Json& h) { h["tensors"][0]["storage"].text = "99"; }, "storages[99]");
  expect_refusal(
      [](Json& h) {
        edit(h, 0, 0)["value"]["tensor"].text = std::to_string(h["tensors"].items.size());
        h["tensors"].items.push_back(h["tensors"][0]);
        h["tensors"].items.back()["storage"].text = std::to_string(h["storages"].items.size());
        h["storages"].items.push_back(Json::parse(R"({"original": "x"})"));
      },
      "there was no record 'x' in the original");
  expect_refusal([](Json& h) { h["storages"][0] = Json::parse(R"({"record": "x"})"); }, "'x'");
  expect_refusal([](Json& h) { h["places"]["nodes"][0][1] = Json::scalar("null"); },
                 "after the output");
}

TEST(CraftedHistory, AFieldIsThereOnceAndOfItsKind) {
  expect_refusal([](Json& h) { h["steps"][0].erase("site"); }, "steps[0]: 'site' is missing");
  expect_refusal([](Json& h) { h["steps"][0]["edits"][2].erase("value"); },
                 "steps[0].edits[2]: 'value' is missing");
  expect_refusal([](Json& h) { h["steps"][0]["site"] = Json::scalar("1"); },
                 "steps[0]: 'site' is not a string");
  expect_refusal([](Json& h) { h["steps"][0]["nodes"] = Json::quoted("n"); },
                 "'nodes' is not a list");
  expect_refusal([](Json& h) { edit(h, 0, 4)["value"]["marks"] = Json::scalar("1"); }, "'marks'");
  expect_refusal([](Json& h) { h.fields.push_back(h.fields.back()); }, "appears twice");
  expect_refusal([](Json& h) { edit(h, 0, 4)["value"]["args"].items.push_back(Json::nest(200)); },
                 "nested too deeply");
  expect_refusal([](Json& h) { h["steps"][0]["made"][0]["hash"].text[3] = 'x'; }, "is not a hash");
}

// ---- random ones ------------------------------------------------------------------------------

// Everything that one does with a history. An Error is an answer, except that a history that was
// accepted goes back to its beginning.
void use(const Model& model, const Folder& folder) {
  EXPECT_TRUE(problems(model).empty());
  EXPECT_TRUE(problems(original_of(model)).empty());
  auto try_to = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const Error&) {
    }
  };
  print(model);
  for (StepId id : model.history().ids())
    for (Dependents dependents : {Dependents::reapply, Dependents::cascade})
      try_to([&] {
        Model copy = model;
        reverse(copy, id, {.dependents = dependents});
        EXPECT_TRUE(problems(copy).empty());
        save(copy, folder / "reversed.pt2");
        redo(copy);
      });
  try_to([&] {
    Model copy = model;
    reverse_all(copy);
    save(copy, folder / "back.pt2");
  });
  try_to([&] {
    Model copy = model;
    attach(copy, "tests/data/pt2/convolutions.pt2");
    reverse_all(copy);
    save(copy, folder / "back.pt2");
  });
  try_to([&] {
    Model copy = model;
    detach(copy);
    save(copy, folder / "slim.pt2");
    load(folder / "slim.pt2");
  });
  try_to([&] { check_contents(model); });
  try_to([&] {
    save(model, folder / "saved.pt2");
    load(folder / "saved.pt2");
  });
}

void expect_log(const std::vector<StepLabel>& log, const Model& model) {
  ASSERT_EQ(log.size(), model.history().size());
  auto step = model.history().begin();
  for (const StepLabel& label : log) {
    EXPECT_EQ(label.id, step->id);
    EXPECT_EQ(label.transformation, step->transformation);
    EXPECT_EQ(label.site, step->site);
    EXPECT_EQ(label.numerics, step->numerics);
    ++step;
  }
}

TEST(CraftedHistory, TheLogIsReadWithoutTheStepsThatItNames) {
  Copies copies;
  const Json whole = copies.history();
  {
    const std::string path = copies.with(whole);
    const auto log = read_log(path);
    ASSERT_TRUE(log);
    expect_log(*log, load(path));
  }
  Json history = whole;
  for (const char* value : {"true", "false", "\"tanh\""}) {
    history["steps"][3]["parameters"]["approximate"] = Json::scalar(value);
    const std::string path = copies.with(history);
    const auto log = read_log(path);
    ASSERT_TRUE(log);
    const bool is_marked = std::string_view(value) == "true";
    EXPECT_EQ((*log)[3].numerics, is_marked ? Numerics::approximate : Numerics::preserved);
    expect_log(*log, load(path));
  }
  // The member of today decides, whatever the parameter says.
  for (const char* parameter : {"true", "false"})
    for (const Numerics numerics : {Numerics::preserved, Numerics::approximate}) {
      history["steps"][3]["parameters"]["approximate"] = Json::scalar(parameter);
      history["steps"][3]["numerics"] = Json::scalar(fmt::format("\"{}\"", to_string(numerics)));
      const std::string path = copies.with(history);
      const auto log = read_log(path);
      ASSERT_TRUE(log);
      EXPECT_EQ((*log)[3].numerics, numerics);
      const Model model = load(path);
      expect_log(*log, model);
      const std::string again = path + ".again.pt2";
      save(model, again);
      expect_log(read_log(again).value(), model);
    }
  history["steps"][3]["numerics"] = Json::scalar("\"rough\"");
  EXPECT_NE(error_of([&] { read_log(copies.with(history)); }).find("unknown numerics 'rough'"),
            std::string::npos);
  history = whole;
  history["steps"][3]["edits"] = Json::scalar("7");
  std::string path = copies.with(history);
  EXPECT_EQ(read_log(path).value().size(), 5u);
  EXPECT_NE(error_of([&] { load(path); }).find("steps[3].edits"), std::string::npos);
  for (const char* field : {"id", "transformation", "site"}) {
    history = whole;
    history["steps"][3][field] = Json::scalar("true");
    path = copies.with(history);
    const std::string what = error_of([&] { read_log(path); });
    EXPECT_TRUE(what.starts_with(path + ": record 'refx/history.json', steps[3]: '" + field))
        << what;
  }
  history = whole;
  history["steps"][3]["id"] = history["steps"][2]["id"];
  EXPECT_NE(error_of([&] { read_log(copies.with(history)); }).find("stands after"),
            std::string::npos);
  history = whole;
  history["fits"] = Json::quoted("0123456789abcdef");
  EXPECT_NE(error_of([&] { read_log(copies.with(history)); }).find("another program"),
            std::string::npos);
}

TEST(CraftedHistory, ALogThatNeedsTheModelIsLeftToIt) {
  EXPECT_FALSE(read_log("tests/data/pt2/encoder.pt2"));
  EXPECT_FALSE(read_log("tests/data/pt2/convolutions.slim.pt2"));
}

TEST(CraftedHistory, AnyIsAnErrorOrAHistory) {
  const char* asked = std::getenv("REFX_FUZZ_CASES");
  const int cases = asked ? std::atoi(asked) : 30;
  const char* from = std::getenv("REFX_FUZZ_SEED");
  int accepted = 0;
  for (const char* name :
       {"encoder.all", "encoder.sittings", "convolutions.all", "convolutions.slim", "tied.all",
        "encoder-trained.merged", "bfloat16.all"}) {
    Copies copies("tests/data/pt2/" + std::string(name) + ".pt2");
    const Json whole = copies.history();
    for (int seed = from ? std::atoi(from) : 0, end = seed + cases; seed < end; ++seed) {
      Json history = whole;
      std::minstd_rand random(static_cast<unsigned>(seed) + 1);
      for (int i = 0; i <= seed % 3; ++i) mutate(history, random);
      const std::string path = copies.with(history);
      std::optional<std::vector<StepLabel>> log;
      const std::string log_error = error_of([&] { log = read_log(path); });
      try {
        const Model model = load(path);
        ++accepted;
        EXPECT_EQ(log_error, "no error");
        if (log) expect_log(*log, model);
        use(model, copies.folder());
      } catch (const Error& error) {
        EXPECT_GT(std::string_view(error.what()).size(), 20u);
      } catch (const std::exception& error) {
        ADD_FAILURE() << name << ", REFX_FUZZ_SEED=" << seed << ": " << error.what();
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace refx::testing
