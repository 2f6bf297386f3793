// SPDX-License-Identifier: Apache-2.0

// What every transformation promises, checked for each registered one on each model of the zoo.

#include <algorithm>
#include <set>

#include "edit/transaction.h"
#include "ir/module_path.h"
#include "kit.h"
#include "property.h"
#include "zoo.h"

namespace refx::testing {
namespace {

class Contract : public ::testing::TestWithParam<Specimen> {};

const std::vector<Specimen>& specimens() {
  static const auto* all = new std::vector<Specimen>(zoo());
  return *all;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Contract, ::testing::ValuesIn(specimens()),
                         [](const auto& info) { return info.param.name; });

void expect_identical(const Model& model, const std::string& expected, const std::string& when) {
  validate(model);
  EXPECT_EQ(snapshot(model), expected) << when;
}

// What is lost is a small part of what is finite in each output.
void expect_near_results(const Model& a, const Model& b, const std::vector<c10::IValue>& inputs) {
  const auto x = tensors_in(deep_copy(a).forward(inputs));
  const auto y = tensors_in(deep_copy(b).forward(inputs));
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i].sizes(), y[i].sizes());
    ASSERT_EQ(x[i].scalar_type(), y[i].scalar_type());
    if (!at::isFloatingType(x[i].scalar_type())) continue;
    const at::Tensor exact = x[i].to(at::kDouble).masked_fill(x[i].isfinite().logical_not(), 0);
    const at::Tensor near = y[i].to(at::kDouble).masked_fill(x[i].isfinite().logical_not(), 0);
    EXPECT_LE(near.sub(exact).norm().item<double>(), 0.1 * exact.norm().item<double>())
        << "output " << i << " of\n"
        << print(b);
  }
}

// As near as the transformations promise.
void expect_promised(const Model& original, const Model& model,
                     std::initializer_list<const Transformation*> by) {
  const bool same = std::all_of(by.begin(), by.end(), [](const Transformation* transformation) {
    return transformation->preserves_computation();
  });
  (same ? expect_same_results : expect_near_results)(original, model, random_inputs(original));
}

TEST(ContractZoo, ReachesEveryLossyTransformationInEverySpelling) {
  for (const auto& transformation : registry()) {
    if (transformation->preserves_computation()) continue;
    // Experts are exported programs, with models of their own: rules/shipped_test.cpp, test_moe.py.
    if (transformation->name().find("grouped-mm") != std::string::npos) continue;
    for (const char* spelling : {"_aten_", "_functional_", "_module_"}) {
      std::size_t sites = 0;
      for (const Specimen& specimen : specimens())
        if (specimen.name.find(spelling) != specimen.name.npos)
          sites += transformation->find(specimen.model).sites.size();
      EXPECT_GT(sites, 1u) << transformation->name() << " in " << spelling;
    }
  }
}

TEST_P(Contract, FindChangesNothing) {
  const Model& model = GetParam().model;
  const std::string before = snapshot(model);
  for (const auto& transformation : registry()) {
    for (const Refusal& refusal : find_sites(model, *transformation).refusals) {
      EXPECT_NE(refusal.reason.id, ReasonId::custom) << to_string(refusal.reason);
      const ReasonInfo& row = *find_reason(code(refusal.reason));
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(row.text, '{')),
                refusal.reason.arguments.size())
          << row.code;
      EXPECT_FALSE(refusal.nodes().empty()) << row.code;
      for (NodeId node : refusal.nodes()) EXPECT_TRUE(model.graph().contains(node)) << row.code;
      EXPECT_FALSE(refusal.site.name.empty());
    }
    EXPECT_EQ(snapshot(model), before) << transformation->name();
  }
}

TEST_P(Contract, ApplyRunReverseRedo) {
  const Model& original = GetParam().model;
  const std::string before = snapshot(original);
  for (const auto& transformation : registry()) {
    Model model = original;
    const Outcome outcome = (*transformation)(model);
    validate(model);
    if (outcome.steps.empty()) {
      expect_identical(model, before, "no site");
      continue;
    }
    expect_promised(original, model, {transformation.get()});
    EXPECT_TRUE((*transformation)(model).steps.empty()) << "a second application does something";
    EXPECT_FALSE(transformation->get_transformed_nodes(model).empty());
    const std::string after = snapshot(model);
    (*transformation)(model, Reverse::yes);
    expect_identical(model, before, "reversed " + transformation->name());
    EXPECT_TRUE(model.history().empty());
    while (redo(model)) continue;
    expect_identical(model, after, "redone " + transformation->name());
    reverse_all(model);
    expect_identical(model, before, "reversed again " + transformation->name());
  }
}

TEST_P(Contract, EveryPairReversesInBothOrders) {
  const Model& original = GetParam().model;
  const std::string before = snapshot(original);
  for (const auto& a : registry()) {
    Model only_a = original;
    (*a)(only_a);
    if (only_a.history().empty()) continue;  // then it is `b` alone
    const std::string with_a = snapshot(only_a);
    for (const auto& b : registry()) {
      if (a == b) continue;
      Model both = only_a;
      (*b)(both);
      if (both.history().size() == only_a.history().size()) continue;
      validate(both);
      expect_promised(original, both, {a.get(), b.get()});

      Model last_first = both;
      (*b)(last_first, Reverse::yes);
      expect_identical(last_first, with_a, "first " + b->name());
      (*a)(last_first, Reverse::yes);
      expect_identical(last_first, before, "then " + a->name());

      // As if `a` had never been applied: what remains is `b` applied where it still matches.
      Model first_first = both;
      (*a)(first_first, Reverse::yes);
      validate(first_first);
      expect_promised(original, first_first, {b.get()});
      for (const Step& step : first_first.history()) EXPECT_EQ(step.transformation, b->name());
      reverse_all(first_first);
      expect_identical(first_first, before, a->name() + " first, then all");
    }
  }
}

// "a.b" and all above it, for "a.b.weight".
void add_modules_above(std::string_view path, std::set<std::string>& to) {
  for (auto dot = path.rfind('.'); dot != path.npos; dot = path.rfind('.', dot - 1))
    to.emplace(path = path.substr(0, dot));
}

std::set<std::string> modules_of(const Model& model) {
  std::set<std::string> modules;
  for (StateId id : model.state()) add_modules_above(model.state()[id].name, modules);
  for (NodeId id : model.graph()) {
    add_modules_above(node_path(model.graph()[id]), modules);
    if (model.graph()[id].op == Opcode::call_module) modules.emplace(model.graph()[id].target);
  }
  return modules;
}

bool is_in(std::string_view path, const std::string& module) {
  return path == module || path.starts_with(module + ".");
}

// The tensors that hold values of tensors of the module, as the steps recorded it.
std::set<StateId> tensors_of(const Model& model, const std::string& module) {
  std::set<StateId> held;
  for (StateId id : model.state())
    if (is_in(model.state()[id].name, module)) held.insert(id);
  for (const Step& step : model.history()) {
    std::set<StateId> parts = held;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
        if (is_in(change->before->name, module)) parts.insert(change->id);
    for (const Piece& piece : step.pieces)
      if (parts.contains(piece.part)) held.insert(piece.whole);
    held.insert(parts.begin(), parts.end());
  }
  return held;
}

void expect_untouched(const Model& before, const Model& after, const std::string& module) {
  for (StateId id : tensors_of(before, module)) {
    const StateEntry* was = before.state().find(id);
    if (!was) continue;  // an earlier step erased it
    const StateEntry* is = after.state().find(id);
    ASSERT_TRUE(is) << was->name << " is gone";
    EXPECT_TRUE(is->tensor.is_same(was->tensor)) << was->name << " is another tensor";
  }
  for (NodeId id : before.graph()) {
    const Node& was = before.graph()[id];
    if (was.op == Opcode::placeholder || was.op == Opcode::get_attr) continue;
    if (!is_in(node_path(was), module) &&
        !(was.op == Opcode::call_module && is_in(was.target, module)))
      continue;
    const Node* is = after.graph().find(id);
    ASSERT_TRUE(is) << was.name << " is gone";
    EXPECT_EQ(is->target, was.target) << was.name;
    EXPECT_EQ(is->args.size(), was.args.size()) << was.name;
  }
}

// As a model comes, and after everything that preserves what it computes.
TEST_P(Contract, AnExcludedModuleStaysAsItIs) {
  const Model& original = GetParam().model;
  Model rewritten = original;
  refx::apply(rewritten, find_transformations({std::string(kAll)}));
  for (const Model* start : {&original, std::as_const(rewritten).history().empty()
                                            ? nullptr
                                            : static_cast<const Model*>(&rewritten)}) {
    if (!start) continue;
    for (const std::string& module : modules_of(original))
      for (const auto& transformation : registry()) {
        SCOPED_TRACE(transformation->name() + " except " + module);
        Model model = *start;
        apply(model, *transformation, {.exclude = {module}});
        expect_untouched(*start, model, module);
      }
  }
}

TEST_P(Contract, SitesThatAreFoundTogetherHaveDifferentNames) {
  Model model = GetParam().model;
  for (int round = 0; round < 2; ++round) {
    for (const auto& transformation : registry()) {
      const Findings found = find_sites(model, *transformation);
      std::set<std::string> names;
      for (const Site& site : found.sites)
        EXPECT_TRUE(names.emplace(site.name).second) << site.name;
      for (const Refusal& refusal : found.refusals)
        EXPECT_TRUE(names.emplace(refusal.site.name).second) << refusal.site.name;
    }
    refx::apply(model, find_transformations({std::string(kAll)}));
  }
}

TEST_P(Contract, StepsReverseOneByOneInRandomOrder) {
  const Model& original = GetParam().model;
  const std::string before = snapshot(original);
  Model all = original;
  for (const auto& transformation : registry()) (*transformation)(all);
  for (const Dependents policy : {Dependents::cascade, Dependents::reapply})
    check_property("steps reverse one by one in any order", 2, 7, [&] {
      const auto order = *up_to(40, any_number());
      Model model = all;
      for (std::size_t i = 0; !model.history().empty(); ++i) {
        RC_ASSERT(i < 500u);
        const auto live = model.history().ids();
        const StepId id =
            live[static_cast<std::size_t>(i < order.size() ? order[i] : 0) % live.size()];
        RC_LOG() << "reverse " << model.history()[id] << std::endl;
        reverse(model, id, {.dependents = policy, .discard_changes = false});
        EXPECT_FALSE(model.history().contains(id));
        validate(model);
      }
      expect_identical(model, before, "all reversed one by one");
    });
}

TEST_P(Contract, AnyFailureLeavesTheModelAsItWas) {
  const Model& original = GetParam().model;
  const std::string before = snapshot(original);
  for (const auto& transformation : registry()) {
    const auto sites = transformation->find(original).sites;
    if (sites.empty()) continue;
    for (long n = 0;; ++n) {
      Model model = original;
      fail_after_writes = n;
      bool failed = false;
      try {
        Editor editor(model);
        transformation->apply(editor, sites[0]);
        editor.commit({transformation->name(), transformation->signature(), sites[0].name, {}});
      } catch (const std::runtime_error&) {
        failed = true;
      }
      fail_after_writes = -1;
      if (!failed) break;
      expect_identical(model, before, "failed at write " + std::to_string(n));
      // Names and places are free again: a new try gives the same as ever.
      (*transformation)(model);
      Model fresh = original;
      (*transformation)(fresh);
      EXPECT_EQ(content(model), content(fresh));
    }
  }
}

TEST_P(Contract, AFailedReversalLeavesTheModelAsItWas) {
  Model transformed = GetParam().model;
  for (const auto& transformation : registry()) (*transformation)(transformed);
  if (transformed.history().empty()) return;
  const std::string before = snapshot(transformed);
  const std::size_t steps = transformed.history().size();
  const StepId first = transformed.history().begin()->id;
  for (long n = 0;; ++n) {
    Model model = transformed;
    fail_after_writes = n;
    bool failed = false;
    try {
      reverse(model, first);
    } catch (const std::runtime_error&) {
      failed = true;
    }
    fail_after_writes = -1;
    if (!failed) break;
    expect_identical(model, before, "failed at write " + std::to_string(n));
    EXPECT_EQ(model.history().size(), steps);
    reverse_all(model);
    EXPECT_EQ(snapshot(model), snapshot(GetParam().model));
  }
}

}  // namespace
}  // namespace refx::testing
