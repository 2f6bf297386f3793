// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/trials.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <filesystem>

#include "refx/error.h"
#include "refx/old_names.h"
#include "util/json_lines.h"
#include "util/json_writer.h"
#include "util/regular_file.h"

namespace refx {

namespace {

Trial read_trial(const simdjson::dom::element& line) {
  Trial trial;
  for (std::string_view move : line["moves"]) trial.moves.emplace_back(current_name(move));
  trial.before = double(line["before"]);
  trial.after = double(line["after"]);
  trial.ratio = double(line["ratio"]);
  trial.low = double(line["low"]);
  trial.high = double(line["high"]);
  const std::string_view speed = line["speed"];
  for (Speed s : {Speed::faster, Speed::slower, Speed::no_difference, Speed::unstable})
    if (to_string(s) == speed) trial.speed = s;
  return trial;
}

}  // namespace

Trials::Trials(std::string where, std::string file)
    : where_(std::move(where)), file_(std::move(file)) {
  // An error is reported now, not when the first trial has been measured.
  if (!file_.empty() && std::filesystem::exists(file_)) close(open_regular(file_));
}

std::size_t Trials::read(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw Error(fmt::format("{}: there is no such file of trials", path));
  std::size_t count = 0;
  read_json_lines(path, [&](const simdjson::dom::element& line) { count += take(line, true); });
  return count;
}

void Trials::read_line(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::element line;
  if (!parser.parse(text).get(line)) take(line, false);
}

bool Trials::take(const simdjson::dom::element& line, bool remembered) {
  if (std::string_view(line["where"]) != where_) return false;
  Trial trial = read_trial(line);
  trial.remembered = remembered;
  // Unstable trials are measured again, because the machine may be quieter now.
  if (remembered && trial.speed == Speed::unstable) return true;
  const std::string_view key = line["class"];
  all_[{std::string(key), trial.moves}] = std::move(trial);
  return true;
}

const Trial* Trials::find(const std::string& key, const std::vector<std::string>& moves) const {
  const auto it = all_.find({key, moves});
  return it == all_.end() ? nullptr : &it->second;
}

std::string Trials::add(const std::string& key, const Trial& trial) {
  Json json;
  json.object().member("class", key).key("moves").array();
  for (const std::string& move : trial.moves) json.value(move);
  json.end().member("before", trial.before).member("after", trial.after);
  json.member("ratio", trial.ratio).member("low", trial.low).member("high", trial.high);
  json.member("speed", to_string(trial.speed)).member("saved", trial.saved);
  json.member("where", where_).end();
  std::string line = json.take();
  line.pop_back();
  if (!file_.empty()) append_line(file_, line);
  all_[{key, trial.moves}] = trial;
  return line;
}

}  // namespace refx
