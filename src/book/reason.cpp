// SPDX-License-Identifier: Apache-2.0

#include "refx/reason.h"

#include <algorithm>
#include <vector>

namespace refx {

namespace {

std::string code_of(std::string_view id) {
  std::string code(id);
  std::replace(code.begin(), code.end(), '_', '-');
  return code;
}

const std::vector<ReasonInfo>& table() {
  static const std::vector<ReasonInfo> rows = {
#define REFX_REASON(section, id, text, advice) {ReasonId::id, code_of(#id), #section, text, advice},
#include "refx/reasons.def"
  };
  return rows;
}

constexpr ReasonSection kSections[] = {
#define REFX_REASON_SECTION(section, title, meaning, example, advice) \
  {#section, title, meaning, example, advice},
#include "refx/reasons.def"
};

}  // namespace

std::span<const ReasonInfo> all_reasons() { return table(); }

std::span<const ReasonSection> reason_sections() { return kSections; }

const ReasonInfo* find_reason(std::string_view code) {
  const auto it = std::ranges::find(table(), code, &ReasonInfo::code);
  return it == table().end() ? nullptr : &*it;
}

const ReasonSection& section_of(const ReasonInfo& info) {
  return *std::ranges::find(kSections, info.section, &ReasonSection::id);
}

const std::string& code(const Reason& reason) {
  return table()[static_cast<std::size_t>(reason.id)].code;
}

std::string to_string(const Reason& reason) {
  std::string_view rest = table()[static_cast<std::size_t>(reason.id)].text;
  std::string text;
  for (const std::string& argument : reason.arguments) {
    const std::size_t from = rest.find('{');
    if (from == rest.npos) break;
    text += rest.substr(0, from);
    text += argument;
    rest.remove_prefix(rest.find('}', from) + 1);
  }
  return text += rest;
}

}  // namespace refx
