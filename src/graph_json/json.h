// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace refx {

// Appending JSON to a string, spaced as Python's json.dumps does. The files that refx writes have
// to be equal, byte for byte, to those that torch.export writes; reports use util/json_writer.h,
// which breaks lines and replaces what a terminal or a JSON parser could not take.
void append_json(std::string& out, std::string_view text);  // quoted and escaped
void append_json(std::string& out, double value);  // infinities and nan as torch.export writes them
std::string json_quoted(std::string_view text);

// "a, b, c" between brackets: call next() before each item.
class JsonList {
 public:
  JsonList(std::string& out, char open, char close) : out_(out), close_(close) { out_ += open; }
  ~JsonList() { close(); }
  JsonList(const JsonList&) = delete;
  JsonList& operator=(const JsonList&) = delete;

  std::string& next() {
    if (!first_) out_ += ", ";
    first_ = false;
    return out_;
  }
  std::string& key(std::string_view name) {
    append_json(next(), name);
    return out_ += ": ";
  }

  void close() {
    if (std::exchange(open_, false)) out_ += close_;
  }

 private:
  std::string& out_;
  bool open_ = true;
  char close_;
  bool first_ = true;
};

}  // namespace refx
