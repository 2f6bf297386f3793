// SPDX-License-Identifier: Apache-2.0

#include "refx/verify.h"
#include "util/json_writer.h"

namespace refx {

namespace {

void write(Json& json, const char* name, const Distance& d, const OutputCheck& c) {
  json.key(name).object().member("error", d.error).member("relative", c.relative(d.error));
  if (c.lossy)
    json.key("allowed").null().key("relative_allowed").null().end();
  else
    json.member("allowed", d.allowed).member("relative_allowed", c.relative(d.allowed)).end();
}

void write(Json& json, const OutputCheck& c) {
  json.object().member("path", c.path).member("type", c.type);
  json.member("verdict", to_string(c.answer)).member("passed", c.passed()).member("exact", c.exact);
  // Bits either agree or do not: an exact output has no errors to report.
  if (!c.exact) {
    json.member("scale", c.scale);
    write(json, "fp64_error", c.fp64_error, c);
    write(json, "native_error", c.native_error, c);
    json.member("original_error", c.original_error);
    json.member("original_relative", c.relative(c.original_error));
    json.member("original_l2", c.original_l2).member("l2", c.l2);
  }
  json.member("fraction_exceeding", c.fraction_exceeding);
  if (c.call > 0) json.member("call", std::uint64_t{c.call});
  if (!c.passed()) json.member("problem", c.problem);
  json.end();
}

void write(Json& json, const SetCheck& set) {
  json.object().member("inputs", set.origin).member("verdict", to_string(set.answer()));
  if (set.calls > 1) json.member("calls", std::uint64_t{set.calls});
  json.member("passed", set.passed()).key("outputs").array(Json::kLines);
  for (const OutputCheck& check : set.outputs) write(json, check);
  json.end().end();
}

void write(Json& json, const StepCheck& step) {
  json.object().member("id", step.id.value).member("transformation", step.transformation);
  json.member("site", step.site).key("built_on").array();
  for (StepId id : step.built_on) json.value(id.value);
  json.end().member("passed", step.passed()).member("added", step.added_error).key("worst");
  write(json, step.worst);
  if (step.lossy) json.member("lossy", true).member("marginal_error", step.marginal_error);
  json.end();
}

void write(Json& json, const Lossy& lossy) {
  json.key("lossy").object().member("error", lossy.error);
  if (lossy.budget > 0) json.member("budget", lossy.budget);
  json.key("steps").array();
  for (StepId id : lossy.steps) json.value(id.value);
  json.end().end();
}

void write(Json& json, const StepPower& step) {
  json.object().member("id", step.id.value).member("transformation", step.transformation);
  json.member("site", step.site).key("detected");
  step.detected ? json.value(*step.detected) : json.null();
  json.end();
}

void write(Json& json, const std::string& text) { json.value(text); }

template <class Items>
void write_all(Json& json, const char* name, const Items& items) {
  json.key(name).array(Json::kLines);
  for (const auto& item : items) write(json, item);
  json.end();
}

}  // namespace

std::string to_json(const Verification& v) {
  Json json;
  json.object(Json::kLines).member("verdict", v.verdict()).member("passed", v.passed());
  if (!v.passed()) json.member("reason", v.reason());
  json.member("reference", v.in_fp64 ? "fp64" : "original");
  if (!v.in_fp64) json.member("why_not_fp64", v.why_not);
  json.member("random", v.random).member("seed", v.seed).member("threads", v.threads);
  if (v.lossy) write(json, *v.lossy);
  write_all(json, "sets", v.sets);
  write_all(json, "steps", v.steps);
  write_all(json, "power", v.power);
  write_all(json, "warnings", v.warnings);
  write_all(json, "notes", v.notes);
  json.end();
  return json.take();
}

}  // namespace refx
