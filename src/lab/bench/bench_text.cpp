// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/bench/contest_json.h"
#include "refx/bench.h"
#include "util/columns.h"
#include "util/json_writer.h"
#include "util/printable.h"

namespace refx {

namespace {

std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

Row row_of(const std::string& which, const std::string& name, const Timing& t) {
  return {which, name, duration(t.median),
          fmt::format("{} .. {}", duration(t.low), duration(t.high)),
          fmt::format("{} runs", t.runs)};
}

std::string ratio(const Contest& c) {
  return fmt::format("{:.3f}x ({:.3f} .. {:.3f})", c.ratio, c.low, c.high);
}

double per_second(std::int64_t count, const Timing& timing) {
  return timing.median > 0 ? static_cast<double>(count) / timing.median : 0;
}

// How fast a sequence is in the words of those who decode.
std::string rates_of(const Benchmark& b) {
  const bool tokens = b.tokens > 0;
  const std::int64_t count = tokens ? b.tokens : static_cast<std::int64_t>(b.calls);
  return fmt::format(
      "{} calls in each run, after a first one that is not timed: {:.1f} {} before, {:.1f} after\n",
      b.calls, per_second(count, b.contest.before), tokens ? "tokens/s" : "calls/s",
      per_second(count, b.contest.after));
}

std::string steps_of(const std::vector<StepSpeed>& steps) {
  std::vector<Row> rows = {{"step", "transformation", "site", "gives", "verdict"}};
  for (const StepSpeed& s : steps)
    rows.push_back({std::to_string(s.id.value), s.transformation, s.site, ratio(s.contest),
                    to_string(s.contest.speed)});
  return "the model, compared with the model without one step:\n" + columns(rows);
}

}  // namespace

std::vector<std::string> Benchmark::messages(HintFormatter formatter) const {
  std::vector<std::string> all = notes, ways;
  for (Hint hint : advice) ways.push_back(formatter(hint));
  if (!ways.empty()) all.push_back(fmt::format("what may help: {}", fmt::join(ways, ", ")));
  return all;
}

std::string to_text(const Benchmark& b, HintFormatter formatter) {
  const Contest& c = b.contest;
  std::string text =
      columns({row_of("before", b.before, c.before), row_of("after", b.after, c.after)});
  text += fmt::format("{}: {}, 99% confidence, {} rounds\n", to_string(c.speed), ratio(c),
                      c.rounds.size());
  if (b.calls > 0) text += rates_of(b);
  if (!b.steps.empty()) text += "\n" + steps_of(b.steps);
  text += fmt::format("\ninputs: {}\n{}, {} thread{}, inference mode; {}\n", printable(b.inputs),
                      b.device, b.threads, b.threads == 1 ? "" : "s", b.machine);
  for (const std::string& note : b.messages(formatter))
    text += fmt::format("note: {}\n", printable(note));
  return text;
}

void write(Json& json, const Contest& c) {
  const auto timing = [&](const char* name, const Timing& t) {
    json.key(name).object().member("low", t.low).member("median", t.median);
    json.member("high", t.high).member("runs", std::uint64_t{t.runs}).end();
  };
  json.object(Json::kLines).member("speed", to_string(c.speed));
  json.member("ratio", c.ratio).member("low", c.low).member("high", c.high);
  timing("before", c.before);
  timing("after", c.after);
  json.key("rounds").array();
  for (double r : c.rounds) json.value(r);
  json.end().end();
}

std::string to_json(const Benchmark& b, HintFormatter formatter) {
  Json json;
  json.object(Json::kLines).member("before", b.before).member("after", b.after);
  json.member("inputs", b.inputs).member("device", b.device).member("threads", b.threads);
  json.member("mode", "inference").member("machine", b.machine).member("confidence", 0.99);
  if (b.calls > 0) {
    json.member("calls", b.calls).member("tokens", b.tokens);
    const auto rates = [&](const char* name, std::int64_t count) {
      json.key(name).object().member("before", per_second(count, b.contest.before));
      json.member("after", per_second(count, b.contest.after)).end();
    };
    rates("calls_per_second", static_cast<std::int64_t>(b.calls));
    if (b.tokens > 0) rates("tokens_per_second", b.tokens);
  }
  write(json.key("contest"), b.contest);
  json.key("steps").array(Json::kLines);
  for (const StepSpeed& s : b.steps) {
    json.object().member("id", s.id.value).member("transformation", s.transformation);
    write(json.member("site", s.site).key("contest"), s.contest);
    json.end();
  }
  json.end().key("notes").array();
  for (const std::string& note : b.messages(formatter)) json.value(note);
  json.end().end();
  return json.take();
}

}  // namespace refx
