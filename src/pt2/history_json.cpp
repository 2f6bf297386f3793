// SPDX-License-Identifier: Apache-2.0

#include "pt2/history_json.h"

#include <fmt/format.h>

#include <limits>

#include "pt2/history_file.h"
#include "refx/error.h"
#include "util/strict_json.h"

namespace refx {

void HistoryJson::parse() {
  const std::string_view text = archive_.read(archive_.at(kHistory));
  root_ = parse_strict(parser_, text);
  format_ = get_in<std::int64_t>(root_, "format");
  if (format_ < 1 || format_ > 2)
    throw Error(fmt::format("it has format {}, this refx reads formats 1 and 2; use a newer refx",
                            format_));
  for (const dom::element& item : get_in<dom::array>(root_, "tensors")) tensors_.push_back(item);
  for (const dom::element& item : get_in<dom::array>(root_, "storages")) storages_.push_back(item);
  parsed_ = true;
}

std::string HistoryJson::where() const {
  const std::string place = trail.text();
  return fmt::format("{}: record '{}'{}{}: ", archive_.path(), kHistory, place.empty() ? "" : ", ",
                     place);
}

const dom::element& HistoryJson::numbered(const std::vector<dom::element>& items,
                                          std::uint64_t index, const char* what) {
  if (index < items.size()) return items[index];
  throw Error(fmt::format("there is no {}[{}]", what, index));
}

std::uint32_t narrow_to_32_bits(std::uint64_t number, const char* what) {
  if (number > std::numeric_limits<std::uint32_t>::max())
    throw Error(fmt::format("{} cannot be {}", what, number));
  return static_cast<std::uint32_t>(number);
}

}  // namespace refx
