// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/bench/contest_json.h"
#include "lab/verify/words.h"
#include "refx/tune.h"
#include "util/columns.h"
#include "util/human_bytes.h"
#include "util/printable.h"

namespace refx {

namespace {

std::string moves_of(const Trial& trial) {
  return fmt::format("{}", fmt::join(trial.moves, ", then "));
}

// Where errors count, what became of each site.
std::string sites_of(const SiteClass& c) {
  std::string plain;
  for (const std::string& site : c.sites) plain += printable(site) + "\n";
  if (c.choices.empty()) return plain;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < c.sites.size(); ++i) {
    rows.push_back({printable(c.sites[i])});
    const SiteChoice& choice = c.choices[i];
    const std::size_t taken = static_cast<std::size_t>(std::max(choice.chosen, 0));
    rows.back().push_back(choice.chosen < 0 ? "skipped" : moves_of(c.trials[taken]));
    std::vector<std::string> errors;
    for (std::size_t k = 0; k < choice.errors.size(); ++k)
      if (choice.chosen < 0 ? choice.errors[k] > 0 : k == taken)
        errors.push_back(short_number(choice.errors[k]));
    rows.back().push_back(errors.empty() ? "" : fmt::format("error {}", fmt::join(errors, ", ")));
  }
  return columns(rows);
}

std::string size_of(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

std::string budget_of(const Tuning& t) {
  const WithinBudget& b = *t.budget;
  std::string text;
  if (t.changed) {
    text = fmt::format("error {:.2e}, {}; measured on: {}\n", b.error,
                       b.budget > 0 ? fmt::format("budget {:g}", b.budget) : "no budget was given",
                       printable(b.proven_on));
    if (b.score) text += fmt::format("score {:g}\n", *b.score);
    text += fmt::format("tensors {} -> {}\n", size_of(t.bytes_before), size_of(t.bytes_after));
  }
  return text + fmt::format("{} combination{} tried; chosen on: {}\n", b.tried.size(),
                            b.tried.size() == 1 ? "" : "s", printable(b.chosen_on));
}

std::string class_of(const SiteClass& c) {
  std::string text = sites_of(c);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < c.trials.size(); ++i) {
    const Trial& t = c.trials[i];
    rows.push_back(
        {static_cast<int>(i) == c.chosen ? "*" : "", moves_of(t),
         t.before > 0 ? fmt::format("{:.3f}x ({:.3f} .. {:.3f})", t.ratio, t.low, t.high) : "",
         t.before > 0 ? to_string(t.speed) : "",
         t.saved > 0 && !c.choices.empty() ? fmt::format("-{}", size_of(t.saved)) : "",
         t.remembered ? "known" : ""});
  }
  return text + columns(rows) + fmt::format("  {}\n", printable(c.why));
}

void number_or_null(Json& json, const char* name, std::optional<double> number) {
  json.key(name);
  number ? json.value(*number) : json.null();
}

void write_choices(Json& json, const SiteClass& c) {
  json.key("choices").array(Json::kLines);
  for (const SiteChoice& choice : c.choices) {
    json.object().key("chosen");
    choice.chosen < 0 ? json.null() : json.value(choice.chosen);
    json.key("errors").array();
    for (double error : choice.errors) json.value(error);
    json.end().end();
  }
  json.end();
}

void write_budget(Json& json, const WithinBudget& b) {
  json.key("within").object(Json::kLines);
  number_or_null(json, "budget", b.budget > 0 ? std::optional(b.budget) : std::nullopt);
  json.member("error", b.error);
  number_or_null(json, "score", b.score);
  json.member("chosen_on", b.chosen_on).member("proven_on", b.proven_on);
  json.member("prefer", b.prefer == Prefer::size ? "size" : "speed");
  json.key("tried").array(Json::kLines);
  for (const Attempt& attempt : b.tried) {
    json.object().member("places", attempt.sites).member("error", attempt.error);
    json.member("gain", attempt.gain);
    number_or_null(json, "score", attempt.score);
    json.member("good", attempt.good).end();
  }
  json.end().end();
}

}  // namespace

std::string to_text(const Tuning& t) {
  std::string text;
  std::size_t sites = 0;
  for (const SiteClass& c : t.classes) sites += c.sites.size();
  for (const SiteClass& c : t.classes) text += class_of(c) + "\n";
  text += fmt::format("{} site{} in {} class{}\n", sites, sites == 1 ? "" : "s", t.classes.size(),
                      t.classes.size() == 1 ? "" : "es");
  if (!t.decided)
    text += "measured only; another process decides\n";
  else if (t.changed)
    text += fmt::format("{}: {:.3f}x ({:.3f} .. {:.3f}), 99% confidence\n",
                        to_string(t.proof.speed), t.proof.ratio, t.proof.low, t.proof.high) +
            (t.verdict == VerifyVerdict::pass && !t.budget ? "the results agree\n" : "");
  else if (std::any_of(t.classes.begin(), t.classes.end(),
                       [](const SiteClass& c) { return c.chosen >= 0; }))
    text += "the model already has its best form\n";
  else
    text += "no rewrite pays: the model is unchanged\n";
  if (t.budget) text += budget_of(t);
  text += fmt::format("\ninputs: {}\n{}, {} thread{}, inference mode; {}\n", printable(t.inputs),
                      t.device, t.threads, t.threads == 1 ? "" : "s", t.machine);
  for (const std::string& note : t.notes) text += fmt::format("note: {}\n", printable(note));
  return text;
}

std::string to_json(const Tuning& t) {
  Json json;
  const auto texts = [&](const char* name, const std::vector<std::string>& all) {
    json.key(name).array();
    for (const std::string& text : all) json.value(text);
    json.end();
  };
  json.object(Json::kLines).member("decided", t.decided).member("changed", t.changed);
  json.key("classes").array(Json::kLines);
  for (const SiteClass& c : t.classes) {
    json.object(Json::kLines).member("key", c.key);
    texts("places", c.sites);
    json.key("trials").array(Json::kLines);
    for (const Trial& trial : c.trials) {
      json.object();
      texts("moves", trial.moves);
      json.member("speed", to_string(trial.speed)).member("ratio", trial.ratio);
      json.member("low", trial.low).member("high", trial.high).member("before", trial.before);
      json.member("after", trial.after).member("saved", trial.saved);
      json.member("remembered", trial.remembered).end();
    }
    json.end().key("chosen");
    c.chosen < 0 ? json.null() : json.value(c.chosen);
    if (!c.choices.empty()) write_choices(json, c);
    json.member("why", c.why).end();
  }
  json.end().key("proof");
  t.proof.rounds.empty() ? void(json.null()) : write(json, t.proof);
  json.key("verdict");
  t.verdict ? json.value(to_string(*t.verdict)) : json.null();
  if (t.budget) write_budget(json, *t.budget);
  json.member("bytes_before", t.bytes_before).member("bytes_after", t.bytes_after);
  json.member("inputs", t.inputs).member("device", t.device).member("threads", t.threads);
  json.member("mode", "inference").member("machine", t.machine);
  texts("notes", t.notes);
  json.end();
  return json.take();
}

}  // namespace refx
