// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/progress.h"
#include "refx/rule.h"

namespace refx {

struct CheckOptions {
  int instances = 100;     // for each form of `before`
  std::uint64_t seed = 0;  // the same seed gives the same instances
  OnProgress progress = {};
};

enum class RuleVerdict : std::uint8_t { pass, fail, never_matched };
REFX_API std::string to_string(RuleVerdict verdict);  // "pass", "fail", "never matched"

// Counts for the random instances of one form of `before`.
struct FormCheck {
  // Each tried instance is found (and correct), refused, or failed. The first failure ends the
  // check.
  int tried = 0, found = 0, refused = 0, failed = 0;
  int compared = 0;  // found instances whose numbers could be compared
  std::vector<std::pair<std::string, int>> reasons;  // for refusals, the most frequent first
};

struct RuleCheck {
  std::string name;
  std::vector<FormCheck> forms;
  RuleVerdict verdict = RuleVerdict::pass;
  std::string problem;   // empty: passed
  std::string instance;  // the smallest failing model that was found, as text

  bool passed() const { return verdict == RuleVerdict::pass; }
};

// Tries a rule on random instances of each form of its `before`, with various shapes, broadcasting,
// dtypes, strides, symbolic sizes, literals (also extreme ones), optional variables present and
// absent, and spellings of operators. The rule must match each instance or refuse it with a reason.
// The rewritten model must be valid, have the types that its graph records, pass verify(), keep
// finite numbers finite, and be reversible bit for bit. If no instance of a form is found, the
// verdict is `never_matched`.
REFX_API RuleCheck check_rule(const Rule& rule, const CheckOptions& options = {});
REFX_API std::vector<RuleCheck> check_rules(const std::vector<Rule>& rules,
                                            const CheckOptions& options = {});
// The rules that ship with refx.
REFX_API std::vector<Rule> shipped_rules();

// A table for people, and a JSON array for programs.
REFX_API std::string to_text(const std::vector<RuleCheck>& checks);
REFX_API std::string to_json(const std::vector<RuleCheck>& checks);

}  // namespace refx
