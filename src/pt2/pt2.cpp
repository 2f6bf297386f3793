// SPDX-License-Identifier: Apache-2.0

#include "refx/pt2.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ir/detached.h"
#include "pt2/check_program.h"
#include "pt2/history_file.h"
#include "pt2/read_file.h"
#include "pt2/read_program.h"
#include "refx/hint.h"
#include "refx/validate.h"

namespace refx {

namespace {

// The archive's own records; those of a history are not part of the model.
void take_records(Pt2Source& source) {
  for (const Record& record : source.archive->records())
    if (!record.name.starts_with("refx/"))
      source.records.push_back(
          {record, {.memory = {}, .archive = source.archive, .record = &record}, nullptr});
}

void index_records(Pt2Source& source) {
  for (std::size_t i = 0; i < source.records.size(); ++i)
    if (!source.record_index.emplace(source.records[i].record.name, i).second)
      throw Error(fmt::format("{}: record '{}' appears twice", source.path(),
                              source.records[i].record.name));
}

void check_kind(const Archive& archive) {
  auto expect = [&](std::string_view name, std::string_view value) {
    const std::string_view found = archive.read(archive.at(name));
    if (found != value)
      throw Error(fmt::format("{}: record '{}' says '{}', and refx reads '{}' only", archive.path(),
                              name, found.substr(0, 20), value));
  };
  if (archive.find("byteorder")) expect("byteorder", "little");
  expect("archive_format", "pt2");
  expect("archive_version", "0");
  for (const std::string_view name : {"data/weights/model.pt", "data/constants/model.pt"})
    if (archive.find(name))
      throw Error(
          fmt::format("{}: record '{}' is of an older format, and PyTorch takes it instead of what "
                      "refx reads; load and save the file with torch.export",
                      archive.path(), name));
  if (archive.find(kModelRecord)) return;
  if (std::any_of(archive.records().begin(), archive.records().end(), [](const Record& record) {
        return record.name.starts_with("data/aotinductor/");
      }))
    throw Error(fmt::format(
        "{}: this is an AOTInductor package, which has compiled code instead of a graph; rewrite "
        "the program that it was compiled from, as torch.export.save wrote it, and compile the "
        "result: torch._inductor.aoti_compile_and_package(torch.export.load(FILE))",
        archive.path()));
  std::vector<std::string> models;
  for (const Record& record : archive.records())
    if (record.name.starts_with("models/")) models.push_back(record.name);
  throw Error(fmt::format("{}: there is no record '{}'{}; refx needs a file from torch.export.save",
                          archive.path(), kModelRecord,
                          models.empty() ? "" : fmt::format(" (but {})", fmt::join(models, ", "))));
}

const Pt2Source& source_of(const Model& model) {
  const auto* source = dynamic_cast<const Pt2Source*>(model.source().get());
  if (!source)
    throw Error(
        "only a model that was loaded from a .pt2 file can be saved as one; "
        "export it with torch.export.save and load that");
  return *source;
}

void write(const Image& image, const Pt2Source& source, const std::string& path) {
  ArchiveWriter writer(path, source.archive->root());
  for (const Image::Item& item : image.items()) writer.add(item.name, item.blob);
  require_unchanged(source);
  writer.finish();
}

void write_original(const Pt2Source& source, std::string_view skeleton, const std::string& path) {
  if (!source.noted_fingerprint.empty() &&
      source.noted_fingerprint != source.fingerprint_of_original())
    throw HintedError(
        fmt::format("{}: what its history keeps of the original is not the file that was first "
                    "transformed",
                    source.path()),
        Hint::forget);
  std::vector<Record> records;
  std::vector<Blob> blobs;
  for (const auto& original : source.records) {
    records.push_back(original.record);
    if (!original.content) {
      blobs.push_back(original.blob);
      continue;
    }
    original.content->require();
    const auto* data = static_cast<const char*>(original.content->data());
    blobs.push_back({.memory = {data, original.content->size()}, .archive = nullptr});
  }
  write_from_skeleton(path, skeleton, records, blobs);
}

}  // namespace

Model read_file(const std::shared_ptr<Pt2Source>& source, bool history) {
  const std::string& path = source->path();
  const auto& records = source->archive->records();
  source->whole = std::none_of(records.begin(), records.end(), [](const Record& record) {
    return record.name.starts_with("refx/");
  });
  history = history && !source->whole;
  if (history && !source->archive->find(kHistory))
    throw HintedError(
        fmt::format("{}: there are records of a history, but no '{}'", path, kHistory),
        Hint::forget);
  std::optional<HistoryReader> reader;
  if (history)
    reader.emplace(*source).read_original_records();
  else
    take_records(*source);
  index_records(*source);

  Model model;
  {
    Editor editor(model);
    std::vector<std::string> kept_modules = read_program(*source, editor);
    editor.commit_as_origin(source, source->mutations, std::move(kept_modules));
  }
  if (const auto found = problems(model); !found.empty())
    throw Error(fmt::format("{}: record '{}': {}", path, kModelRecord, found.front()));
  if (!history) return model;
  reader->read_steps(model);
  if (const auto found = problems(model); !found.empty())
    throw Error(fmt::format("{}: record '{}': {}", path, kHistory, found.front()));
  return model;
}

Model load(const std::string& path, const LoadOptions& options) {
  auto source = std::make_shared<Pt2Source>(Archive::open(path));
  source->allowed = options.allow_ops;
  check_kind(*source->archive);
  Model model = read_file(source, options.history);
  if (options.history && !source->whole) check_program_matches_history(*source, model);
  require_unchanged(*source);
  return model;
}

std::optional<std::vector<StepLabel>> read_log(const std::string& path) {
  Pt2Source source(Archive::open(path));
  check_kind(*source.archive);
  if (!source.archive->find(kHistory)) return std::nullopt;
  auto labels = HistoryReader(source).read_labels();
  require_unchanged(source);
  return labels;
}

void require_unchanged(const Source& source) {
  const auto* file = dynamic_cast<const Pt2Source*>(&source);
  if (!file) return;
  file->archive->require_unchanged();
  for (const auto& base : file->bases) require_unchanged(*base);
}

void save(const Model& model, const std::string& path) {
  const Pt2Source& source = source_of(model);
  require_unchanged(source);
  if (is_original(model, source))
    if (const auto skeleton = source.original_skeleton())
      return write_original(source, *skeleton, path);
  for (StateId id : model.state())
    if (detached_in(model.state().tensor(id))) require_content(model.state().tensor(id));
  Image image(model, source);
  if (!model.history().empty()) add_history(image, model, source);
  write(image, source, path);
}

void check_contents(const Model& model) {
  for (StateId id : model.state()) require_content(model.state().tensor(id));
  for (const Step& step : model.history())
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
        if (!detached_in(change->before->tensor)) require_content(change->before->tensor);
}

}  // namespace refx
