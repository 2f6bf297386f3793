// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/transformation.h"

namespace refx {

namespace rules {
struct Compiled;
struct Definition;
}  // namespace rules

// What the variables of a rule stand for at one place of a model.
struct RuleMatch {
  struct Variable {
    std::string name;
    Arg value;      // a node or a literal
    StateId state;  // of a weight
  };
  const Model& model;
  NodeId result;
  std::vector<Variable> variables;
};

// A rewrite that is written down: a graph before, a graph after, and what is computed once.
// docs/rules.md has the language.
class REFX_API Rule : public ReversibleTransformation {
 public:
  explicit Rule(std::shared_ptr<const rules::Compiled> compiled);

  std::string name() const override;
  std::string summary() const override;
  const std::string& text() const;  // as it is written
  bool preserves_computation() const override;
  Kwargs parameters() const override;  // approximate=True of one that does not preserve it
  Findings find(const Model& model) const override;
  void apply(Editor& editor, const Site& site) const override;

  // Gives a reason not to apply the rule at a place, or nothing. Asked after all else.
  using Check = std::function<std::string(const RuleMatch& match)>;
  Rule& set_check(Check check);

  const rules::Definition& definition() const;  // as it is written

 private:
  std::shared_ptr<const rules::Compiled> compiled_;
  Check check_;
};

// The rules of a text; one of them. Throws Error with line and column.
REFX_API std::vector<Rule> parse_rules(std::string_view text);
REFX_API Rule parse_rule(std::string_view text);
// Those of a file. Throws Error that names it.
REFX_API std::vector<Rule> load_rules(const std::string& path);

// As register_transformation(); a rule of that name gives way, as when a cell of a notebook is run
// again.
REFX_API void register_rule(Rule rule);

}  // namespace refx
