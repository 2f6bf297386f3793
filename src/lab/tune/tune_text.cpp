#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/bench/contest_json.h"
#include "refx/tune.h"
#include "util/columns.h"
#include "util/printable.h"

namespace refx {

namespace {

std::string class_of(const SiteClass& c) {
  std::string text;
  for (const std::string& site : c.sites) text += printable(site) + "\n";
  std::vector<Row> rows;
  for (std::size_t i = 0; i < c.trials.size(); ++i) {
    const Trial& t = c.trials[i];
    rows.push_back({static_cast<int>(i) == c.chosen ? "*" : "",
                    fmt::format("{}", fmt::join(t.moves, ", then ")),
                    fmt::format("{:.3f}x ({:.3f} .. {:.3f})", t.ratio, t.low, t.high),
                    to_string(t.speed), t.remembered ? "known" : ""});
  }
  return text + columns(rows) + fmt::format("  {}\n", printable(c.why));
}

}  // namespace

std::string to_text(const Tuning& t) {
  std::string text;
  std::size_t places = 0;
  for (const SiteClass& c : t.classes) places += c.sites.size();
  for (const SiteClass& c : t.classes) text += class_of(c) + "\n";
  text += fmt::format("{} place{} in {} class{}\n", places, places == 1 ? "" : "s",
                      t.classes.size(), t.classes.size() == 1 ? "" : "es");
  if (!t.decided)
    text += "measured only; the decision is made elsewhere\n";
  else if (t.changed)
    text += fmt::format("{}: {:.3f}x ({:.3f} .. {:.3f}), 99% confidence\n",
                        to_string(t.proof.speed), t.proof.ratio, t.proof.low, t.proof.high) +
            (t.verdict == Answer::pass ? "the results agree\n" : "");
  else if (std::any_of(t.classes.begin(), t.classes.end(),
                       [](const SiteClass& c) { return c.chosen >= 0; }))
    text += "the model has its best form already\n";
  else
    text += "nothing pays: the model stays as it was\n";
  text += fmt::format("\ninputs {}\n{}, {} thread{}, inference mode; {}\n", printable(t.inputs),
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
      json.member("after", trial.after).member("remembered", trial.remembered).end();
    }
    json.end().key("chosen");
    c.chosen < 0 ? json.null() : json.value(c.chosen);
    json.member("why", c.why).end();
  }
  json.end().key("proof");
  t.proof.rounds.empty() ? void(json.null()) : write(json, t.proof);
  json.key("verdict");
  t.verdict ? json.value(to_string(*t.verdict)) : json.null();
  json.member("inputs", t.inputs).member("device", t.device).member("threads", t.threads);
  json.member("mode", "inference").member("machine", t.machine);
  texts("notes", t.notes);
  json.end();
  return json.take();
}

}  // namespace refx
