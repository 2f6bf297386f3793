// What every transformation promises, checked for each registered one on each model of the zoo.

#include <algorithm>

#include "edit/transaction.h"
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
    for (const Refusal& refusal : transformation->find(model).refusals) {
      EXPECT_FALSE(refusal.reason.empty());
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
