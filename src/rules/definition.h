// SPDX-License-Identifier: Apache-2.0
#pragma once

// rules/: declarative rewrite rules. docs/rules.md describes the language.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/model.h"

namespace refx::rules {

// The kinds of values that a variable of a rule matches.
enum class VariableKind : std::uint8_t {
  value,   // a tensor of the graph
  weight,  // a tensor of the model: a parameter, a buffer or a constant
  number,  // any number ("float")
  factor,  // a number by which the model multiplies; a division by c is a factor 1/c
  integer,
  boolean,
  dtype,
  any,  // any argument, such as a list of sizes
};
std::string_view to_string(VariableKind kind);

struct Variable {
  std::string name;
  VariableKind kind = VariableKind::value;
  std::optional<Arg> default_value = {};  // its value if the model omits it
};

// A small graph whose inputs are variables. Computations with literals are nodes, too.
struct Body {
  Model model;
  std::map<std::string, NodeId> named;  // its inputs, and the values that have a name
  std::vector<Arg> results;             // nodes, or literals
};

struct Condition {
  std::string text;  // as it is written
  Arg value;         // in `where`
};

// A parsed rule.
struct Definition {
  std::string name, summary;
  std::string text;
  bool same_results = true;  // up to rounding
  std::vector<Variable> variables;
  std::vector<Body> before;  // the forms of the pattern, at least one
  std::vector<std::string> once_names;
  std::optional<Body> once;
  Body after;
  Body where;  // computes the conditions
  std::vector<Condition> conditions;
};

const Variable* find_variable(const Definition& rule, std::string_view name);

// Parses all rules of a text. Throws Error with line and column.
std::vector<Definition> parse_definitions(std::string_view text);

}  // namespace refx::rules
