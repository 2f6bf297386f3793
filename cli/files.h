// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/measure.h"
#include "refx/model.h"
#include "refx/pt2.h"

namespace refx::cli {

// Loads a model that is never freed, because that would only take time at the end. The file is
// remembered for require_unchanged_files().
Model& open_model(const std::string& path, const LoadOptions& options = {});
// Throws Error if one of the loaded files has been modified since it was opened.
void require_unchanged_files();

// Throws Error that shows the flag if a command needs an output file and none was given.
void require_output(const char* command, const std::string& model, const std::string& output);

struct Runs;
// Loads a model to run it: allows the operators and attaches the originals that the options name.
Model& load_to_run(const std::string& path, const Runs& options);

// Sets the inputs to those in the first of these files; without files, the library chooses inputs.
// Returns the inputs in the other files.
std::vector<Inputs> take_inputs(Measure& measure, const Model& model,
                                const std::vector<std::string>& paths);

// Whether both paths lead to the same existing file.
bool same_file(const std::string& a, const std::string& b);

// Saves the model and prints a message with its size.
void write(const Model& model, const std::string& path);

}  // namespace refx::cli
