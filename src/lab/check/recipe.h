// SPDX-License-Identifier: Apache-2.0
#pragma once

// check/: tries rules on random instances of their forms.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "refx/model.h"
#include "rules/definition.h"

namespace refx::checking {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % n); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T pick(std::initializer_list<T> options) {
    return options.begin()[below(static_cast<std::int64_t>(options.size()))];
  }
  template <class T>
  const T& pick(const std::vector<T>& options) {
    return options[static_cast<std::size_t>(below(static_cast<std::int64_t>(options.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

using Sizes = std::vector<std::int64_t>;

// A tensor to be made.
struct TensorChoice {
  enum Layout : std::uint8_t { plain, turned, gaps, spread };
  enum Role : std::uint8_t { input, parameter, buffer, constant };
  enum Numbers : std::uint8_t { normal, positive, small, large, mask };
  Sizes sizes = {};
  c10::ScalarType dtype = c10::ScalarType::Float;
  Layout layout = plain;
  Role role = input;
  Numbers numbers = normal;
  std::uint64_t seed = 0;
};

// What a variable of a rule is to stand for.
struct Choice {
  bool made = false;
  bool absent = false;
  Arg literal = {};
  std::optional<TensorChoice> tensor = {};
  int same_as = -1;        // the value of another variable
  bool as_tensor = false;  // a number as a tensor without dimensions
  bool inverse = false;    // a factor as a division
};

// An instance of a form of `before`, to be built.
struct Recipe {
  std::size_t form = 0;
  std::vector<Choice> variables = {};
  bool functions = false;      // as torch.fx writes it, not as torch.export does
  bool typed = true;           // with the types of all values
  bool symbolic = false;       // sizes of kSymbol are "s0"
  bool used = false;           // its results are used, not returned
  std::uint64_t spelling = 0;  // draws among spellings; 0: the plain one
};

// A size that no other is a multiple of.
inline constexpr std::int64_t kSymbol = 7;

struct Instance {
  Model model;
  std::vector<c10::IValue> inputs;
  std::vector<NodeId> results;
  bool symbolic = false;
};

// The instance, types recorded. Throws Error where it does not run.
Instance build(const rules::Definition& rule, const Recipe& recipe);

// The value of one node of the form; it takes only the variables that are made.
c10::IValue value_of(const rules::Definition& rule, const Recipe& recipe, NodeId node);

// The ranks that each variable had in instances that ran.
using Experience = std::vector<std::vector<std::int64_t>>;

// A random instance that runs; none where none was found, and the last reason.
struct Guess {
  std::optional<Recipe> recipe;
  std::string problem;
};
Guess guess(const rules::Definition& rule, std::size_t form, Random& random,
            Experience& experience);

// Those that are a little simpler, the simplest first.
std::vector<Recipe> simpler(const rules::Definition& rule, const Recipe& recipe);
// How much there is to look at.
std::int64_t weight_of(const Recipe& recipe);

}  // namespace refx::checking
