// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>

#include "refx/check.h"
#include "util/columns.h"
#include "util/json_writer.h"
#include "util/printable.h"

namespace refx {

namespace {

// The sum over the forms of `before`.
FormCheck all_forms(const RuleCheck& check) {
  FormCheck all;
  for (const FormCheck& form : check.forms) {
    all.tried += form.tried;
    all.found += form.found;
    all.refused += form.refused;
    all.failed += form.failed;
    all.compared += form.compared;
    for (const auto& [reason, times] : form.reasons) {
      const auto it = std::find_if(all.reasons.begin(), all.reasons.end(),
                                   [&](const auto& known) { return known.first == reason; });
      if (it == all.reasons.end())
        all.reasons.emplace_back(reason, times);
      else
        it->second += times;
    }
  }
  std::stable_sort(all.reasons.begin(), all.reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

template <class Number>
std::string times(Number number) {
  return number == 1 ? "once" : fmt::format("{} times", number);
}

}  // namespace

std::string to_text(const std::vector<RuleCheck>& checks) {
  constexpr std::size_t kReasons = 2;  // of the refusals; more would hide the problem
  std::vector<Row> rows = {{"rule", "tried", "found", "compared", "refused", "failed", "verdict"}};
  std::string details;
  for (const RuleCheck& check : checks) {
    const FormCheck all = all_forms(check);
    rows.push_back({check.name, std::to_string(all.tried), std::to_string(all.found),
                    std::to_string(all.compared), std::to_string(all.refused),
                    std::to_string(all.failed), to_string(check.verdict)});
    if (!check.passed()) {
      details += fmt::format("\n{}: {}\n", printable(check.name), printable(check.problem));
      for (std::size_t i = 0; i < std::min(kReasons, all.reasons.size()); ++i)
        details += fmt::format("  refused {}: {}\n", times(all.reasons[i].second),
                               printable(all.reasons[i].first));
      if (!check.instance.empty()) details += "the smallest failing model:\n" + check.instance;
    }
  }
  return columns(rows) + details;
}

std::string to_json(const std::vector<RuleCheck>& checks) {
  Json json;
  json.array(Json::kLines);
  for (const RuleCheck& check : checks) {
    json.object().member("rule", check.name).member("verdict", to_string(check.verdict));
    json.key("forms").array();
    for (const FormCheck& form : check.forms) {
      json.object().member("tried", form.tried).member("found", form.found);
      json.member("compared", form.compared)
          .member("refused", form.refused)
          .member("failed", form.failed);
      json.key("reasons").array();
      for (const auto& [reason, times] : form.reasons)
        json.object().member("reason", reason).member("times", times).end();
      json.end().end();
    }
    json.end();
    if (!check.passed()) json.member("problem", check.problem);
    if (!check.instance.empty()) json.member("instance", check.instance);
    json.end();
  }
  return json.end().take();
}

}  // namespace refx
