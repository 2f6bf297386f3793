#include "refx/verify.h"
#include "text/json_writer.h"

namespace refx {

namespace {

void write(Json& json, const OutputCheck& c) {
  json.object().member("path", c.path).member("type", c.type);
  json.member("passed", c.passed()).member("exact", c.exact);
  if (!c.exact) {
    json.member("scale", c.scale);
    json.member("original_error", c.original_error);
    json.member("original_relative", c.original_relative());
    json.member("error", c.current_error).member("relative", c.current_relative());
    json.member("allowed", c.allowed);
  }
  if (!c.passed()) json.member("problem", c.problem);
  json.end();
}

void write(Json& json, const SetCheck& set) {
  json.object().member("inputs", set.origin).member("passed", set.passed());
  json.key("outputs").array(Json::kLines);
  for (const OutputCheck& check : set.outputs) write(json, check);
  json.end().end();
}

void write(Json& json, const StepCheck& step) {
  json.object().member("id", step.id.value).member("transformation", step.transformation);
  json.member("site", step.site).key("built_on").array();
  for (StepId id : step.built_on) json.value(id.value);
  json.end().member("passed", step.passed()).member("added", step.added_error).key("worst");
  write(json, step.worst);
  json.end();
}

}  // namespace

std::string to_json(const Verification& v) {
  Json json;
  json.object(Json::kLines).member("passed", v.passed());
  json.member("reference", v.in_fp64 ? "fp64" : "original");
  if (!v.in_fp64) json.member("why_not_fp64", v.why_not);
  json.member("random", v.random).member("seed", v.seed).member("threads", v.threads);
  json.key("sets").array(Json::kLines);
  for (const SetCheck& set : v.sets) write(json, set);
  json.end().key("steps").array(Json::kLines);
  for (const StepCheck& step : v.steps) write(json, step);
  json.end().key("notes").array();
  for (const std::string& text : v.notes) json.value(text);
  json.end().end();
  return json.take();
}

}  // namespace refx
