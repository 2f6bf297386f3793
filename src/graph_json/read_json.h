// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

namespace ondemand = simdjson::ondemand;

// Where in a JSON document the reader is, for error messages: "graph.nodes[3].inputs[1]".
class Trail {
 public:
  class Step {
   public:
    Step(Trail& trail, std::string_view name) : trail_(trail) {
      trail_.steps_.push_back({std::string(name), kNone});
    }
    Step(Trail& trail, std::size_t index) : trail_(trail) { trail_.steps_.push_back({{}, index}); }
    // Left in place by an exception, so that it can be told.
    ~Step() {
      if (std::uncaught_exceptions() == exceptions_) trail_.steps_.pop_back();
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Trail& trail_;
    int exceptions_ = std::uncaught_exceptions();
  };
  std::string text() const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Item {
    std::string name;
    std::size_t index;
  };
  std::vector<Item> steps_;
};

// The text of an object or array, without consuming it.
template <class T>
std::string_view slice(T& container) {
  std::string_view text = container.raw_json();
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  container.reset();
  return text;
}

// Reads a document with `read(root)`, after the whole of it was found to be strict JSON (see
// check_strict); every failure becomes an Error that names the file, the record and the place,
// except a lack of memory, which is std::bad_alloc: callers take an Error for a property of the
// text. At least 64 bytes after the text can be read.
class JsonDocument {
 public:
  JsonDocument(std::string file, std::string_view record, std::string_view text);

  template <class F>
  void read(F&& f) {
    try {
      ondemand::document document = parse();
      ondemand::object root = document.get_object();
      f(root);
    } catch (const simdjson::simdjson_error& error) {
      fail(error.what());
    }
  }

  [[noreturn]] void fail(const std::string& what) const;
  Trail trail;

 private:
  ondemand::document parse();

  std::string file_, record_;
  std::string_view text_;
  ondemand::parser parser_;
};

// The value of that key, or nothing if the object has none. Any other failure is a simdjson_error.
std::optional<ondemand::value> find_field(ondemand::object& object, std::string_view key);

std::string string_in(ondemand::value value);
double double_in(ondemand::value value);  // also "Infinity", "-Infinity", "NaN"

}  // namespace refx
