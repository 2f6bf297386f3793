// SPDX-License-Identifier: Apache-2.0

// refx run: runs a model and shows its outputs.

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
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

// Statistics of one value of the output. Those of a tensor ignore NaNs.
struct Summary {
  std::string path, type;
  std::string text;  // of a value that is not a tensor
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

using Summaries = std::vector<Summary>;

void write(Json& json, const Summaries& all) {
  json.key("outputs").array(Json::kLines);
  for (const Summary& s : all) {
    json.object().member("path", s.path).member("type", s.type);
    if (!s.text.empty()) json.member("value", s.text);
    if (s.has_numbers) json.member("min", s.min).member("max", s.max).member("mean", s.mean);
    if (s.text.empty()) json.member("nan", s.nans);
    json.end();
  }
  json.end();
}

// The outputs of the last call, and of each if there are several.
void print_json(const std::string& origin, const std::vector<Summaries>& calls) {
  Json json;
  json.object(Json::kLines).member("inputs", origin);
  write(json, calls.back());
  if (calls.size() > 1) {
    json.key("calls").array(Json::kLines);
    for (const Summaries& call : calls) {
      json.object();
      write(json, call);
      json.end();
    }
    json.end();
  }
  json.end();
  say_exactly(json.take());
}

void print_table(const std::string& origin, const std::vector<Summaries>& calls) {
  say("inputs: {}\n", origin);
  using enum TextTable::Align;
  TextTable table({left, left, right, right, right, right});
  table.head({"output", "type", "min", "max", "mean", "nan"});
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const std::string which = calls.size() == 1 ? "" : fmt::format("call {}: ", call + 1);
    for (const Summary& s : calls[call]) {
      const std::string path = which + s.path;
      if (!s.text.empty())
        table.row({path, s.type, s.text});
      else if (s.has_numbers)
        table.row(
            {path, s.type, number(s.min), number(s.max), number(s.mean), std::to_string(s.nans)});
      else
        table.row({path, s.type, "", "", "", std::to_string(s.nans)});
    }
  }
  say_table(table);
}

c10::IValue as_list(const std::vector<c10::IValue>& values) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const c10::IValue& value : values) list.push_back(value);
  return list;
}

c10::IValue as_dict(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor.cpu());
  return dict;
}

}  // namespace

int run(const RunOptions& options) {
  const Model& model = load_to_run(options.model, options);
  Measure measure = options.measure;
  take_inputs(measure, model, options.inputs);
  const RunResult result = run_on_copies(model, measure);
  std::vector<Summaries> summaries;
  for (const c10::IValue& output : result.outputs) {
    summaries.emplace_back();
    for (const Leaf& leaf : leaves(output)) summaries.back().push_back(summary_of(leaf));
  }
  require_unchanged_files();
  if (!options.output.empty())
    write_values(options.output,
                 result.outputs.size() == 1 ? result.output : as_list(result.outputs));
  if (!options.state.empty()) write_values(options.state, as_dict(result.state));
  if (options.json)
    print_json(result.inputs, summaries);
  else
    print_table(result.inputs, summaries);
  if (result.random) note(fmt::format("the outputs are random, from seed {}", measure.seed));
  for (const std::string& path : {options.output, options.state})
    if (!path.empty()) note(fmt::format("{} written, for torch.load", path));
  return kDone;
}

}  // namespace refx::cli
