// refx run: runs a model and says what came out.

#include <ATen/core/Tensor.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/run.h"
#include "refx/text.h"
#include "refx/values.h"
#include "util/json_writer.h"

namespace refx::cli {

namespace {

// One value of the output, in numbers. Those of a tensor leave its nans out.
struct Summary {
  std::string path, type;
  std::string text;  // of what is no tensor
  bool has_numbers = false;
  double min = 0, max = 0, mean = 0;
  std::int64_t nans = 0;
};

Summary summary_of(const Leaf& leaf) {
  Summary s;
  s.path = leaf.path;
  s.type = leaf.value.tagKind();
  if (!leaf.value.isTensor()) {
    s.text = leaf.value.isNone() ? "None" : c10::str(leaf.value);
    return s;
  }
  const at::Tensor& tensor = leaf.value.toTensor();
  s.type = print(*type_of(tensor));
  if (tensor.is_complex() || tensor.layout() != c10::kStrided || tensor.is_meta()) return s;
  const at::Tensor values = tensor.detach().cpu().to(at::kDouble).flatten();
  const at::Tensor nan = at::isnan(values);
  s.nans = nan.sum().item<std::int64_t>();
  const at::Tensor numbers = values.masked_select(nan.logical_not());
  if (numbers.numel() == 0) return s;
  s.has_numbers = true;
  s.min = numbers.min().item<double>();
  s.max = numbers.max().item<double>();
  s.mean = numbers.mean().item<double>();
  return s;
}

void print_json(const std::string& origin, const std::vector<Summary>& all) {
  Json json;
  json.object(Json::kLines).member("inputs", origin).key("outputs").array(Json::kLines);
  for (const Summary& s : all) {
    json.object().member("path", s.path).member("type", s.type);
    if (!s.text.empty()) json.member("value", s.text);
    if (s.has_numbers) json.member("min", s.min).member("max", s.max).member("mean", s.mean);
    if (s.text.empty()) json.member("nan", s.nans);
    json.end();
  }
  json.end().end();
  say_exactly(json.take());
}

void print_table(const std::string& origin, const std::vector<Summary>& all) {
  say("inputs: {}\n", origin);
  using enum Table::Align;
  Table table({left, left, right, right, right, right});
  table.head({"output", "type", "min", "max", "mean", "nan"});
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (const Summary& s : all) {
    if (!s.text.empty())
      table.row({s.path, s.type, s.text});
    else if (s.has_numbers)
      table.row(
          {s.path, s.type, number(s.min), number(s.max), number(s.mean), std::to_string(s.nans)});
    else
      table.row({s.path, s.type, "", "", "", std::to_string(s.nans)});
  }
  say("{}", table.text());
}

}  // namespace

int run(const RunOptions& options) {
  const Model& model = load_to_run(options.model, options);
  Measure measure = options.measure;
  take_inputs(measure, model, options.inputs);
  const RunResult result = run_on_copies(model, measure);
  std::vector<Summary> summaries;
  for (const Leaf& leaf : leaves(result.output)) summaries.push_back(summary_of(leaf));
  require_unchanged_files();
  if (!options.output.empty()) write_values(options.output, result.output);
  if (options.json)
    print_json(result.inputs, summaries);
  else
    print_table(result.inputs, summaries);
  if (result.random)
    note(fmt::format("the outputs are random: they were drawn from seed {}", measure.seed));
  if (!options.output.empty()) note(fmt::format("{} written, for torch.load", options.output));
  return kDone;
}

}  // namespace refx::cli
