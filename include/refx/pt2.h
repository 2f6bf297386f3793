// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"
#include "refx/source.h"

namespace refx {

// Models in .pt2 files, with their histories.

struct LoadOptions {
  // Off: the model as the file shows it to PyTorch, without the steps that led there.
  bool history = true;
  // Operators ("aten.from_file") and namespaces ("mylib") that the model may call when it runs,
  // besides those that any file may; see Executor.
  std::vector<std::string> allow_ops = {};
};

// Reads what torch.export.save wrote, and what save() wrote, without running any pickle. Weights
// are mapped, not read: a file costs what its JSON costs. The contents of a weight are checked
// against the file's CRC when refx first uses them. Throws Error that names the record and the
// field.
REFX_API Model load(const std::string& path, const LoadOptions& options = {});

// What a history says of a step in one line.
struct StepLabel {
  StepId id;
  std::string transformation, site;
  Numerics numerics = Numerics::preserved;
};
// The steps of a file by its history alone, oldest first: neither the program nor what the steps
// did is read, nor are they checked against each other, as load() does. Nothing if the file has no
// history, or one of which detached originals are a part.
REFX_API std::optional<std::vector<StepLabel>> read_log(const std::string& path);

// Writes a file that torch.export.load accepts, with the history inside it. A model whose steps are
// all reversed gives the bytes of the file that was first transformed. The file appears whole or
// not at all; `path` may be the file that the model was loaded from.
REFX_API void save(const Model& model, const std::string& path);

// True if the model equals, bit for bit, the file that was first transformed; save() then writes
// the bytes of that file.
REFX_API bool is_original(const Model& model);

// True if these bytes were also compared with that file: the history has its fingerprint, and what
// save() writes has the same one. Histories of early versions have no fingerprint.
REFX_API bool is_proven_original(const Model& model);

// Throws Error if the file was written into since it was loaded: it is mapped, so that results may
// be of neither form. load() and save() look themselves; ask after running a model. A file that was
// replaced or removed stays as it was for those who have it open.
REFX_API void require_unchanged(const Source& source);

// Checks the contents of every tensor of a loaded model now, but for those that were detached.
// Throws Error that names the record.
REFX_API void check_contents(const Model& model);

}  // namespace refx
