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

// The values of a rule's variables at one site of a model.
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

// A declarative rewrite rule: the graph that it matches, the graph that replaces it, and tensors
// that are computed once, when the rule is applied. docs/rules.md describes the language.
class REFX_API Rule : public ReversibleTransformation {
 public:
  explicit Rule(std::shared_ptr<const rules::Compiled> compiled);

  std::string name() const override;
  std::string summary() const override;
  const std::string& text() const;  // the source text of the rule
  Numerics numerics() const override;
  Findings find(const Model& model) const override;
  std::optional<Reason> apply(Editor& editor, const Site& site) const override;

  // Returns a reason not to apply the rule at a site, or nullopt. It is called last, only
  // for sites that all other checks accept.
  using SiteCheck = std::function<std::optional<Reason>(const RuleMatch& match)>;
  Rule& set_check(SiteCheck check);

  const rules::Definition& definition() const;  // the parsed text

 private:
  std::shared_ptr<const rules::Compiled> compiled_;
  SiteCheck check_;
};

// The rules of a text, or its only rule. Throws Error with line and column.
REFX_API std::vector<Rule> parse_rules(std::string_view text);
REFX_API Rule parse_rule(std::string_view text);
// The rules of a file. Throws Error, which names the file.
REFX_API std::vector<Rule> load_rules(const std::string& path);

// Like register_transformation(), but replaces a registered rule of that name, so that the cell of
// a notebook that defines a rule can run again.
REFX_API void register_rule(Rule rule);

}  // namespace refx
