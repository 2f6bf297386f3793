// SPDX-License-Identifier: Apache-2.0

#include "refx/check.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exec/allocation_limit.h"
#include "lab/check/trial.h"
#include "lab/run/run_once.h"
#include "refx/error.h"
#include "refx/text.h"
#include "rules/shipped.h"

namespace refx {

namespace {

using checking::Instance;
using checking::Recipe;
using checking::RuleTrial;

// In bytes. The text of a rule may ask for tensors of any size.
constexpr std::uint64_t kLargestTensor = 64 << 20;
// If the rule matches fewer than one in kEnough instances, up to kPatience times as many are tried:
// strict conditions would otherwise be tested on a handful of instances.
constexpr int kPatience = 5;
constexpr int kEnough = 4;

class RuleChecker {
 public:
  RuleChecker(const Rule& rule, const CheckOptions& options, OnProgress progress)
      : rule_(rule),
        definition_(rule.definition()),
        options_(options),
        progress_(std::move(progress)),
        random_(options.seed) {
    result_.name = rule.name();
  }

  RuleCheck run() {
    // On processors with matrix units, oneDNN crashes in some small fp16 convolutions, which random
    // sizes hit sooner or later.
    const Environment environment(1, /*onednn=*/false);
    const exec::AllocationLimit limit(kLargestTensor);
    for (std::size_t form = 0; form < definition_.before.size(); ++form) {
      result_.forms.emplace_back();
      try_form(form);
      if (failing_) break;
    }
    judge();
    return std::move(result_);
  }

 private:
  void try_form(std::size_t form) {
    FormCheck& check = result_.forms[form];
    std::map<std::string, int> reasons;
    checking::Experience experience;
    for (int i = 0; i < options_.instances * kPatience && !failing_; ++i) {
      if (i >= options_.instances && check.found * kEnough >= options_.instances) break;
      if (progress_) progress_({0, 0, fmt::format("{}: {} instances", result_.name, i)});
      const checking::Guess guess = checking::guess(definition_, form, random_, experience);
      if (!guess.recipe) {
        does_not_run_ = guess.problem;
        if (i >= 2 * kPatience && check.tried == 0) break;
        continue;
      }
      ++check.tried;
      RuleTrial trial = attempt(*guess.recipe);
      if (trial.outcome == RuleTrial::found) {
        ++check.found;
        check.compared += trial.compared;
      } else if (trial.outcome == RuleTrial::refused) {
        ++check.refused;
        ++reasons[trial.why];
      } else {
        ++check.failed;
        failing_ = *guess.recipe;
        failure_ = std::move(trial);
      }
    }
    check.reasons.assign(reasons.begin(), reasons.end());
    std::stable_sort(check.reasons.begin(), check.reasons.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }

  RuleTrial attempt(const Recipe& recipe) const {
    return checking::attempt(rule_, checking::build(definition_, recipe));
  }

  void judge() {
    if (failing_) {
      shrink();
      result_.verdict = RuleVerdict::fail;
      result_.problem = failure_.why;
      result_.instance = print(checking::build(definition_, *failing_).model);
      return;
    }
    for (std::size_t form = 0; form < result_.forms.size(); ++form)
      if (result_.forms[form].found == 0) return never_matched(form);
    const bool compared = std::any_of(result_.forms.begin(), result_.forms.end(),
                                      [](const FormCheck& form) { return form.compared > 0; });
    if (compared || !rule_.preserves_computation()) return;
    result_.verdict = RuleVerdict::never_matched;
    result_.problem = "no matching instance has results that can be compared";
  }

  void never_matched(std::size_t form) {
    const FormCheck& check = result_.forms[form];
    result_.verdict = RuleVerdict::never_matched;
    const std::string which =
        result_.forms.size() == 1 ? "'before'" : fmt::format("form {} of 'before'", form + 1);
    if (check.tried == 0)
      result_.problem = fmt::format("no instance of {} runs: {}", which, does_not_run_);
    else
      result_.problem = fmt::format(
          "{} of {} is refused: {}",
          check.tried == 1 ? "the one instance" : fmt::format("each of {} instances", check.tried),
          which, check.reasons[0].first);
    for (const rules::Condition& condition : definition_.conditions)
      if (check.tried > 0 && check.reasons[0].first.starts_with(condition.text))
        result_.problem = fmt::format("'where' was never true for {} instances of {}: {}",
                                      check.tried, which, check.reasons[0].first);
  }

  // Replaces the failing instance by the first simpler one with the same kind of failure, until
  // there is none. A failure of another kind would be another mistake, or none of the rule.
  void shrink() {
    for (bool again = true; again;) {
      again = false;
      for (const Recipe& recipe : checking::simpler(definition_, *failing_)) {
        if (progress_) progress_({0, 0, fmt::format("{}: a smaller instance", result_.name)});
        try {
          RuleTrial trial = attempt(recipe);
          if (trial.kind.empty() || trial.kind != failure_.kind) continue;
          failing_ = recipe;
          failure_ = std::move(trial);
          again = true;
          break;
        } catch (const Error&) {
        } catch (const c10::Error&) {  // it does not run
        }
      }
    }
  }

  const Rule& rule_;
  const rules::Definition& definition_;
  const CheckOptions& options_;
  const OnProgress progress_;
  checking::Random random_;
  RuleCheck result_;
  std::optional<Recipe> failing_;
  RuleTrial failure_;
  std::string does_not_run_;
};

}  // namespace

std::string to_string(RuleVerdict verdict) {
  switch (verdict) {
    case RuleVerdict::pass:
      return "pass";
    case RuleVerdict::fail:
      return "fail";
    case RuleVerdict::never_matched:
      return "never matched";
  }
  return "";
}

RuleCheck check_rule(const Rule& rule, const CheckOptions& options) {
  if (options.instances < 1) throw Error("the number of instances must be at least 1");
  return RuleChecker(rule, options, options.progress).run();
}

std::vector<RuleCheck> check_rules(const std::vector<Rule>& rules, const CheckOptions& options) {
  std::vector<RuleCheck> checks;
  for (const Rule& rule : rules) {
    CheckOptions one = options;
    if (options.progress)
      one.progress = [&](const Progress& progress) {
        options.progress({checks.size(), rules.size(), progress.what});
      };
    checks.push_back(check_rule(rule, one));
  }
  return checks;
}

std::vector<Rule> shipped_rules() {
  std::vector<Rule> all;
  for (std::string_view text : rules::shipped_texts())
    for (Rule& rule : parse_rules(text)) all.push_back(std::move(rule));
  return all;
}

}  // namespace refx
