// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace refx::cli {

// A description of the command line for completion.
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
  std::vector<std::string> words = {};  // the values of its argument, if these are fixed
};

// For "bash", "zsh" or "fish". Throws Error for another shell.
std::string completion_script(const std::string& shell, const std::vector<CommandInfo>& commands);

}  // namespace refx::cli
