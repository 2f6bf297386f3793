// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rules/definition.h"
#include "rules/outline.h"
#include "rules/reading.h"

namespace refx::rules {

// The value of a variable at one site of a model.
struct Binding {
  Arg value;           // a node, or a literal
  StateId state = {};  // of a weight
  bool bound = false;
};

// One site that matches a form of `before`.
struct Match {
  std::size_t form = 0;
  std::vector<Binding> variables;  // in the order of the rule's
  std::vector<NodeId> of;       // the model's node for each of the form's; no id for those left out
  std::vector<NodeId> outputs;  // whose values are kept
  std::vector<NodeId> inner;    // whose values are not, in the order of the graph
  std::vector<NodeId> beside;   // constants that were read as numbers
  std::vector<NodeId> copies;   // that stand for what they hand on
};

// The value behind a chain of no-ops.
NodeId behind_no_ops(const Model& model, NodeId id);

// A call in the graph of a rule, under the name that other spellings are read as.
Reading read_form(const Body& body, NodeId id);

// A form of `before`, prepared for matching.
class Pattern {
 public:
  Pattern(const Definition& rule, const Body& body);

  // The match whose first result is `root`.
  std::optional<Match> at(const Model& model, NodeId root) const;
  // Adds the operators that the root may call.
  void add_root_names(std::vector<Symbol>& names) const;
  // Returns false if the names of the first few calls rule out a match. This check is cheap.
  bool may_be_at(const Model& model, Outline& outline, NodeId root) const;

 private:
  friend class Search;
  struct Part {
    Reading reading;
    std::vector<Symbol> names;                  // the names under which it may be found
    const Reading::Given* optional = nullptr;   // the model may omit this operand and the call
    const Reading::Given* principal = nullptr;  // the value that remains in this case
  };
  const Variable* variable(NodeId id) const;
  std::size_t index(NodeId variable) const;
  void add_names(NodeId id, std::vector<Symbol>& names) const;
  NodeId left_of(const Part& part) const;
  bool may_be_absent(NodeId form) const;
  struct Names;

  const Definition* rule_;
  const Body* body_;
  std::vector<Part> parts_;               // by node of the body
  std::vector<std::size_t> variable_of_;  // by node of the body; npos: none
};

}  // namespace refx::rules
