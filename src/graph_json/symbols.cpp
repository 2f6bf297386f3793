// SPDX-License-Identifier: Apache-2.0

#include "graph_json/symbols.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "refx/error.h"

namespace refx {

namespace {

// Reads sympy's constructor form and gives the expression as one would write it. Parts that it
// meets are remembered, while there is room, so that products of them can be written again.
class Reader {
 public:
  Reader(std::string_view text, std::unordered_map<std::string, std::string>& stored,
         std::size_t& room)
      : text_(text), stored_(stored), room_(room) {}

  // Nothing if the text is not such a form.
  bool all(std::string& out) { return expression(out, 0) && at_ == text_.size(); }

 private:
  bool expression(std::string& out, int depth) {
    if (depth > limits::kExpressionDepth) return false;
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '-'))
      ++at_;
    const std::string head(text_.substr(start, at_ - start));
    if (head.empty()) return false;
    if (at_ == text_.size() || text_[at_] != '(') {
      out = head;
      return true;
    }
    ++at_;
    std::vector<std::string> parts;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string part;
      if (text_[at_] == '\'') {
        const auto end = text_.find('\'', at_ + 1);
        if (end == text_.npos) return false;
        part = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
      } else if (!expression(part, depth + 1)) {
        return false;
      }
      bool keyword = false;
      if (at_ < text_.size() && text_[at_] == '=') {  // an assumption: positive=True
        ++at_;
        std::string ignored;
        if (!expression(ignored, depth + 1)) return false;
        keyword = true;
      }
      if (!keyword) parts.push_back(std::move(part));
      while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ')) ++at_;
    }
    if (at_ == text_.size()) return false;
    ++at_;
    out = spelled(head, parts);
    if (const std::size_t size = out.size() + at_ - start; size <= room_)
      if (stored_.try_emplace(out, text_.substr(start, at_ - start)).second) room_ -= size;
    return true;
  }

  static std::string factor(const std::string& text) {
    return text.find_first_of("+-/ ") == text.npos ? text : "(" + text + ")";
  }

  static std::string spelled(const std::string& head, const std::vector<std::string>& parts) {
    if ((head == "Integer" || head == "Symbol" || head == "Float") && !parts.empty())
      return parts[0];
    if (head == "Mul") {
      std::vector<std::string> factors;
      for (const std::string& part : parts) factors.push_back(factor(part));
      return fmt::format("{}", fmt::join(factors, "*"));
    }
    if (head == "Add") return fmt::format("{}", fmt::join(parts, " + "));
    if (head == "Pow" && parts.size() == 2) return factor(parts[0]) + "**" + factor(parts[1]);
    if (head.ends_with("FloorDiv") && parts.size() == 2)
      return factor(parts[0]) + "//" + factor(parts[1]);
    if (head == "Mod" && parts.size() == 2) return "Mod(" + parts[0] + ", " + parts[1] + ")";
    return fmt::format("{}({})", head, fmt::join(parts, ", "));
  }

  std::string_view text_;
  std::unordered_map<std::string, std::string>& stored_;
  std::size_t& room_;
  std::size_t at_ = 0;
};

void check_length(std::string_view expression) {
  if (expression.size() > limits::kExpressionLength)
    throw Error(fmt::format("a symbolic size of {} characters, and refx takes {}",
                            expression.size(), limits::kExpressionLength));
}

}  // namespace

std::string Symbols::readable(const std::string& stored) {
  check_length(stored);
  auto [it, is_new] = readable_.try_emplace(stored);
  if (!is_new) return it->second;
  if (!Reader(stored, stored_, room_for_parts_).all(it->second)) it->second = stored;
  stored_.insert_or_assign(it->second, stored);
  return it->second;
}

std::size_t Symbols::bytes() const {
  std::size_t sum = 0;
  for (const auto* map : {&readable_, &stored_})
    for (const auto& [key, value] : *map) sum += key.size() + value.size();
  return sum;
}

std::string Symbols::stored(std::string_view readable) const {
  check_length(readable);
  if (auto it = stored_.find(std::string(readable)); it != stored_.end()) return it->second;
  if (!readable.empty() && std::all_of(readable.begin(), readable.end(),
                                       [](unsigned char c) { return std::isdigit(c); }))
    return fmt::format("Integer({})", readable);
  std::vector<std::string> factors;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= readable.size(); ++i) {
    const char c = i < readable.size() ? readable[i] : '*';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != '*' || depth != 0) continue;
    std::string_view part = readable.substr(start, i - start);
    start = i + 1;
    if (part == readable || part.empty())
      throw Error(
          fmt::format("the symbolic size '{}' is not made of sizes of this model", readable));
    if (part.starts_with('(') && part.ends_with(')')) part = part.substr(1, part.size() - 2);
    factors.push_back(stored(part));
  }
  return fmt::format("Mul({})", fmt::join(factors, ", "));
}

}  // namespace refx
