// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "refx/diff.h"
#include "util/printable.h"

namespace refx {

namespace {

using Line = Difference::Line;

// "tensors: 1 added, 2 removed"
void head(std::string& out, const char* what, const std::vector<Line>& lines) {
  std::size_t added = 0, removed = 0, moved = 0, changed = 0;
  for (const Line& line : lines) {
    if (line.before.empty())
      ++added;
    else if (line.after.empty())
      ++removed;
    else if (line.before == line.after && !line.values)
      ++moved;
    else
      ++changed;
  }
  out += what;
  const char* separator = ": ";
  for (const auto& [n, verb] : {std::pair(added, "added"), std::pair(removed, "removed"),
                                std::pair(changed, "changed"), std::pair(moved, "moved")}) {
    if (n == 0) continue;
    out += fmt::format("{}{} {}", separator, n, verb);
    separator = ", ";
  }
  out += '\n';
}

std::string remark(const Line& line) {
  std::string text;
  if (line.moved) text = "moved";
  if (const auto& values = line.values) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} of {} values differ, by up to {:.3g}", values->different, values->of,
                        values->max_abs);
  }
  return text.empty() ? text : "  (" + text + ")";
}

void body(std::string& out, const Line& line) {
  const std::string note = remark(line);
  if (line.before == line.after) {
    out += "~ " + printable(line.after) + note + '\n';
    return;
  }
  if (!line.before.empty()) out += "- " + printable(line.before) + '\n';
  if (!line.after.empty()) out += "+ " + printable(line.after) + note + '\n';
}

void section(std::string& out, const char* what, const std::vector<Line>& lines) {
  if (lines.empty()) return;
  head(out, what, lines);
  const std::string* path = nullptr;
  for (const Line& line : lines) {
    if (!line.path.empty() && (!path || *path != line.path))
      out += "@@ " + printable(line.path) + " @@\n";
    if (line.path.empty() && path && !path->empty()) out += "@@ @@\n";
    path = &line.path;
    body(out, line);
  }
}

}  // namespace

std::string to_text(const Difference& difference) {
  std::string out;
  section(out, "interface", difference.interface);
  section(out, "tensors", difference.state);
  section(out, "modules", difference.modules);
  section(out, "mutations", difference.mutations);
  section(out, "nodes", difference.nodes);
  return out;
}

}  // namespace refx
