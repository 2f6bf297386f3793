// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace refx::cli {

// What completion has to know of the command line.
enum class Takes { nothing, text, model, tensors, transformation, step };

struct OptionInfo {
  std::vector<std::string> names;  // with their dashes
  std::string summary;
  Takes takes = Takes::nothing;
};
struct CommandInfo {
  std::string name, summary;
  std::vector<OptionInfo> options;
  std::vector<Takes> arguments;         // in order; the last one may be repeated
  std::vector<std::string> words = {};  // what its argument may be, where that is a fixed choice
};

// For "bash", "zsh" or "fish". Throws Error with the nearest name for another shell.
std::string completion_script(const std::string& shell, const std::vector<CommandInfo>& commands);

}  // namespace refx::cli
