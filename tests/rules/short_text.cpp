// SPDX-License-Identifier: Apache-2.0

#include "rules/short_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace refx::testing {

namespace {

bool take(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  return true;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// y : f32[3, 6] = aten.linear.default(%x, %w) {alpha: 2}
std::string call(std::string_view line) {
  const std::size_t is = line.find(" = "), open = line.find('(', is);
  if (is == line.npos || open == line.npos)
    throw std::logic_error(fmt::format("no call: {}", line));
  std::string_view target = line.substr(is + 3, open - is - 3), rest = line.substr(open);
  std::string_view kwargs = "{}";
  if (const std::size_t names = rest.find(") {"); names != rest.npos) {
    kwargs = rest.substr(names + 2);
    rest = rest.substr(0, names + 1);
  }
  const char* opcode = take(target, "method ")   ? "call_method"
                       : take(target, "module ") ? "call_module"
                                                 : "call_function";
  rest.remove_suffix(1);
  return fmt::format("    %{} = {}[target={}](args = {},), kwargs = {})\n", line.substr(0, is),
                     opcode, target, rest, kwargs);
}

}  // namespace

std::string long_text(std::string_view short_text) {
  std::string headings, nodes;
  std::istringstream lines{std::string(short_text)};
  for (std::string text; std::getline(lines, text);) {
    std::string_view line = trimmed(text);
    if (line.empty()) continue;
    const std::string_view whole = line;
    if (take(line, "module ") || take(line, "mutates ")) {
      headings += fmt::format("{}\n", whole);
    } else if (take(line, "return ")) {
      nodes += fmt::format("    {}\n", whole);
    } else if (take(line, "input ")) {
      nodes +=
          fmt::format("    %{} = placeholder[target={}]\n", line, line.substr(0, line.find(' ')));
    } else if (take(line, "parameter ") || take(line, "buffer ") || take(line, "constant ")) {
      const std::string name(line.substr(0, line.find(' ')));
      std::string node = (whole[0] == 'p' ? "p_" : whole[0] == 'b' ? "b_" : "c_") + name;
      std::replace(node.begin(), node.end(), '.', '_');
      headings += fmt::format("{}\n", whole);
      const std::string_view type = line.substr(name.size(), line.find(']') + 1 - name.size());
      nodes +=
          fmt::format("    %{}{} = placeholder[target={}](state={})\n", node, type, node, name);
    } else {
      nodes += call(line);
    }
  }
  return headings + "graph():\n" + nodes;
}

std::string rewritten_text(std::string_view rule, std::string_view short_text) {
  std::string text = long_text(short_text);
  const std::size_t end = text.rfind('\n', text.rfind("    return ")),
                    start = text.rfind('\n', end - 1) + 1;
  const std::string line = text.substr(start, end - start);  // "    %y : f32[2] = call…
  const std::size_t is = line.find(" = "), type = line.find(" : ");
  const std::string left = line.substr(0, is);
  std::string name = line.substr(line.find("[target=") + 8);
  name = name.substr(0, name.find(']'));
  name = name.substr(name.find('.') + 1);  // aten.gelu.default
  name = name.substr(0, name.find('.'));
  const std::string made = fmt::format("    %{}{}", name, line.substr(type));
  const std::string kept = fmt::format(
      "{} = call_function[target=aten.contiguous.default](args = (%{},))  # marks [\"{}\"]", left,
      name, rule);
  return text.replace(start, end - start, made + "\n" + kept);
}

}  // namespace refx::testing
