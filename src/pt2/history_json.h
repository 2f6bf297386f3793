// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "graph_json/read_json.h"
#include "pt2/dom_json.h"
#include "refx/hint.h"

namespace refx {

// The parsed refx/history.json. Errors name the file and the path of the JSON value.
class HistoryJson {
 public:
  explicit HistoryJson(const Archive& archive) : archive_(archive) {}

  // Adds the location to every error. The program can be read without its history, so an error
  // suggests to drop the history, unless it has a more specific hint.
  template <class F>
  void read(F&& f) {
    try {
      if (!parsed_) parse();
      f();
    } catch (const HintedError& error) {
      throw HintedError(where() + error.problem(), error.hint());
    } catch (const simdjson::simdjson_error& error) {
      throw HintedError(where() + error.what(), Hint::forget);
    } catch (const Error& error) {
      throw HintedError(where() + error.what(), Hint::forget);
    }
  }

  // Every item of a list, which errors then name.
  template <class F>
  void each(const dom::element& object, std::string_view key, F&& f) {
    const Trail::Step in(trail, key);
    std::size_t index = 0;
    for (const dom::element& item : get_in<dom::array>(object, key)) {
      const Trail::Step at(trail, index++);
      f(item);
    }
  }
  template <class F>
  void list(std::string_view key, F&& f) {
    each(root_, key, std::forward<F>(f));
  }

  const dom::element& root() const { return root_; }
  std::int64_t format() const { return format_; }
  // Items of the lists of the same names. The index is checked.
  const dom::element& tensor(std::uint64_t index) const {
    return numbered(tensors_, index, "tensors");
  }
  const dom::element& storage(std::uint64_t index) const {
    return numbered(storages_, index, "storages");
  }

  Trail trail;

 private:
  void parse();
  std::string where() const;
  static const dom::element& numbered(const std::vector<dom::element>& items, std::uint64_t index,
                                      const char* what);

  const Archive& archive_;
  bool parsed_ = false;
  std::int64_t format_ = 0;
  dom::parser parser_;
  dom::element root_;
  std::vector<dom::element> tensors_, storages_;  // by number
};

// JSON numbers have 64 bits; ids and checksums have 32. `what` names the number in the error.
std::uint32_t narrow_to_32_bits(std::uint64_t number, const char* what);

}  // namespace refx
