// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/id.h"

namespace refx {

// Why a site is refused. All reasons stand in refx/reasons.def: code, section, text, what to do.
// A released code keeps its meaning, so that a script can rely on it; the text may change.
enum class ReasonId : std::uint16_t {
#define REFX_REASON(section, id, text, advice) id,
#include "refx/reasons.def"
};

// One reason with its arguments: the values of the placeholders of its text, in their order.
struct Reason {
  ReasonId id = ReasonId::custom;
  std::vector<std::string> arguments = {};
  std::vector<NodeId> nodes = {};  // the nodes that it is about; empty: those of the site

  Reason about(std::vector<NodeId> these) && {
    nodes = std::move(these);
    return std::move(*this);
  }
  bool operator==(const Reason&) const = default;
};

// A row of the table.
struct ReasonInfo {
  ReasonId id;
  std::string code;          // "used-elsewhere"
  std::string_view section;  // the id of its section
  std::string_view text;     // "'{tensor}' is used in more than one place"
  std::string_view advice;   // what to do about it
};
// Reasons that have the same background.
struct ReasonSection {
  std::string_view id, title, meaning, example, advice;
};
REFX_API std::span<const ReasonInfo> all_reasons();
REFX_API std::span<const ReasonSection> reason_sections();
REFX_API const ReasonInfo* find_reason(std::string_view code);  // null if there is none
REFX_API const ReasonSection& section_of(const ReasonInfo& info);

REFX_API const std::string& code(const Reason& reason);
REFX_API std::string to_string(const Reason& reason);

namespace detail {

consteval std::size_t count_placeholders(std::string_view text) {
  std::size_t count = 0;
  for (char c : text) count += c == '{';
  return count;
}
inline constexpr std::size_t kReasonArguments[] = {
#define REFX_REASON(section, id, text, advice) count_placeholders(text),
#include "refx/reasons.def"
};

template <class T>
std::string reason_argument(const T& value) {
  if constexpr (std::integral<T>)
    return std::to_string(value);
  else
    return std::string(std::string_view(value));
}

}  // namespace detail

// because<ReasonId::used_elsewhere>(name). The compiler checks that every placeholder of the text
// has an argument.
template <ReasonId id, class... Args>
requires(sizeof...(Args) == detail::kReasonArguments[static_cast<std::size_t>(id)]) Reason
    because(const Args&... arguments) {
  return {id, {detail::reason_argument(arguments)...}, {}};
}

// A reason of a transformation or of a check that does not ship with refx. Its code is "custom".
inline Reason custom_reason(std::string text) { return {ReasonId::custom, {std::move(text)}, {}}; }

}  // namespace refx
