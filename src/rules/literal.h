// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/node.h"

namespace refx::rules {

// Computing with the literals of a rule: numbers, truth values, dtypes.

// A literal, or why there is none.
struct Literal {
  Arg value;
  std::string problem = {};
};
inline Literal no_literal(std::string problem) { return {None{}, std::move(problem)}; }

// "+" of a text is operator.add in a graph.
bool is_operator(std::string_view target);
// What a rule can ask: rank(x), size(x, dim), dtype(x), floating(x), near(a, b), sqrt(c) …
bool is_question(std::string_view name);
const std::vector<std::string>& questions();
std::size_t arguments_of(std::string_view question);
// Whether what it gives may be a tensor: either(b, 0.0).
inline bool may_give_tensor(std::string_view question) { return question == "either"; }
// As the target of a node: "rule.rank".
std::string question_target(std::string_view name);

// What is known of the tensors that a question is about.
using TypeOfValue = std::function<TypePtr(NodeId)>;

// What an operator or a question gives for these arguments. Nodes among them are tensors.
Literal compute(std::string_view target, const Args& args, const TypeOfValue& type_of);

std::optional<double> number_of(const Arg& arg);  // an integer or a float, not a truth value
bool same_number(const Arg& a, const Arg& b);     // 2 is 2.0
bool truth_of(const Arg& arg);                    // as in Python

}  // namespace refx::rules
