// SPDX-License-Identifier: Apache-2.0

// .pt2 files with and without a history: everything that refx does without running the model. An
// input is a whole file, so that the program can be run on it, too.

#include <fmt/format.h>
#include <simdjson.h>

#include "archive/archive.h"
#include "mutate_json.h"
#include "pt2/history_file.h"
#include "pt2/read_file.h"
#include "pt2/source.h"
#include "python_json.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/pt2.h"
#include "refx/registry.h"
#include "refx/text.h"
#include "refx/validate.h"
#include "scratch.h"
#include "target.h"

namespace refx::fuzz {

namespace {

using testing::Contents;
using testing::Json;

void expect_sound(const Model& model, const std::string& after) {
  if (const auto found = problems(model); !found.empty()) fault(after + ": " + found.front());
}

// Any operation may throw an Error; then it changed nothing.
template <class F>
void attempt(const Model& model, const std::string& what, F&& f) {
  Model copy = model;
  const std::string before = print(copy);
  try {
    f(copy);
  } catch (const Error&) {
    REFX_EXPECT(print(copy) == before, what + ": failed, and changed the model");
    return;
  }
  expect_sound(copy, what);
}

void reverse_each(const Model& model) {
  for (const StepId id : model.history().ids())
    for (const Dependents policy : {Dependents::reapply, Dependents::cascade})
      attempt(model, fmt::format("reverse {}", id.value), [&](Model& copy) {
        reverse(copy, id, {.dependents = policy, .discard_changes = true});
        redo(copy);
      });
  attempt(model, "reverse all", [](Model& copy) {
    reverse_all(copy, {.dependents = Dependents::reapply, .discard_changes = true});
  });
}

void rewrite(const Model& model) {
  for (const auto& transformation : registry())
    attempt(model, transformation->name(), [&](Model& copy) {
      const std::string before = print(copy);
      const Outcome outcome = (*transformation)(copy);
      if (outcome.steps.empty()) return;
      expect_sound(copy, transformation->name());
      reverse(copy, outcome.steps);
      REFX_EXPECT(print(copy) == before, transformation->name() + " is not reversed");
    });
}

std::string* find(Contents& contents, std::string_view name) {
  for (auto& [each, content] : contents)
    if (each == name) return &content;
  return nullptr;
}

std::string mutated(const std::string& text, std::minstd_rand& random, MutateBytes mutate_bytes) {
  try {
    Json json = Json::parse(text);
    for (unsigned n = 1 + random() / 7 % 3; n > 0; --n) testing::mutate(json, random, mutate_bytes);
    return json.print();
  } catch (const simdjson::simdjson_error&) {  // it was no JSON before
    return mutate_bytes(text);
  }
}

// A history names the program that it belongs to.
void make_fit(Contents& contents) {
  std::string *history = find(contents, kHistory), *model = find(contents, kModelRecord),
              *weights = find(contents, kWeightsConfig),
              *constants = find(contents, kConstantsConfig);
  if (!history || !model || !weights || !constants) return;
  try {
    Json json = Json::parse(*history);
    if (json.kind != Json::Kind::object) return;
    json["fits"] = Json::quoted(program_fingerprint(*model, *weights, *constants));
    *history = json.print();
  } catch (const simdjson::simdjson_error&) {
  }
}

// The program as PyTorch must read it, or else the history is rejected.
void show_steps(Contents& contents, const std::string& path) {
  const auto source = std::make_shared<Pt2Source>(Archive::open(path));
  const Model model = read_file(source, true);
  const Image image(model, *source);
  Contents shown;
  for (const Image::Item& item : image.items())
    shown.emplace_back(item.name, item.blob.record ? item.blob.archive->read(*item.blob.record)
                                                   : item.blob.memory);
  for (auto& [name, content] : contents)
    if (name.starts_with("refx/")) shown.emplace_back(name, std::move(content));
  contents = std::move(shown);
}

// The bytes of the file with some of its JSON changed, and every checksum right.
std::string mutate_records(std::string_view bytes, const std::vector<std::string_view>& records,
                           std::minstd_rand& random, MutateBytes mutate_bytes) {
  try {
    const auto archive = Archive::open(put("before.pt2", bytes));
    Contents contents = testing::read_all(archive->path());
    std::erase_if(contents, [](const auto& item) { return item.first == kSerializationId; });
    std::string* text = find(contents, records[random() / 7 % records.size()]);
    if (!text) return {};
    *text = random() % 20 == 0 ? mutate_bytes(*text) : mutated(*text, random, mutate_bytes);
    make_fit(contents);
    const std::string path = scratch() / "after.pt2";
    testing::write_with_refx(path, archive->root(), contents);
    if (find(contents, kHistory)) try {
        show_steps(contents, path);
        make_fit(contents);
        testing::write_with_refx(path, archive->root(), contents);
      } catch (const Error&) {  // then it is refused earlier
      }
    return read_file(path);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void run_file(std::string_view bytes) {
  const std::string path = put("in.pt2", bytes);
  const Model model = load(path);
  const auto archive = Archive::open(path);
  for (const std::string_view name : {kModelRecord, kWeightsConfig, kConstantsConfig})
    compare_with_python(archive->read(archive->at(name)));
  print(model);
  original_of(model);
  is_original(model);
  if (model.history().size() < 20) reverse_each(model);
  rewrite(model);
  const std::string saved = scratch() / "saved.pt2";
  save(model, saved);
  REFX_EXPECT(print(load(saved)) == print(model), "a saved model is loaded as another one");
}

std::string mutate_program(std::string_view bytes, std::minstd_rand& random, MutateBytes mutate) {
  return mutate_records(
      bytes, {kModelRecord, kModelRecord, kModelRecord, kWeightsConfig, kConstantsConfig}, random,
      mutate);
}

std::string mutate_history(std::string_view bytes, std::minstd_rand& random, MutateBytes mutate) {
  return mutate_records(bytes, {kHistory}, random, mutate);
}

}  // namespace refx::fuzz
