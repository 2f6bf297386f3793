// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/measure.h"
#include "refx/model.h"
#include "refx/pt2.h"

namespace refx::cli {

// Loads a model, which lives as long as the program: to free all of it would only take time. Its
// file is remembered for:
Model& open_model(const std::string& path, const LoadOptions& options = {});
// Throws Error if one of the files was written into since.
void require_unchanged_files();

// Throws Error that shows the flag if a command that writes was not told where.
void require_output(const char* command, const std::string& model, const std::string& output);

// The model in a file that is going to be run.
struct Runs;
Model& load_to_run(const std::string& path, const Runs& options);

// The inputs in the first of these files, if any were named; else the library chooses. Returns
// those in the others.
std::vector<Inputs> take_inputs(Measure& measure, const Model& model,
                                const std::vector<std::string>& paths);

// Whether the two paths lead to one existing file.
bool same_file(const std::string& a, const std::string& b);

// Saves the model and says so.
void write(const Model& model, const std::string& path);

}  // namespace refx::cli
