// SPDX-License-Identifier: Apache-2.0

#include "refx/bisect.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "lab/bisect/delta.h"
#include "lab/run/forms.h"
#include "refx/error.h"
#include "refx/text.h"
#include "util/fingerprint.h"
#include "util/json_lines.h"
#include "util/json_writer.h"

namespace refx {

namespace {

// The verdicts, by the set of steps in the variant, in memory and in a file.
class Verdicts {
 public:
  Verdicts(const Model& model, const BisectOptions& options) : path_(options.journal) {
    if (path_.empty()) return;
    std::string what = options.key + '\n' + print(model);
    for (const Step& step : model.history())
      what += fmt::format("{} {} {}\n", step.id.value, step.signature, step.site);
    key_ = fingerprint(what);
    read();
  }

  const BisectVerdict* find(const std::set<StepId>& kept) const {
    const auto it = known_.find(kept);
    return it == known_.end() ? nullptr : &it->second;
  }

  void add(const std::set<StepId>& kept, BisectVerdict verdict) {
    known_[kept] = verdict;
    if (path_.empty()) return;
    Json json;
    json.object().member("key", key_).key("steps").array();
    for (StepId id : kept) json.value(id.value);
    json.end().member("verdict", to_string(verdict)).end();
    std::string line = json.take();
    line.pop_back();
    append_line(path_, line);
  }

  // Removes the file at the end of the search.
  void drop() const {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }

 private:
  void read() {
    read_json_lines(path_, [&](const simdjson::dom::element& line) {
      if (std::string_view(line["key"]) != key_) return;
      std::set<StepId> kept;
      for (std::uint64_t id : line["steps"]) kept.insert(StepId(static_cast<std::uint32_t>(id)));
      const std::string_view verdict = line["verdict"];
      for (BisectVerdict v : {BisectVerdict::good, BisectVerdict::bad, BisectVerdict::skip})
        if (to_string(v) == verdict) known_[kept] = v;
    });
  }

  std::string path_, key_;
  std::map<std::set<StepId>, BisectVerdict> known_;
};

class BisectSearch {
 public:
  BisectSearch(const Model& model, const BisectCheck& check, const BisectOptions& options)
      : model_(model),
        check_(check),
        options_(options),
        verdicts_(model, options),
        built_on_(built_on(model)) {}

  Bisection run() {
    const Steps all = model_.history().ids();
    result_.discards = !can_carry_back();
    result_.current = test(all);
    result_.original = test({});
    if (result_.current == BisectVerdict::skip || result_.original == BisectVerdict::skip)
      throw Error(fmt::format("the check skips the {}: it must judge both ends of the search",
                              result_.current == BisectVerdict::skip ? "model" : "original"));
    if (result_.current == BisectVerdict::bad && result_.original == BisectVerdict::good)
      find_all(all);
    verdicts_.drop();
    return std::move(result_);
  }

 private:
  // Whether later changes of rewritten tensors can be carried back to the original tensors, as
  // reverse() does. If not, they are discarded in all variants, so that these stay comparable.
  bool can_carry_back() const {
    try {
      form_with(model_, {}, Trained::carried_back);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Finds one set after the other. The last step of each set is removed before the search for the
  // next one: without it that set cannot fail.
  void find_all(Steps kept) {
    BisectVerdict verdict = BisectVerdict::bad;
    while (verdict == BisectVerdict::bad) {
      const Steps culprit = smallest(kept);
      add(culprit);
      result_.repair.push_back(culprit.back());
      kept = without(kept, culprit.back());
      verdict = test(kept);
    }
    result_.repaired = verdict == BisectVerdict::good;
    std::sort(result_.repair.begin(), result_.repair.end());
    std::stable_sort(
        result_.culprits.begin(), result_.culprits.end(),
        [](const Culprit& a, const Culprit& b) { return a.steps.size() < b.steps.size(); });
  }

  Steps smallest(Steps failing) {
    while (true) {
      failing = minimize(failing, [&](const Steps& steps) { return test(steps); });
      // A variant includes the steps that its steps build on, and these may be the ones that fail.
      Steps bases = bases_of(failing);
      if (bases.empty() || test(bases) != BisectVerdict::bad) return failing;
      failing = std::move(bases);
    }
  }

  void add(const Steps& steps) {
    const Steps bases = bases_of(steps);
    result_.culprits.push_back({steps, bases});
    for (StepId id : steps) {
      Steps others = bases;
      std::copy_if(steps.begin(), steps.end(), std::back_inserter(others),
                   [&](StepId other) { return other != id; });
      // Minimal only as far as the check could be run: without this step it was skipped.
      if (!others.empty() && test(others) == BisectVerdict::skip) result_.unsure.push_back(id);
    }
  }

  Steps bases_of(const Steps& steps) const {
    std::set<StepId> bases = closed(steps);
    for (StepId id : steps) bases.erase(id);
    return {bases.begin(), bases.end()};
  }

  std::set<StepId> closed(const Steps& steps) const {
    std::set<StepId> all(steps.begin(), steps.end());
    for (StepId id : steps) {
      const auto& bases = built_on_.at(id);
      all.insert(bases.begin(), bases.end());
    }
    return all;
  }

  // Removes the step and the steps that build on it.
  Steps without(const Steps& steps, StepId id) const {
    Steps others;
    for (StepId other : steps)
      if (other != id && !built_on_.at(other).count(id)) others.push_back(other);
    return others;
  }

  BisectVerdict test(const Steps& steps) {
    const std::set<StepId> kept = closed(steps);
    if (const BisectVerdict* known = verdicts_.find(kept)) {
      if (seen_.insert(kept).second) ++result_.remembered;
      return *known;
    }
    const auto tell = [&] {
      if (options_.progress)
        options_.progress({result_.checks, 0,
                           fmt::format("check {}: {} of {} steps", result_.checks + 1, kept.size(),
                                       model_.history().size())});
    };
    tell();
    // Ctrl-C may also end the command of the check, whose exit code is then no verdict. The
    // progress callback throws in that case, before the verdict is stored.
    BisectVerdict verdict;
    try {
      verdict = check_(
          form_with(model_, kept, result_.discards ? Trained::discarded : Trained::carried_back));
    } catch (...) {
      tell();
      throw;
    }
    tell();
    seen_.insert(kept);
    ++result_.checks;
    verdicts_.add(kept, verdict);
    return verdict;
  }

  const Model& model_;
  const BisectCheck& check_;
  const BisectOptions& options_;
  Verdicts verdicts_;
  const std::map<StepId, std::set<StepId>> built_on_;
  std::set<std::set<StepId>> seen_;  // in this search
  Bisection result_;
};

}  // namespace

Bisection bisect(const Model& model, const BisectCheck& check, const BisectOptions& options) {
  return BisectSearch(model, check, options).run();
}

std::string to_string(BisectVerdict verdict) {
  return verdict == BisectVerdict::good ? "good" : verdict == BisectVerdict::bad ? "bad" : "skip";
}

}  // namespace refx
