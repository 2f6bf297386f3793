#pragma once

#include <string>

#include "refx/model.h"

namespace refx::cli {

// Throws Error that shows the flag if a command that writes was not told where.
void require_output(const char* command, const std::string& model, const std::string& output);

// Whether the two paths lead to one existing file.
bool same_file(const std::string& a, const std::string& b);

// Saves the model and says so.
void write(const Model& model, const std::string& path);

}  // namespace refx::cli
