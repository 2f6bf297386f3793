// SPDX-License-Identifier: Apache-2.0

#include "refx/transformation.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/content.h"
#include "refx/error.h"
#include "refx/id_set.h"
#include "refx/old_names.h"
#include "refx/text.h"
#include "transforms/apply.h"
#include "transforms/subgraph_sites.h"

namespace refx {

namespace {

// A transformation whose result always has another site would never end: its rounds are counted,
// and once the graph has grown a lot, what it made itself is left alone.
constexpr int kMaxRounds = 64;
constexpr std::size_t kMaxGrowth = 2, kSmallGraph = 64;

Editor::Label label(const Transformation& transformation, Name site) {
  return {transformation.name(), transformation.signature(), std::move(site),
          transformation.parameters(), transformation.numerics()};
}

// What a step has put others in the place of is needed again only when it is reversed.
void let_go_replaced(const Step& step) {
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      let_go_content(change->before->tensor);
}

StepId apply_site(Editor& editor, const Transformation& transformation, Editor::Label what,
                  const Site& site, std::vector<Refusal>& refused) try {
  auto why = is_in_subgraph(editor.model(), site) ? apply_in_subgraph(editor, transformation, site)
                                                  : transformation.apply(editor, site);
  if (why) {
    editor.roll_back();
    why->nodes.clear();  // they may be of a subgraph, or have been made meanwhile
    refused.push_back({site, std::move(*why)});
    return {};
  }
  if (!editor.changed()) {
    editor.roll_back();
    return {};
  }
  what.site = site.name;
  for (NodeId node : site.nodes)
    if (editor.graph().contains(node)) editor.mark(node, what.signature);
  const StepId id = editor.commit(std::move(what));
  let_go_replaced(editor.model().history()[id]);
  return id;
} catch (const c10::Error& error) {
  throw Error(fmt::format("{} at {}: {}", transformation.name(), site.name,
                          error.what_without_backtrace()));
}

// What was found in the graph, and what there is in its subgraphs, with names.
Findings all_sites(const Model& model, const Transformation& transformation, Findings found) {
  SiteNames names(model);
  names.complete(found);
  Findings inside = find_in_subgraphs(model, transformation, names);
  std::ranges::move(inside.sites, std::back_inserter(found.sites));
  std::ranges::move(inside.refusals, std::back_inserter(found.refusals));
  return found;
}

bool lies_in(const Site& site, const IdSet<Node>& nodes) {
  return std::all_of(site.nodes.begin(), site.nodes.end(),
                     [&](NodeId node) { return nodes.contains(node); });
}

// A node that an earlier site of the same round wrote may not be what find() saw.
bool is_fresh(const Model& model, const Site& site, const IdSet<Node>& written) {
  return std::all_of(site.nodes.begin(), site.nodes.end(), [&](NodeId node) {
    return model.graph().contains(node) && !written.contains(node);
  });
}

// What was refused before and while applying, as find() would have it: in graph order.
std::vector<Refusal> all_of(const Graph& graph, std::vector<Refusal> before,
                            const std::vector<Refusal>& later) {
  if (later.empty()) return before;
  before.insert(before.end(), later.begin(), later.end());
  std::stable_sort(before.begin(), before.end(), [&](const Refusal& a, const Refusal& b) {
    return graph.precedes(a.site.nodes.back(), b.site.nodes.back());
  });
  return before;
}

}  // namespace

std::vector<Refusal> apply_sites(Model& model, const Transformation& transformation,
                                 const AcceptSite& accept, const OnStep& on_step) {
  const std::size_t large = kMaxGrowth * model.graph().size() + kSmallGraph;
  const Editor::Label what = label(transformation, {});
  IdSet<Node> made;
  Editor editor(model);
  for (int round = 0;; ++round) {
    Findings findings = all_sites(model, transformation, transformation.find(model));
    std::vector<Refusal> refused;
    IdSet<Node> written;
    // A step in a subgraph replaces it, so that its other sites are found again.
    bool any = false, again = !transformation.reaches_fixpoint_in_one_pass();
    for (const Site& site : findings.sites) {
      if (round == kMaxRounds || !accept(site)) continue;
      if (!is_fresh(model, site, written)) {
        again = true;
        continue;
      }
      if (model.graph().size() > large && lies_in(site, made)) continue;
      const StepId id = apply_site(editor, transformation, what, site, refused);
      if (!id) continue;
      any = true;
      for (NodeId node : site.nodes) written.insert(node);
      for (const Edit& edit : model.history().back().edits)
        if (const auto* change = std::get_if<Change<Node>>(&edit)) {
          written.insert(change->id);
          made.insert(change->id);
        }
      on_step(site, id);
    }
    if (!any || !again) return all_of(model.graph(), std::move(findings.refusals), refused);
  }
}

bool Findings::add(Site site, std::optional<Reason> reason) {
  if (reason)
    refusals.push_back({std::move(site), std::move(*reason)});
  else
    sites.push_back(std::move(site));
  return !reason;
}

Findings find_sites(const Model& model, const Transformation& transformation) {
  return all_sites(model, transformation, transformation.find(model));
}

Outcome Transformation::operator()(Model& model, Reverse direction) const {
  if (direction == Reverse::no) return refx::apply(model, *this);
  if (!reversible())
    throw Error(
        fmt::format("{} is not reversible; its steps are in the history and can be "
                    "reversed one by one",
                    name()));
  std::vector<StepId> steps;
  const Name own = signature();
  for (const Step& step : model.history())
    if (same_transformation(step.signature, own)) steps.push_back(step.id);
  Outcome outcome;
  outcome.reversal = reverse(model, steps);
  return outcome;
}

std::string Transformation::signature() const {
  std::string text = name();
  const Graph no_nodes;
  char separator = '(';
  for (const auto& [key, value] : parameters()) {
    text += separator + key + "=" + print(value, no_nodes);
    separator = ',';
  }
  return separator == '(' ? text : text + ")";
}

void Transformation::mark_as_transformed(Model& model, NodeId node) const {
  Editor editor(model);
  editor.mark(node, signature());
  editor.commit(label(*this, model.graph()[node].name));
}

void Transformation::mark_as_restored(Model& model, NodeId node) const {
  Editor editor(model);
  editor.unmark(node, signature());
  editor.commit(label(*this, model.graph()[node].name));
}

bool Transformation::transformed(const Model& model, NodeId node) const {
  const auto& marks = model.graph()[node].marks;
  const std::string own = signature();
  return std::any_of(marks.begin(), marks.end(),
                     [&](const Name& mark) { return same_transformation(mark, own); });
}

std::vector<NodeId> Transformation::get_transformed_nodes(const Model& model) const {
  std::vector<NodeId> nodes;
  for (NodeId node : model.graph())
    if (transformed(model, node)) nodes.push_back(node);
  return nodes;
}

}  // namespace refx
