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

// Creates the call of a node with these arguments and returns its value.
using MakeCall = std::function<Arg(NodeId form, const Reading& call)>;

// The values of a match's variables in a graph of its rule. A layer's own tensors have no node:
// they get ids beyond those of any graph.
Values values_of(const Definition& rule, const Body& body, const Match& match);
// Computes the literals of a graph and creates its calls, in order. Returns the problem, if any.
std::string substitute(const Body& body, Values& values, const TypeOfValue& type_of,
                       const MakeCall& make);
Arg substituted(const Arg& arg, const Values& values);

// The known type of a value of the model, or of a layer's own tensor.
TypePtr known_type(const Model& model, const Match& match, NodeId id);

// Returns true if a node of a rule's graph is a question, which reads types and not values.
bool asks(const Node& node);

// Evaluates a condition at a match. The literal has a problem if the result is not known.
Literal holds(const Definition& rule, const Condition& condition, const Model& model,
              const Match& match);

}  // namespace refx::rules
