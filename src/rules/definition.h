// SPDX-License-Identifier: Apache-2.0
#pragma once

// rules/: rewrites that are written down. docs/rules.md has the language.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/model.h"

namespace refx::rules {

// What a variable of a rule stands for.
enum class Kind : std::uint8_t {
  value,   // a tensor of the graph
  weight,  // a tensor of the model: a parameter, a buffer or a constant
  number,  // any number ("float")
  factor,  // a number that is multiplied by; a division by c is one by 1/c
  integer,
  truth,
  dtype,
  any,  // any argument, such as a list of sizes
};
std::string_view to_string(Kind kind);

struct Variable {
  std::string name;
  Kind kind = Kind::value;
  std::optional<Arg> otherwise = {};  // where the model does without it
};

// A small graph: its inputs are variables. Literals that are computed with are nodes, too.
struct Body {
  Model model;
  std::map<std::string, NodeId> named;  // its inputs, and the values that have a name
  std::vector<Arg> results;             // nodes, or literals
};

struct Condition {
  std::string text;  // as it is written
  Arg value;         // in `where`
};

// A rule as it is written.
struct Definition {
  std::string name, summary;
  std::string text;
  bool same_results = true;  // up to rounding
  std::vector<Variable> variables;
  std::vector<Body> before;  // at least one; they differ in spelling
  std::vector<std::string> once_names;
  std::optional<Body> once;
  Body after;
  Body where;  // what its conditions are computed from
  std::vector<Condition> conditions;
};

const Variable* find_variable(const Definition& rule, std::string_view name);

// Every rule of a text. Throws Error with line and column.
std::vector<Definition> parse_definitions(std::string_view text);

}  // namespace refx::rules
