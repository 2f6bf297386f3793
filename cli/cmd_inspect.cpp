// SPDX-License-Identifier: Apache-2.0

// refx inspect: shows what a model contains and which transformations apply.

#include <fmt/format.h>

#include <set>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "patterns.h"
#include "refx/detach.h"
#include "refx/executor.h"
#include "refx/registry.h"
#include "refx/text.h"
#include "summary.h"
#include "util/json_writer.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

struct Tensors {
  std::size_t tensors = 0, elements = 0, bytes = 0;
};

struct Summary {
  Summary(const Model& m, const InspectOptions& options) : model(m), counts(operators(m)) {
    for (NodeId id : m.graph())
      if (const Node& node = m.graph()[id]; node.op == Opcode::placeholder && node.state.empty())
        inputs.push_back(&node);
    // Tied tensors share their memory; it is counted for the first of them.
    std::set<const void*> storages;
    for (StateId id : m.state()) {
      const StateEntry& entry = m.state()[id];
      Tensors& of = state[static_cast<std::size_t>(entry.kind)];
      ++of.tensors;
      const bool tied = entry.tensor.has_storage() &&
                        !storages.insert(entry.tensor.storage().unsafeGetStorageImpl()).second;
      if (tied) continue;
      of.elements += static_cast<std::size_t>(entry.tensor.numel());
      of.bytes += entry.tensor.nbytes();
    }
    if (m.source()) ranges = m.source()->ranges();
    refused = refused_ops(m);
    away = detached(m);
    const std::vector<TransformationPtr> asked = asked_for(options);
    auto found = with_patterns(options.model, options.transformations,
                               [&] { return find_sites(m, asked, options.filter); });
    for (std::size_t i = 0; i < asked.size(); ++i)
      findings.emplace_back(asked[i].get(), std::move(found[i]));
  }

  static std::vector<TransformationPtr> asked_for(const InspectOptions& options) {
    if (!options.transformations.empty()) return find_transformations(options.transformations);
    std::vector<TransformationPtr> all = registry();
    if (!options.lossy)
      std::erase_if(all, [](const auto& one) { return !one->preserves_computation(); });
    return all;
  }

  const Model& model;
  Counts counts;
  std::vector<const Node*> inputs;
  Tensors state[3];
  std::map<std::string, Source::Range> ranges;
  std::vector<RefusedOp> refused;
  std::vector<DetachedTensor> away;
  std::vector<std::pair<const Transformation*, Findings>> findings;
};

constexpr StateKind kKinds[] = {StateKind::parameter, StateKind::buffer, StateKind::constant};

std::string range_text(const Source::Range& range) {
  if (range.min && range.max) return fmt::format("{} to {}", *range.min, *range.max);
  if (range.min) return fmt::format("{} or more", *range.min);
  if (range.max) return fmt::format("{} or less", *range.max);
  return "any";
}

std::string type_text(const Node& node) {
  if (node.type) return print(*node.type);
  return node.args.empty() ? "not known" : fmt::format("always {}", print(node.args[0], Graph()));
}

// ---- for people --------------------------------------------------------------------------------

void print_section(const char* title, const TextTable& table) {
  if (table.empty()) return;
  say("\n{}\n", heading(title));
  say_table(table, 2);
}

void print_model(const Summary& s) {
  TextTable inputs;
  for (const Node* node : s.inputs) inputs.row({node->name, type_text(*node)});
  print_section("inputs", inputs);

  TextTable ranges;
  for (const auto& [symbol, range] : s.ranges) ranges.row({symbol, range_text(range)});
  print_section("dynamic dimensions", ranges);

  TextTable state({TextTable::left, TextTable::right, TextTable::right, TextTable::right});
  for (StateKind kind : kKinds)
    if (const Tensors& t = s.state[static_cast<std::size_t>(kind)]; t.tensors > 0)
      state.row({fmt::format("{}s", to_string(kind)), count(t.tensors, "tensor"),
                 count(t.elements, "element"), human_bytes(t.bytes)});
  print_section("state", state);

  TextTable counts({TextTable::left, TextTable::right});
  for (const auto& [name, n] : s.counts) counts.row({name, std::to_string(n)});
  print_section("operators", counts);

  TextTable refused;
  for (const RefusedOp& op : s.refused) refused.row({op.op, op.reason});
  print_section("operators that run only with --allow-ops", refused);
}

// Transformations that `all` leaves out have sites at nearly every layer. Their sites are counted,
// and listed only on request.
void print_findings(const Summary& s, const InspectOptions& options) {
  const bool list_every_site = !options.transformations.empty() || !options.filter.empty();
  bool counted = false;
  TextTable overview({TextTable::left, TextTable::right, TextTable::right});
  overview.head({"transformation", "sites", "refused"});
  TextTable sites, refusals;
  std::size_t idle = 0;
  for (const auto& [transformation, found] : s.findings) {
    if (found.sites.empty() && found.refusals.empty()) {
      ++idle;
      continue;
    }
    overview.row({transformation->name(), std::to_string(found.sites.size()),
                  std::to_string(found.refusals.size())});
    if (!transformation->in_all() && !list_every_site) {
      counted = true;
      continue;
    }
    for (const Site& site : found.sites) sites.row({transformation->name(), site.name});
    for (const Refusal& refusal : found.refusals)
      refusals.row({transformation->name(), refusal.site.name, to_string(refusal.reason)});
  }
  say("\n");
  if (!overview.empty()) say_table(overview);
  if (idle > 0)
    say("{}: no sites\n",
        count(idle, overview.empty() ? "transformation" : "other transformation"));
  if (counted)
    say("`refx inspect {} NAME` lists the sites of a transformation that `all` leaves out\n",
        shell_word(options.model));
  print_section("sites", sites);
  print_section("refused, and why", refusals);
}

void print_summary(const InspectOptions& options, const Summary& s) {
  const std::string& path = options.model;
  say("{}\n", heading(fmt::format("{}: {} in {}", path, count(total(s.counts), "operator"),
                                  count(s.model.graph().size(), "node"))));
  const std::size_t steps = s.model.history().size();
  say("history: {}\n", steps == 0 ? "no steps"
                                  : fmt::format("{} (`refx log {}` lists them)",
                                                count(steps, "step"), shell_word(path)));
  if (!s.away.empty()) say("detached: {}\n", originals(s.away));
  print_model(s);
  print_findings(s, options);
}

// ---- for programs ------------------------------------------------------------------------------

void write_inputs(Json& json, const Summary& s) {
  json.key("inputs").array(Json::kLines);
  for (const Node* node : s.inputs) {
    json.object().member("name", node->name).key("type");
    node->type ? json.value(print(*node->type)) : json.null();
    json.end();
  }
  json.end().key("dynamic_dimensions").object(Json::kLines);
  for (const auto& [symbol, range] : s.ranges) {
    json.key(symbol).object().key("min");
    range.min ? json.value(*range.min) : json.null();
    json.key("max");
    range.max ? json.value(*range.max) : json.null();
    json.end();
  }
  json.end();
}

void write_state(Json& json, const Summary& s) {
  json.key("state").object(Json::kLines);
  for (StateKind kind : kKinds) {
    const Tensors& t = s.state[static_cast<std::size_t>(kind)];
    json.key(fmt::format("{}s", to_string(kind))).object().member("tensors", t.tensors);
    json.member("elements", t.elements).member("bytes", t.bytes).end();
  }
  json.end();
}

void write_refused(Json& json, const Summary& s) {
  json.key("refused_operators").array(Json::kLines);
  for (const RefusedOp& op : s.refused)
    json.object().member("operator", op.op).member("reason", op.reason).end();
  json.end();
}

void write_findings(Json& json, const Summary& s) {
  json.key("sites").array(Json::kLines);
  for (const auto& [transformation, found] : s.findings)
    for (const Site& site : found.sites)
      json.object()
          .member("transformation", transformation->name())
          .member("site", site.name)
          .end();
  json.end().key("refusals").array(Json::kLines);
  for (const auto& [transformation, found] : s.findings)
    for (const Refusal& refusal : found.refusals)
      write_refusal(json, s.model, transformation->name(), refusal);
  json.end();
}

void print_json(const InspectOptions& options, const Summary& s) {
  Json json;
  json.object(Json::kLines).member("model", options.model);
  json.member("nodes", s.model.graph().size()).member("steps", s.model.history().size());
  json.key("detached").object().member("tensors", s.away.size());
  json.member("bytes", total_bytes(s.away)).end();
  write_inputs(json, s);
  write_state(json, s);
  write(json.key("operators"), s.counts);
  write_refused(json, s);
  write_findings(json, s);
  if (options.graph) json.member("graph", print_brief(s.model));
  say_exactly(json.end().take());
}

}  // namespace

int inspect(const InspectOptions& options) {
  Model& model = open_model(options.model);
  if (options.graph && !options.json) {
    say_lines(print_brief(model));
    return kDone;
  }
  const Summary summary(model, options);
  if (options.json)
    print_json(options, summary);
  else
    print_summary(options, summary);
  return kDone;
}

}  // namespace refx::cli
