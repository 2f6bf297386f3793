// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>

#include "refx/export.h"

namespace refx {

REFX_API std::size_t hash_of(std::string_view text);

class Name;
template <class T>
concept Textual = std::convertible_to<const T&, std::string_view> && !std::same_as<T, Name>;

// The name or the target of a node: an immutable, reference-counted string with its hash. A copy
// shares the text, so that copying is cheap and most comparisons compare pointers.
class REFX_API Name {
 public:
  Name() = default;  // empty
  Name(std::string_view text);
  Name(const std::string& text) : Name(std::string_view(text)) {}
  Name(const char* text) : Name(std::string_view(text)) {}
  Name(const Name& other) noexcept : text_(other.text_) {
    if (text_) text_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Name(Name&& other) noexcept : text_(std::exchange(other.text_, nullptr)) {}
  Name& operator=(Name other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~Name() {
    if (text_ && text_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(text_);
  }

  std::string_view view() const {
    return text_ ? std::string_view(text_->characters(), text_->size) : std::string_view();
  }
  operator std::string_view() const { return view(); }
  operator std::string() const { return std::string(view()); }
  std::size_t hash() const { return text_ ? text_->hash : hash_of({}); }

  bool empty() const { return !text_; }
  std::size_t size() const { return view().size(); }
  char operator[](std::size_t at) const { return view()[at]; }
  bool starts_with(std::string_view text) const { return view().starts_with(text); }
  bool ends_with(std::string_view text) const { return view().ends_with(text); }
  std::size_t find(auto what, std::size_t from = 0) const { return view().find(what, from); }
  std::size_t rfind(char what) const { return view().rfind(what); }
  std::string substr(std::size_t from, std::size_t size = npos) const {
    return std::string(view().substr(from, size));
  }
  static constexpr std::size_t npos = std::string_view::npos;

  friend bool operator==(const Name& a, const Name& b) {
    return a.text_ == b.text_ ||
           (a.text_ && b.text_ && a.text_->hash == b.text_->hash && a.view() == b.view());
  }
  friend auto operator<=>(const Name& a, const Name& b) { return a.view() <=> b.view(); }
  friend bool operator==(const Name& a, const Textual auto& b) {
    return a.view() == std::string_view(b);
  }
  friend auto operator<=>(const Name& a, const Textual auto& b) {
    return a.view() <=> std::string_view(b);
  }
  friend REFX_API std::ostream& operator<<(std::ostream& out, const Name& name);
  friend std::string operator+(const Name& a, const Textual auto& b) {
    return std::string(a.view()).append(std::string_view(b));
  }
  friend std::string operator+(const Textual auto& a, const Name& b) {
    return std::string(std::string_view(a)).append(b.view());
  }

 private:
  friend class NameKey;
  struct Text {
    std::atomic<std::uint32_t> owners;
    std::uint32_t size;
    std::size_t hash;
    const char* characters() const { return reinterpret_cast<const char*>(this + 1); }
  };
  static void destroy(Text* text);

  Text* text_ = nullptr;  // null: empty
};

inline std::string_view format_as(const Name& name) { return name.view(); }  // for fmt

// A key for lookups among names: a name, or any text.
class NameKey {
 public:
  NameKey(const Name& name) : text_(name.view()), hash_(name.hash()), name_(name.text_) {}
  NameKey(std::string_view text) : text_(text), hash_(hash_of(text)) {}
  NameKey(const std::string& text) : NameKey(std::string_view(text)) {}
  NameKey(const char* text) : NameKey(std::string_view(text)) {}

  std::string_view text() const { return text_; }
  std::size_t hash() const { return hash_; }
  bool is(const Name& name) const {
    if (!name.text_) return text_.empty();
    return name.text_ == name_ || (name.text_->hash == hash_ && name.view() == text_);
  }

 private:
  std::string_view text_;
  std::size_t hash_;
  const Name::Text* name_ = nullptr;
};

}  // namespace refx

template <>
struct std::hash<refx::Name> {
  std::size_t operator()(const refx::Name& name) const noexcept { return name.hash(); }
};
