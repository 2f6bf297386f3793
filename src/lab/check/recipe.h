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

// How to create a tensor.
struct TensorChoice {
  enum Layout : std::uint8_t { contiguous, transposed, strided, expanded };
  enum Role : std::uint8_t { input, parameter, buffer, constant };
  enum Numbers : std::uint8_t { normal, positive, small, large, mask };
  Sizes sizes = {};
  c10::ScalarType dtype = c10::ScalarType::Float;
  Layout layout = contiguous;
  Role role = input;
  Numbers numbers = normal;
  std::uint64_t seed = 0;
};

// The value of a variable of a rule in an instance.
struct Choice {
  bool made = false;
  bool absent = false;
  Arg literal = {};
  std::optional<TensorChoice> tensor = {};
  int same_as = -1;        // index of the variable whose value it shares
  bool as_tensor = false;  // a number as a tensor without dimensions
  bool inverse = false;    // a factor as a division
};

// How to build an instance of a form of `before`.
struct Recipe {
  std::size_t form = 0;
  std::vector<Choice> variables = {};
  bool functions = false;      // spelled as in torch.fx, not as in torch.export
  bool typed = true;           // with the types of all values
  bool symbolic = false;       // sizes of kSymbol are "s0"
  bool used = false;           // other nodes use its results, which are not returned
  std::uint64_t spelling = 0;  // selects among equivalent spellings; 0: the default one
};

// No other size that is drawn is a multiple of it, so that every dimension with a multiple of this
// size comes from the symbol.
inline constexpr std::int64_t kSymbol = 7;

struct Instance {
  Model model;
  std::vector<c10::IValue> inputs;
  std::vector<NodeId> results;
  bool symbolic = false;
};

// Builds the instance and records the types of its values. Throws Error if it does not run.
Instance build(const rules::Definition& rule, const Recipe& recipe);

// Computes one node of the form from the variables that have been chosen so far.
c10::IValue value_of(const rules::Definition& rule, const Recipe& recipe, NodeId node);

// The ranks that each variable had in instances that ran. Later guesses prefer them.
using Experience = std::vector<std::vector<std::int64_t>>;

// A random instance that runs; or none, and the reason why the last try did not run.
struct Guess {
  std::optional<Recipe> recipe;
  std::string problem;
};
Guess guess(const rules::Definition& rule, std::size_t form, Random& random,
            Experience& experience);

// Recipes that are slightly simpler, the simplest first.
std::vector<Recipe> simpler(const rules::Definition& rule, const Recipe& recipe);
// The complexity of an instance for a person who reads it.
std::int64_t weight_of(const Recipe& recipe);

}  // namespace refx::checking
