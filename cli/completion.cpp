// SPDX-License-Identifier: Apache-2.0

#include "completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "refx/error.h"
#include "refx/registry.h"
#include "util/did_you_mean.h"

namespace refx::cli {

namespace {

using Words = std::vector<std::string>;

// A step is completed by the name of its transformation, because the file has not been read.
Words transformations(Takes takes) {
  Words names;
  for (const auto& transformation : registry()) names.push_back(transformation->name());
  if (takes == Takes::transformation) names.emplace_back(kAll);
  return names;
}

Words option_names(const CommandInfo& command) {
  Words names;
  for (const OptionInfo& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

Takes takes_at(const CommandInfo& command, std::size_t position) {
  if (command.arguments.empty()) return Takes::nothing;
  return command.arguments[std::min(position, command.arguments.size() - 1)];
}

std::string replaced(std::string_view text, std::string_view characters, std::string_view escape) {
  std::string out;
  for (char c : text) {
    if (characters.find(c) != characters.npos) out += escape;
    out += c;
  }
  return out;
}

// ---- bash --------------------------------------------------------------------------------------

std::string bash_values(Takes takes, const CommandInfo& command) {
  if (!command.words.empty()) return fmt::format("_refx_words '{}'", fmt::join(command.words, " "));
  switch (takes) {
    case Takes::model:
      return "_refx_files pt2";
    case Takes::tensors:
      return "_refx_files pt";
    case Takes::transformation:
    case Takes::step:
      return fmt::format("_refx_words '{}'", fmt::join(transformations(takes), " "));
    default:
      return ":";
  }
}

std::string bash_command(const CommandInfo& command) {
  std::string out = fmt::format("    {})\n", command.name), values;
  for (const OptionInfo& option : command.options)
    if (option.takes != Takes::nothing)
      values += fmt::format("        {}) {}; return ;;\n", fmt::join(option.names, "|"),
                            bash_values(option.takes, {}));
  if (!values.empty()) out += "      case $prev in\n" + values + "      esac\n";
  out += fmt::format(
      "      case $cur in\n"
      "        -*) _refx_words '{}' ;;\n",
      fmt::join(option_names(command), " "));
  const std::string first = bash_values(takes_at(command, 0), command);
  const std::string others = bash_values(takes_at(command, 1), command);
  if (first == others)
    out += fmt::format("        *) {} ;;\n", first);
  else
    out +=
        fmt::format("        *) if ((COMP_CWORD == 2)); then {}; else {}; fi ;;\n", first, others);
  return out + "      esac ;;\n";
}

std::string bash(const std::vector<CommandInfo>& commands) {
  Words names;
  for (const CommandInfo& command : commands) names.push_back(command.name);
  std::string out = R"(# bash completion for refx: source it, or save it as
# ~/.local/share/bash-completion/completions/refx
_refx_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_refx_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -X "!*.$1" -- "$cur"; compgen -d -- "$cur"))
}
_refx() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
)";
  out += fmt::format(
      "  if ((COMP_CWORD == 1)); then\n    _refx_words '{} --help --version'\n    return\n  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      fmt::join(names, " "));
  for (const CommandInfo& command : commands) out += bash_command(command);
  return out + "  esac\n}\ncomplete -F _refx refx\n";
}

// ---- zsh ---------------------------------------------------------------------------------------

std::string zsh_quoted(const std::string& text) {
  std::string out;
  for (char c : replaced(text, "[]:\\", "\\"))
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

std::string zsh_values(Takes takes, const CommandInfo& command) {
  if (!command.words.empty()) return fmt::format("word:({})", fmt::join(command.words, " "));
  switch (takes) {
    case Takes::model:
      return "model:_files -g \"*.pt2(-.)\"";
    case Takes::tensors:
      return "file:_files -g \"*.pt(-.)\"";
    case Takes::transformation:
    case Takes::step:
      return fmt::format("transformation:({})", fmt::join(transformations(takes), " "));
    default:
      return "text: ";
  }
}

std::string zsh_command(const CommandInfo& command) {
  std::string out = fmt::format("    {})\n      _arguments", command.name);
  for (const OptionInfo& option : command.options)
    for (const std::string& name : option.names) {
      out += fmt::format(" \\\n        '*{}[{}]", name, zsh_quoted(option.summary));
      if (option.takes != Takes::nothing) out += ":" + zsh_values(option.takes, {});
      out += "'";
    }
  if (!command.arguments.empty())
    out += fmt::format(" \\\n        '1:{}'", zsh_values(takes_at(command, 0), command));
  if (command.arguments.size() > 1)
    out += fmt::format(" \\\n        '*:{}'", zsh_values(takes_at(command, 1), command));
  return out + " ;;\n";
}

std::string zsh(const std::vector<CommandInfo>& commands) {
  std::string out =
      "#compdef refx\n"
      "# zsh completion for refx: save it as _refx in a folder of $fpath\n"
      "_refx() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandInfo& command : commands)
    out += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.summary));
  out +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n";
  for (const CommandInfo& command : commands) out += zsh_command(command);
  return out +
         "  esac\n}\nif [[ $funcstack[1] == _refx ]]; then _refx \"$@\"; else compdef _refx refx; "
         "fi\n";
}

// ---- fish --------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) { return replaced(text, "'\\", "\\"); }

std::string fish_values(Takes takes, const CommandInfo& command) {
  if (!command.words.empty()) return fmt::format("'{}'", fmt::join(command.words, " "));
  switch (takes) {
    case Takes::model:
      return "'(__fish_complete_suffix .pt2)'";
    case Takes::tensors:
      return "'(__fish_complete_suffix .pt)'";
    case Takes::transformation:
    case Takes::step:
      return fmt::format("'{}'", fmt::join(transformations(takes), " "));
    default:
      return "";
  }
}

std::string fish_command(const CommandInfo& command) {
  const std::string rule =
      fmt::format("complete -c refx -n '__fish_seen_subcommand_from {}'", command.name);
  std::string out = fmt::format("complete -c refx -n __fish_use_subcommand -a {} -d '{}'\n",
                                command.name, fish_quoted(command.summary));
  for (const OptionInfo& option : command.options) {
    out += rule;
    for (const std::string& name : option.names)
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    out += fmt::format(" -d '{}'", fish_quoted(option.summary));
    if (option.takes != Takes::nothing) out += " -x";
    if (const std::string values = fish_values(option.takes, {}); !values.empty())
      out += " -a " + values;
    out += '\n';
  }
  std::string last;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, command.arguments.size()); ++i)
    if (const std::string values = fish_values(takes_at(command, i), command); values != last) {
      if (!values.empty()) out += fmt::format("{} -a {}\n", rule, values);
      last = values;
    }
  return out;
}

std::string fish(const std::vector<CommandInfo>& commands) {
  std::string out =
      "# fish completion for refx: save it as ~/.config/fish/completions/refx.fish\n"
      "complete -c refx -f\n"
      "complete -c refx -n __fish_use_subcommand -l help -d 'Print the help and exit'\n"
      "complete -c refx -n __fish_use_subcommand -l version -d 'Print the version and exit'\n";
  for (const CommandInfo& command : commands) out += fish_command(command);
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell, const std::vector<CommandInfo>& commands) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  const std::string near = did_you_mean(shell, {"bash", "zsh", "fish"});
  throw Error(fmt::format("no completion for '{}'{}", shell,
                          near.empty() ? "; there is one for bash, zsh and fish" : near));
}

}  // namespace refx::cli
