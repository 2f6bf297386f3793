// SPDX-License-Identifier: Apache-2.0

#include "refx/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "refx/error.h"
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

// A part of the page: "## Heading", a list of reasons, what is to be said about them.
struct Section {
  std::string_view text;
  std::vector<std::string_view> reasons;
};

std::vector<Section> sections_of(std::string_view page) {
  std::vector<Section> sections;
  for (std::size_t at = page.find("\n## "); at != page.npos;) {
    const std::size_t next = page.find("\n## ", at + 1);
    const std::size_t from = at + std::string_view("\n## ").size();
    Section section{page.substr(from, next == page.npos ? next : next - from), {}};
    constexpr std::string_view kItem = "\n- `";
    for (std::size_t item = section.text.find(kItem); item != section.text.npos;
         item = section.text.find(kItem, item + 1)) {
      const std::size_t reason = item + kItem.size();
      const std::size_t end = section.text.find('`', reason);
      section.reasons.push_back(section.text.substr(reason, end - reason));
    }
    sections.push_back(std::move(section));
    at = next;
  }
  return sections;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// The reason itself; or, for who remembers a part of it, one that has these words.
bool is_about(std::string_view reason, std::string_view what) {
  constexpr std::size_t kWords = 6;  // fewer letters stand in too many
  return glob_match(reason, what) ||
         (what.size() >= kWords && lower(reason).find(lower(what)) != reason.npos);
}

}  // namespace

std::string explain(std::string_view what) {
  if (const Transformation* transformation = lookup_transformation(what))
    return explained(*transformation);
  std::string text;
  for (const Section& section : sections_of(refusals_page()))
    if (std::any_of(section.reasons.begin(), section.reasons.end(),
                    [&](std::string_view reason) { return is_about(reason, what); }))
      text += std::string(text.empty() ? "" : "\n") + std::string(section.text);
  if (!text.empty()) return text;
  std::vector<std::string> names;
  for (const TransformationPtr& known : registry()) names.push_back(known->name());
  throw Error(fmt::format("'{}' is neither a transformation nor a reason that refx gives{}", what,
                          did_you_mean(what, names)));
}

}  // namespace refx
