// SPDX-License-Identifier: Apache-2.0
#pragma once

// pt2/: .pt2 files. A program from its JSON and back, and beside it the history, so that undoing
// everything gives the bytes of the first file.

#include <ATen/core/TensorBase.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "archive/writer.h"
#include "graph_json/graph_text.h"
#include "pt2/storages.h"
#include "refx/model.h"
#include "refx/source.h"

namespace refx {

// A file as it was before the first step: its records, and the texts that stand for each object of
// the origin, so that whatever is still the same is written as it was read.
class Pt2Source final : public Source, public GraphText {
 public:
  explicit Pt2Source(std::shared_ptr<const Archive> file)
      : archive(std::move(file)), storages(std::make_shared<Storages>(archive)) {}

  const std::string& path() const override { return archive->path(); }
  std::string_view input_spec() const override { return in_spec; }
  std::string_view output_spec() const override { return out_spec; }
  std::string_view sample_inputs() const override;
  const std::map<std::string, Range>& ranges() const override { return symbol_ranges; }
  const std::vector<std::string>& allowed_ops() const override { return allowed; }

  // The original's record of that name: text, checked; throws Error if it is missing.
  std::string_view text(std::string_view record) const;

  // The name that the record has in the archive, for error messages.
  std::string place_of(std::string_view record) const;

  struct OriginalRecord {
    Record record;
    Blob blob;                         // where its bytes are now …
    std::shared_ptr<Content> content;  // … or what makes them
  };
  const OriginalRecord* original(std::string_view name) const;
  c10::Storage storage_of_original(std::string_view name) const;

  std::shared_ptr<const Archive> archive;
  std::vector<OriginalRecord> records;  // in file order
  std::unordered_map<std::string, std::size_t> record_index;
  bool whole = false;                // the archive is the original itself
  const Record* skeleton = nullptr;  // the original's skeleton, in an archive with a history
  // Of the file that was first transformed, as the history noted it; empty in files of earlier
  // versions, and where the archive is that file.
  std::string noted_fingerprint;
  // Of the file that skeleton and records make: the same for the same bytes.
  std::string fingerprint_of_original() const;
  // Null if the original cannot be written byte for byte (its weights were trained since).
  std::optional<std::string> original_skeleton() const;
  std::shared_ptr<Storages> storages;
  // Files from which originals were attached.
  std::vector<std::shared_ptr<const Source>> bases;

  struct StateText {
    std::shared_ptr<const StateEntry> entry;
    std::string_view config;  // its entry in the weights or constants config
    std::string record;       // full name of the record
    bool opaque = false;      // a pickle, carried as it is
  };
  std::vector<StateText> state;  // by id

  std::string in_spec, out_spec;
  std::map<std::string, Range> symbol_ranges;
  std::vector<std::string> allowed;  // operators and namespaces
};

// The objects that a model had before its first step, by their ids: null where there was none. They
// are the model's; original_of() makes a model of them.
struct Origin {
  explicit Origin(const Model& model);

  std::vector<const Node*> nodes;
  std::vector<const StateEntry*> state;
};

// Whether the model is what the source's original holds, bit for bit; and whether it was.
bool is_original(const Model& model, const Pt2Source& source);
bool was_original(const Model& model, const Origin& origin, const Pt2Source& source);
// Whether the entry's values are still those of the file.
bool is_untouched(const StateEntry& entry);

constexpr std::string_view kModelRecord = "models/model.json";
constexpr std::string_view kWeights = "data/weights/";
constexpr std::string_view kConstants = "data/constants/";
constexpr std::string_view kTensorConstants = "data/constants/tensor_";
constexpr std::string_view kWeightsConfig = "data/weights/model_weights_config.json";
constexpr std::string_view kConstantsConfig = "data/constants/model_constants_config.json";
constexpr std::string_view kSampleInputs = "data/sample_inputs/model.pt";
constexpr std::string_view kSerializationId = ".data/serialization_id";

}  // namespace refx
