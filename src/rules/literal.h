// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/node.h"

namespace refx::rules {

// Computation with the literals of a rule: numbers, booleans, dtypes.

// A literal, or the reason why it cannot be computed.
struct Literal {
  Arg value;
  std::string problem = {};
};
inline Literal no_literal(std::string problem) { return {None{}, std::move(problem)}; }

// "+" in the text of a rule is operator.add in its graph.
bool is_operator(std::string_view target);
// The functions of the rule language: rank(x), size(x, dim), dtype(x), floating(x), near(a, b),
// sqrt(c) …
bool is_question(std::string_view name);
const std::vector<std::string>& questions();
std::size_t arguments_of(std::string_view question);
// Whether its result may be a tensor: that of value_or(b, 0.0).
bool may_give_tensor(std::string_view question);
// The target of its node: "rule.rank".
std::string question_target(std::string_view name);

// The known types of the tensors that are arguments of a question.
using TypeOfValue = std::function<TypePtr(NodeId)>;

// The result of an operator or a question. Nodes among the arguments are tensors.
Literal compute(std::string_view target, const Args& args, const TypeOfValue& type_of);

std::optional<double> number_of(const Arg& arg);  // an integer or a float, not a boolean
bool same_number(const Arg& a, const Arg& b);     // 2 is 2.0
bool truth_of(const Arg& arg);                    // as in Python

}  // namespace refx::rules
