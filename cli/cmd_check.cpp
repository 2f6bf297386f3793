// SPDX-License-Identifier: Apache-2.0

// refx check: tests rules on random models.

#include <algorithm>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "refx/check.h"
#include "refx/error.h"
#include "util/did_you_mean.h"

namespace refx::cli {

namespace {

std::vector<Rule> rules_of(const CheckOptions& options) {
  std::vector<Rule> all;
  for (const std::string& path : options.files)
    for (Rule& rule : load_rules(path)) all.push_back(std::move(rule));
  if (options.files.empty()) all = shipped_rules();
  if (options.rules.empty()) return all;
  std::vector<Rule> chosen;
  for (const std::string& name : options.rules) {
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const Rule& rule) { return rule.name() == name; });
    if (it == all.end()) {
      std::vector<std::string> names;
      for (const Rule& rule : all) names.push_back(rule.name());
      throw Error(fmt::format("there is no rule '{}'{}", name, did_you_mean(name, names)));
    }
    chosen.push_back(*it);
  }
  return chosen;
}

}  // namespace

int check(const CheckOptions& options) {
  const std::vector<Rule> rules = rules_of(options);
  Progress progress(rules.size());
  refx::CheckOptions how = options.how;
  how.progress = progress.callback();
  const std::vector<RuleCheck> result = check_rules(rules, how);
  progress.clear();
  options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  const bool passed = std::all_of(result.begin(), result.end(),
                                  [](const RuleCheck& rule) { return rule.passed(); });
  return passed ? kDone : kNo;
}

}  // namespace refx::cli
