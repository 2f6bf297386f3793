// SPDX-License-Identifier: Apache-2.0
#pragma once

// text/: the text form of a model, written and read. docs/text.md has the grammar.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace refx {

// Reads the words of the text form, one after the other. Spaces between them are skipped; line
// breaks too, inside brackets. Every failure is an Error with line and column.
class Cursor {
 public:
  static constexpr int kDeepest = 200;  // brackets in brackets

  explicit Cursor(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  std::string_view text() const { return text_; }
  std::size_t position();  // of the next word

  // To the next line that is neither empty nor a comment; false if there is none.
  bool next_line();
  bool at_line_end();
  void expect_line_end();

  bool peek(char c);
  bool peek_word();    // a plain name
  bool peek_number();  // a digit or a sign
  bool peek_quote();
  bool accept(char c);
  bool accept(std::string_view word);  // the whole word, not the start of a longer one
  void expect(char c);
  void expect(std::string_view word);

  // Items between brackets, with commas between them; returns whether a comma ends them.
  template <class F>
  bool sequence(char open, char close, F&& item) {
    enter(open);
    bool comma = false;
    for (bool more = true; more && !peek(close);) {
      item();
      more = comma = accept(',');
    }
    if (!peek(close)) fail_expected(std::string("',' or '") + close + "'");
    leave(close);
    return comma;
  }
  // One thing between brackets.
  template <class F>
  void between(char open, char close, F&& content) {
    enter(open);
    content();
    leave(close);
  }

  std::string_view word();                  // a plain name; empty if there is none
  std::string name(std::string_view what);  // plain or quoted; `what` is for the error message
  std::string string();                     // "…" or '…'
  std::string_view bare_expr();             // up to the comma or bracket that ends it
  std::int64_t integer();
  std::variant<std::int64_t, double> number();
  bool boolean();

  [[noreturn]] void fail(std::size_t at, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view what);

 private:
  void enter(char open);
  void leave(char close);
  void skip_spaces();
  char escaped();
  std::string found() const;

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace refx
