// SPDX-License-Identifier: Apache-2.0

#include "refx/rule.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/names.h"
#include "refx/error.h"
#include "rules/legality.h"
#include "rules/match.h"
#include "rules/rewrite.h"
#include "util/limits.h"
#include "util/regular_file.h"

namespace refx {

namespace rules {

// A rule ready to be looked for.
struct Compiled {
  explicit Compiled(Definition rule) : rule(std::move(rule)) {
    for (const Body& form : this->rule.before) {
      patterns.emplace_back(this->rule, form);
      patterns.back().add_root_names(roots);
    }
  }

  // The outline, where there is one, rules most places out.
  std::optional<Match> at(const Model& model, NodeId root, Outline* outline = nullptr) const {
    for (std::size_t i = 0; i < patterns.size(); ++i)
      if (!outline || patterns[i].may_be_at(model, *outline, root))
        if (auto match = patterns[i].at(model, root)) {
          match->form = i;
          return match;
        }
    return std::nullopt;
  }

  Definition rule;
  std::vector<Pattern> patterns;
  std::vector<Symbol> roots;  // what the results are called
};

}  // namespace rules

namespace {

using rules::Match;

Site site_of(const Match& match) {
  Site site{.nodes = match.outputs};
  site.nodes.insert(site.nodes.end(), match.inner.begin(), match.inner.end());
  return site;
}

// Of places within places, the outer ones: a norm with its weight, not the norm alone.
void keep_outermost(std::vector<Site>& sites) {
  std::unordered_map<NodeId, std::size_t> ends;  // by result
  for (std::size_t i = 0; i < sites.size(); ++i) ends.emplace(sites[i].nodes[0], i);
  std::vector<bool> within(sites.size());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::unordered_set<NodeId> nodes(sites[i].nodes.begin(), sites[i].nodes.end());
    for (NodeId node : nodes) {
      const auto it = ends.find(node);
      if (it == ends.end() || it->second == i) continue;
      const auto& others = sites[it->second].nodes;
      if (others.size() < nodes.size() &&
          std::all_of(others.begin(), others.end(), [&](NodeId id) { return nodes.contains(id); }))
        within[it->second] = true;
    }
  }
  std::size_t at = 0;
  std::erase_if(sites, [&](const Site&) { return within[at++]; });
}

// A part of a site, taken for itself, need not be refused: a norm without the cast that ends it.
void drop_inner(Findings& findings) {
  std::unordered_set<NodeId> taken;
  for (const Site& site : findings.sites) taken.insert(site.nodes.begin(), site.nodes.end());
  std::erase_if(findings.refusals, [&](const Refusal& refusal) {
    return std::all_of(refusal.site.nodes.begin(), refusal.site.nodes.end(),
                       [&](NodeId id) { return taken.contains(id); });
  });
}

RuleMatch as_shown(const rules::Definition& rule, const Model& model, const Match& match) {
  RuleMatch shown{model, match.outputs[0], {}};
  for (std::size_t i = 0; i < rule.variables.size(); ++i) {
    const rules::Binding& binding = match.variables[i];
    const bool weight = rule.variables[i].kind == rules::VariableKind::weight;
    shown.variables.push_back(
        {rule.variables[i].name, binding.value, weight ? binding.state : StateId()});
  }
  return shown;
}

}  // namespace

Rule::Rule(std::shared_ptr<const rules::Compiled> compiled) : compiled_(std::move(compiled)) {}

std::string Rule::name() const { return compiled_->rule.name; }
std::string Rule::summary() const { return compiled_->rule.summary; }
const std::string& Rule::text() const { return compiled_->rule.text; }
Numerics Rule::numerics() const {
  return compiled_->rule.same_results ? Numerics::preserved : Numerics::approximate;
}

const rules::Definition& Rule::definition() const { return compiled_->rule; }

Rule& Rule::set_check(SiteCheck check) {
  check_ = std::move(check);
  return *this;
}

Findings Rule::find(const Model& model) const {
  Findings findings;
  LazyWrites writes(model);
  const auto outline = rules::Outline::of(model);
  for (NodeId id : outline->calls(compiled_->roots)) {
    const auto match = compiled_->at(model, id, outline.get());
    if (!match) continue;
    Site site = site_of(*match);
    std::optional<Reason> reason = why_not(compiled_->rule, model, *match, writes);
    if (!reason && check_) reason = check_(as_shown(compiled_->rule, model, *match));
    findings.add(std::move(site), std::move(reason));
  }
  keep_outermost(findings.sites);
  drop_inner(findings);
  return findings;
}

std::optional<Reason> Rule::apply(Editor& editor, const Site& site) const {
  const auto match = compiled_->at(editor.model(), site.nodes[0]);
  REFX_CHECK(match, "rule '" + name() + "' is applied where it does not match");
  rewrite(compiled_->rule, editor, *match);
  return std::nullopt;
}

std::vector<Rule> parse_rules(std::string_view text) {
  std::vector<Rule> all;
  for (rules::Definition& definition : rules::parse_definitions(text))
    all.emplace_back(std::make_shared<rules::Compiled>(std::move(definition)));
  return all;
}

Rule parse_rule(std::string_view text) {
  std::vector<Rule> all = parse_rules(text);
  if (all.size() != 1) throw Error(fmt::format("expected one rule, found {}", all.size()));
  return all[0];
}

std::vector<Rule> load_rules(const std::string& path) {
  const int file = open_regular(path);
  std::string text(limits::kRuleText + 1, '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < text.size(); size += static_cast<std::size_t>(got)) {
    got = ::read(file, text.data() + size, text.size() - size);
    if (got < 0) {
      ::close(file);
      throw Error(fmt::format("cannot read '{}'", path));
    }
  }
  ::close(file);
  text.resize(size);
  try {
    return parse_rules(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace refx
