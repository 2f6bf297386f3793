// SPDX-License-Identifier: Apache-2.0

#include "refx/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "refx/error.h"
#include "refx/reason.h"
#include "refx/registry.h"
#include "refx/rule.h"
#include "transforms/explained.h"
#include "util/did_you_mean.h"
#include "util/glob.h"
#include "util/printable.h"

namespace refx {

namespace {

std::string explained(const Transformation& transformation) {
  std::string text = fmt::format(
      "{}: {}\n{}, {}{}\n\n", printable(transformation.name()), printable(transformation.summary()),
      transformation.reversible() ? "reversible" : "not reversible",
      transformation.preserves_computation() ? "results stay the same up to rounding" : "lossy",
      transformation.preserves_computation() && !transformation.in_all() ? ", not part of `all`"
                                                                         : "");
  const auto contract = contracts().find(transformation.name());
  if (const auto* rule = dynamic_cast<const Rule*>(&transformation))
    text += printable_lines(rule->text());
  else if (contract != contracts().end())
    text += contract->second;
  while (text.ends_with('\n')) text.pop_back();
  return text + '\n';
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// "'{tensor}' is quantized" -> "'*' is quantized"
std::string pattern_of(const ReasonInfo& reason) {
  std::string pattern;
  bool inside = false;
  for (const char c : reason.text) {
    if (c == '{') pattern += '*';
    inside = c == '{' || (inside && c != '}');
    if (!inside && c != '}') pattern += c;
  }
  return pattern;
}

using Reasons = std::vector<const ReasonInfo*>;

// The reason whose text `what` is; of several, the one with the longest text of its own.
Reasons with_text(std::string_view what) {
  const ReasonInfo* best = nullptr;
  for (const ReasonInfo& reason : all_reasons())
    if (reason.id != ReasonId::custom && glob_match(pattern_of(reason), what) &&
        (!best || pattern_of(reason).size() > pattern_of(*best).size()))
      best = &reason;
  return best ? Reasons{best} : Reasons{};
}

// For a user who remembers a part of the text: the reasons that contain it.
Reasons with_words(std::string_view what) {
  constexpr std::size_t kShortest = 6;  // fewer letters are in too many reasons
  Reasons found;
  for (const ReasonInfo& reason : all_reasons())
    if (what.size() >= kShortest && lower(reason.text).find(lower(what)) != reason.text.npos)
      found.push_back(&reason);
  return found;
}

Reasons find_reasons(std::string_view what) {
  if (const ReasonInfo* reason = find_reason(what)) return {reason};
  const Reasons exact = with_text(what);
  return exact.empty() ? with_words(what) : exact;
}

std::string wrapped(std::string_view text) {
  constexpr std::size_t kWidth = 100;
  std::string lines;
  while (text.size() > kWidth) {
    const std::size_t space = text.rfind(' ', kWidth);
    if (space == text.npos) break;
    lines += std::string(text.substr(0, space)) + '\n';
    text.remove_prefix(space + 1);
  }
  return lines += std::string(text) + '\n';
}

// Reasons of one section share its explanation.
std::string explained(const Reasons& reasons) {
  std::string text;
  for (const ReasonSection& section : reason_sections()) {
    std::string rows, advice;
    for (const ReasonInfo* reason : reasons) {
      if (reason->section != section.id) continue;
      rows += fmt::format("{}: {}\n", reason->code, reason->text);
      if (advice.empty()) advice = reason->advice.empty() ? section.advice : reason->advice;
    }
    if (rows.empty()) continue;
    text +=
        fmt::format("{}{}\n{}\n\n{}\n{}\n{}", text.empty() ? "" : "\n", rows, section.title,
                    wrapped(section.meaning), wrapped(fmt::format("Example: {}", section.example)),
                    wrapped(fmt::format("What to do: {}", advice)));
  }
  return text;
}

}  // namespace

std::string explain(std::string_view what) {
  if (const Transformation* transformation = lookup_transformation(what))
    return explained(*transformation);
  if (const Reasons reasons = find_reasons(what); !reasons.empty()) return explained(reasons);
  std::vector<std::string> names;
  for (const TransformationPtr& known : registry()) names.push_back(known->name());
  for (const ReasonInfo& reason : all_reasons()) names.push_back(reason.code);
  throw Error(fmt::format("'{}' is neither a transformation nor a reason that refx gives{}", what,
                          did_you_mean(what, names)));
}

}  // namespace refx
