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
  int instances = 100;     // of each form of `before`
  std::uint64_t seed = 0;  // the same seed tries the same instances
  OnProgress progress = {};
};

enum class RuleVerdict : std::uint8_t { pass, fail, never_matched };
REFX_API std::string to_string(RuleVerdict verdict);  // "pass", "fail", "never matched"

// What became of the instances of one form of `before`.
struct FormCheck {
  // Each that was tried is one of: found and right, refused, or failed, after which no other is.
  int tried = 0, found = 0, refused = 0, failed = 0;
  int compared = 0;                                  // of those found: with numbers to compare
  std::vector<std::pair<std::string, int>> reasons;  // of the refusals, the most frequent first
};

struct RuleCheck {
  std::string name;
  std::vector<FormCheck> forms;
  RuleVerdict verdict = RuleVerdict::pass;
  std::string problem;   // empty: passed
  std::string instance;  // the smallest model found at which it fails, as text

  bool passed() const { return verdict == RuleVerdict::pass; }
};

// Tries a rule on random instances of each form of its `before`: shapes, broadcasting, dtypes,
// strides, symbolic sizes, literals (extreme ones, too), optional variables there and absent, in
// several spellings. Each must be found, or refused with a reason; the rewritten model must be
// valid, of the types that its graph records, compute what verify() takes for the same, keep finite
// numbers finite, and go back bit for bit. A form that no instance is found of has never matched.
REFX_API RuleCheck check_rule(const Rule& rule, const CheckOptions& options = {});
REFX_API std::vector<RuleCheck> check_rules(const std::vector<Rule>& rules,
                                            const CheckOptions& options = {});
// The rules that ship with refx.
REFX_API std::vector<Rule> shipped_rules();

// A table for people, and an array for programs.
REFX_API std::string to_text(const std::vector<RuleCheck>& checks);
REFX_API std::string to_json(const std::vector<RuleCheck>& checks);

}  // namespace refx
