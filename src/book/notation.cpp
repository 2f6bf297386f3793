// SPDX-License-Identifier: Apache-2.0

#include "book/notation.h"

#include <algorithm>
#include <charconv>

#include "refx/error.h"

namespace refx::book {

namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

template <class F>
void for_each_part(std::string_view text, char separator, F&& f) {
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (auto part = trim(text.substr(0, end)); !part.empty()) f(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<Arg> literal(std::string_view text) {
  if (text == "None") return Arg(None{});
  if (text == "True") return Arg(true);
  if (text == "False") return Arg(false);
  if (text.front() == '\'') return Arg(std::string(text.substr(1, text.size() - 2)));
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer).ptr == end) return Arg(integer);
  double real = 0;
  if (std::from_chars(text.data(), end, real).ptr == end) return Arg(real);
  return std::nullopt;
}

Operation::Actual parse_actual(std::string_view text) {
  using Source = Operation::Actual::Source;
  if (text.front() == '[') {
    Operation::Actual actual = parse_actual(text.substr(1, text.size() - 2));
    actual.as_list = true;
    return actual;
  }
  if (text.front() == '.') {
    const bool optional = text.back() == '?';
    const std::string_view name = text.substr(1, text.size() - (optional ? 2 : 1));
    return {.source = Source::tensor, .name = std::string(name), .optional = optional};
  }
  if (auto value = literal(text)) return {.source = Source::literal, .literal = std::move(*value)};
  return {.source = Source::argument, .name = std::string(text)};
}

}  // namespace

Signature parse_signature(std::string_view text) {
  Signature signature{std::string(text), {}};
  for_each_part(text, ' ', [&](std::string_view part) {
    const std::string_view name = part.substr(0, part.find('='));
    signature.formals.push_back({std::string(name), std::nullopt});
    if (name.size() == part.size()) return;
    signature.formals.back().default_value = literal(part.substr(name.size() + 1));
    REFX_CHECK(signature.formals.back().default_value, "a default in '" + std::string(text) + "'");
  });
  return signature;
}

Operation parse_operation(std::string_view text) {
  const auto open = text.find('(');
  Operation operation{std::string(text.substr(0, open)), {}};
  for_each_part(text.substr(open + 1, text.size() - open - 2), ',',
                [&](std::string_view part) { operation.actuals.push_back(parse_actual(part)); });
  return operation;
}

std::string in_place_twin(std::string target) { return target.insert(target.rfind('.'), "_"); }

void missing_argument(const std::string& name) {
  throw Error("argument '" + name + "' is missing");
}
void too_many_arguments(const Signature& signature) {
  throw Error("too many arguments; it takes (" + signature.text + ")");
}
void unknown_argument(const std::string& name) { throw Error("no argument '" + name + "'"); }
void argument_given_twice(const Signature& signature) {
  throw Error("an argument is given twice; it takes (" + signature.text + ")");
}

}  // namespace refx::book
