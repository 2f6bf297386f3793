// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "pt2/history_file.h"
#include "pt2/history_json.h"
#include "pt2/history_tensors.h"
#include "pt2/read_steps.h"
#include "refx/hint.h"

namespace refx {

// The text of a history is not trusted: every index, name and size in it is checked here, or by the
// classes that this one uses, or by the Restorer, before it is used.
class HistoryReader::Impl {
 public:
  explicit Impl(Pt2Source& source)
      : source_(source), archive_(*source.archive), json_(archive_), tensors_(source, json_) {}

  template <class F>
  void read(F&& f) {
    json_.read(std::forward<F>(f));
  }

  // Another program may have changed the model and copied the history, which then describes another
  // program. The fingerprint detects that before anything else of the history is read.
  void check_fit() {
    const std::string now = program_fingerprint(archive_.read(archive_.at(kModelRecord)),
                                                archive_.read(archive_.at(kWeightsConfig)),
                                                archive_.read(archive_.at(kConstantsConfig)));
    if (get_in<std::string_view>(json_.root(), "fits") != now)
      throw HintedError(
          "another program has changed the model since refx wrote it, so its history does "
          "not belong to it any more",
          Hint::forget);
  }

  void records() {
    json_.list("records", [&](const dom::element& item) {
      Pt2Source::OriginalRecord original;
      original.record.name = text_in(item, "name");
      // The original is a file that refx has not written, so it has no such records. With one, a
      // full reversal would create a file that seems to have a history.
      if (original.record.name.starts_with("refx/"))
        throw Error(
            fmt::format("'{}' is a record of a history, not of an original", original.record.name));
      original.record.offset = find_in<std::uint64_t>(item, "offset").value_or(0);
      original.record.crc = narrow_to_32_bits(find_in<std::uint64_t>(item, "crc").value_or(0),
                                              "the checksum of a record");
      if (const auto name = find_in<std::string_view>(item, "record")) {
        const Record& record = archive_.at(*name);
        original.blob = {.memory = {}, .archive = source_.archive, .record = &record};
        original.record.size = record.size;
      } else {
        // Only tensors can be stored as a slice or be detached. All other records must be there.
        const std::string& of = original.record.name;
        if (!of.starts_with(kWeights) && !of.starts_with(kConstants))
          throw Error(fmt::format("'{}' is no tensor, and not kept as it was", of));
        const auto away = find_in<dom::element>(item, "detached");
        original.content = away ? tensors_.detached(*away)
                                : tensors_.slice(get_in<std::uint64_t>(item, "storage"));
        original.record.size = original.content->size();
      }
      source_.records.push_back(std::move(original));
    });
    source_.skeleton = archive_.find("refx/skeleton");
    source_.noted_fingerprint = find_in<std::string_view>(json_.root(), "original").value_or("");
  }

  void steps(Model& model) { refx::read_steps(json_, tensors_, source_, model); }

  std::optional<std::vector<StepLabel>> labels() {
    // With detached originals, the log also shows what is missing, which takes the whole history.
    if (json_.format() != 1) return std::nullopt;
    std::vector<StepLabel> labels;
    json_.list("steps", [&](const dom::element& item) {
      StepLabel label = read_step_label(item);
      if (!labels.empty() && label.id <= labels.back().id)
        throw Error(
            fmt::format("step {} stands after step {}", label.id.value, labels.back().id.value));
      labels.push_back(std::move(label));
    });
    return labels;
  }

 private:
  Pt2Source& source_;
  const Archive& archive_;
  HistoryJson json_;
  HistoryTensors tensors_;
};

HistoryReader::HistoryReader(Pt2Source& source) : impl_(std::make_unique<Impl>(source)) {}
HistoryReader::~HistoryReader() = default;

void HistoryReader::read_original_records() {
  impl_->read([&] {
    impl_->check_fit();
    impl_->records();
  });
}

std::optional<std::vector<StepLabel>> HistoryReader::read_labels() {
  std::optional<std::vector<StepLabel>> labels;
  impl_->read([&] {
    impl_->check_fit();
    labels = impl_->labels();
  });
  return labels;
}

void HistoryReader::read_steps(Model& model) {
  impl_->read([&] { impl_->steps(model); });
}

}  // namespace refx
