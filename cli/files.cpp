// SPDX-License-Identifier: Apache-2.0

#include "files.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>

#include "commands.h"
#include "output.h"
#include "refx/detach.h"
#include "refx/error.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

std::deque<Model> models;

}  // namespace

Model& open_model(const std::string& path, const LoadOptions& options) {
  return models.emplace_back(load(path, options));
}

void require_unchanged_files() {
  for (const Model& model : models) require_unchanged(*model.source());
}

void require_output(const char* command, const std::string& model, const std::string& output) {
  if (output.empty())
    throw Error(fmt::format("'{}' needs an output file: -o OUT.pt2 (-o {} replaces the model)",
                            command, shell_word(model)));
  const auto folder = std::filesystem::path(output).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw Error(fmt::format("cannot write '{}': there is no folder '{}'", output, folder.string()));
}

Model& load_to_run(const std::string& path, const Runs& options) {
  Model& model = open_model(path, {.allow_ops = options.allow_ops});
  if (!options.base.empty()) attach(model, options.base);
  return model;
}

std::vector<Inputs> take_inputs(Measure& measure, const Model& model,
                                const std::vector<std::string>& paths) {
  std::vector<Inputs> more;
  for (const std::string& path : paths) {
    Inputs inputs = inputs_for(model, path, measure.seed);
    if (measure.inputs.values.empty())
      measure.inputs = std::move(inputs);
    else
      more.push_back(std::move(inputs));
  }
  return more;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  return std::filesystem::equivalent(a, b, unknown) && !unknown;
}

void write(const Model& model, const std::string& path) {
  save(model, path);
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  note(unknown ? fmt::format("wrote {}", path)
               : fmt::format("wrote {} ({})", path, human_bytes(size)));
}

}  // namespace refx::cli
