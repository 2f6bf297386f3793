// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/literal.h"
#include "rules/match.h"

namespace refx::rules {

// The values of the nodes of a rule's graph, by node.
using Values = std::vector<Arg>;

// Makes the call of a node, whose arguments are given; returns its value.
using MakeCall = std::function<Arg(NodeId form, const Reading& call)>;

// The variables of a match in a graph of its rule. A layer's own tensors have no node: they get ids
// beyond those of any graph.
Values values_of(const Definition& rule, const Body& body, const Match& match);
// Computes the literals of a graph and makes its calls, in order. Returns what is wrong.
std::string substitute(const Body& body, Values& values, const TypeOfValue& type_of,
                       const MakeCall& make);
Arg substituted(const Arg& arg, const Values& values);

// What is known of a value of a model, or of a layer's own tensor.
TypePtr known_type(const Model& model, const Match& match, NodeId id);

// Whether a node of a rule's graph is a question about its arguments, which is not for their
// values.
bool asks(const Node& node);

// Whether a condition holds at a match; a literal with a problem where that is not known.
Literal holds(const Definition& rule, const Condition& condition, const Model& model,
              const Match& match);

}  // namespace refx::rules
