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

// Verdicts by the steps that were kept, in memory and in a file.
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

  const Verdict* find(const std::set<StepId>& kept) const {
    const auto it = known_.find(kept);
    return it == known_.end() ? nullptr : &it->second;
  }

  void add(const std::set<StepId>& kept, Verdict verdict) {
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

  // The search is over.
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
      for (Verdict v : {Verdict::good, Verdict::bad, Verdict::skip})
        if (to_string(v) == verdict) known_[kept] = v;
    });
  }

  std::string path_, key_;
  std::map<std::set<StepId>, Verdict> known_;
};

class Search {
 public:
  Search(const Model& model, const Check& check, const BisectOptions& options)
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
    if (result_.current == Verdict::skip || result_.original == Verdict::skip)
      throw Error(fmt::format("the check skips the {}: it must judge both ends of the search",
                              result_.current == Verdict::skip ? "model as it is" : "original"));
    if (result_.current == Verdict::bad && result_.original == Verdict::good) find_all(all);
    verdicts_.drop();
    return std::move(result_);
  }

 private:
  // Whether all that was trained since can be handed back to the originals, as reverse() does it.
  bool can_carry_back() const {
    try {
      form_with(model_, {}, Trained::carried_back);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // One set after the other, each with those before it repaired.
  void find_all(Steps kept) {
    Verdict verdict = Verdict::bad;
    while (verdict == Verdict::bad) {
      const Steps culprit = smallest(kept);
      add(culprit);
      result_.repair.push_back(culprit.back());
      kept = without(kept, culprit.back());
      verdict = test(kept);
    }
    result_.repaired = verdict == Verdict::good;
    std::sort(result_.repair.begin(), result_.repair.end());
    std::stable_sort(
        result_.culprits.begin(), result_.culprits.end(),
        [](const Culprit& a, const Culprit& b) { return a.steps.size() < b.steps.size(); });
  }

  Steps smallest(Steps failing) {
    while (true) {
      failing = minimize(failing, [&](const Steps& steps) { return test(steps); });
      // It may be what they are built on that fails.
      Steps bases = bases_of(failing);
      if (bases.empty() || test(bases) != Verdict::bad) return failing;
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
      if (!others.empty() && test(others) == Verdict::skip) result_.unsure.push_back(id);
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

  // Without this step and those built on it.
  Steps without(const Steps& steps, StepId id) const {
    Steps others;
    for (StepId other : steps)
      if (other != id && !built_on_.at(other).count(id)) others.push_back(other);
    return others;
  }

  Verdict test(const Steps& steps) {
    const std::set<StepId> kept = closed(steps);
    if (const Verdict* known = verdicts_.find(kept)) {
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
    // A check that was disturbed by Ctrl-C says nothing: whoever is told of progress ends the
    // search.
    Verdict verdict;
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
  const Check& check_;
  const BisectOptions& options_;
  Verdicts verdicts_;
  const std::map<StepId, std::set<StepId>> built_on_;
  std::set<std::set<StepId>> seen_;  // in this search
  Bisection result_;
};

}  // namespace

Bisection bisect(const Model& model, const Check& check, const BisectOptions& options) {
  return Search(model, check, options).run();
}

std::string to_string(Verdict verdict) {
  return verdict == Verdict::good ? "good" : verdict == Verdict::bad ? "bad" : "skip";
}

}  // namespace refx
