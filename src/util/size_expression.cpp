// SPDX-License-Identifier: Apache-2.0

#include "util/size_expression.h"

#include <cctype>
#include <charconv>

namespace refx {

namespace {

using Symbols = std::map<std::string, std::int64_t>;
using Number = std::optional<std::int64_t>;

constexpr int kMaxDepth = 100;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

Number add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? Number() : sum;
}
Number multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? Number() : product;
}
Number floor_divide(std::int64_t a, std::int64_t b) {
  if (b <= 0) return std::nullopt;
  return a / b - (a % b < 0 ? 1 : 0);
}
Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 64) return std::nullopt;
  Number result = 1;
  for (std::int64_t i = 0; result && i < exponent; ++i) result = multiply(*result, base);
  return result;
}

// A recursive descent parser. Any failure makes the result empty.
class Evaluator {
 public:
  Evaluator(std::string_view text, const Symbols& symbols) : text_(text), symbols_(symbols) {}

  Number run() {
    const Number value = sum();
    space();
    return text_.empty() ? value : std::nullopt;
  }

 private:
  void space() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }
  bool consume(std::string_view token) {
    space();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  Number sum() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    Number left = product();
    while (left) {
      if (consume("+")) {
        const Number right = product();
        left = right ? add(*left, *right) : right;
      } else if (consume("-")) {
        const Number right = product();
        const Number negative = right ? multiply(*right, -1) : right;
        left = negative ? add(*left, *negative) : negative;
      } else {
        break;
      }
    }
    --depth_;
    return left;
  }

  Number product() {
    Number left = factor();
    while (left) {
      if (consume("//")) {
        const Number right = factor();
        left = right ? floor_divide(*left, *right) : right;
      } else if (consume("*")) {
        const Number right = factor();
        left = right ? multiply(*left, *right) : right;
      } else {
        break;
      }
    }
    return left;
  }

  Number factor() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    Number value;
    if (consume("-")) {
      value = factor();
      if (value) value = multiply(*value, -1);
    } else {
      value = atom();
      if (value && consume("**")) {
        const Number exponent = factor();
        value = exponent ? power(*value, *exponent) : exponent;
      }
    }
    --depth_;
    return value;
  }

  Number atom() {
    if (consume("(")) {
      const Number value = sum();
      return consume(")") ? value : std::nullopt;
    }
    std::size_t length = 0;
    while (length < text_.size() && is_word(text_[length])) ++length;
    const std::string_view word = text_.substr(0, length);
    text_.remove_prefix(length);
    if (word.empty()) return std::nullopt;
    if (!std::isdigit(static_cast<unsigned char>(word[0]))) {
      const auto it = symbols_.find(std::string(word));
      return it == symbols_.end() ? Number() : it->second;
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size() ? Number(number) : std::nullopt;
  }

  std::string_view text_;
  const Symbols& symbols_;
  int depth_ = 0;
};

}  // namespace

bool is_symbol(std::string_view expression) {
  if (expression.empty() || std::isdigit(static_cast<unsigned char>(expression[0]))) return false;
  for (char c : expression)
    if (!is_word(c)) return false;
  return true;
}

Number evaluate_size(std::string_view expression, const Symbols& symbols) {
  return Evaluator(expression, symbols).run();
}

}  // namespace refx
