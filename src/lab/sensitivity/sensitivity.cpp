// SPDX-License-Identifier: Apache-2.0

#include "refx/sensitivity.h"

#include <ATen/Parallel.h>
#include <ATen/core/TensorBase.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "exec/policy.h"
#include "lab/run/forms.h"
#include "lab/run/machine.h"
#include "lab/run/sized_inputs.h"
#include "lab/verify/loss.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/undo.h"
#include "transforms/site_filter.h"

namespace refx {

namespace {

// A copy of the model with all steps to measure: those that redo() would bring back, and those of
// the given transformations.
Model with_all(const Model& model, const SensitivityOptions& options, FilterUse& filter) {
  Model all = model;
  // Redo first: new steps of the transformations would clear the steps that can be redone.
  if (options.reversed)
    while (redo(all)) {
    }
  for (const TransformationPtr& transformation : options.transformations)
    filter.apply(all, *transformation);
  return all;
}

// The position of a step in the graph is that of the first operator that it rewrote. Placeholders
// and get_attr nodes do not count: they are at the beginning of the graph, in the order of the
// state.
class StepPositions {
 public:
  explicit StepPositions(const Graph& graph) : positions_(graph.id_limit()) {
    const std::vector<NodeId> slots = graph.slots();
    for (std::size_t i = 0; i < slots.size(); ++i) positions_[slots[i].value] = i;
  }

  std::size_t of(const Step& step) const {
    std::size_t first = positions_.size();
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<Node>>(&edit); change && change->before)
        if (const Opcode op = change->before->op;
            op != Opcode::placeholder && op != Opcode::get_attr)
          first = std::min(first, positions_[change->id.value]);
    return first;
  }

 private:
  std::vector<std::size_t> positions_;
};

StepLoss describe(const Step& step, const std::set<StepId>& built_on) {
  StepLoss loss{step.id, step.transformation, step.site, {built_on.begin(), built_on.end()}};
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) {
      if (change->before) loss.bytes_before += change->before->tensor.nbytes();
      if (change->after) loss.bytes_after += change->after->tensor.nbytes();
    }
  return loss;
}

std::string none_found(const std::vector<TransformationPtr>& tried) {
  std::vector<std::string> names;
  for (const TransformationPtr& transformation : tried) names.push_back(transformation->name());
  return names.empty() ? "the model has no lossy steps: name transformations to try"
                       : fmt::format("there is no lossy step: the model has none, and {} made none",
                                     fmt::join(names, ", "));
}

std::vector<const Step*> lossy_steps(const Model& all, FilterUse& filter) {
  std::vector<const Step*> steps;
  SiteNames names(all);
  for (const Step& step : all.history())
    if (is_lossy(step) && filter.accepts(step, names)) steps.push_back(&step);
  const StepPositions positions(all.graph());
  std::stable_sort(steps.begin(), steps.end(), [&](const Step* a, const Step* b) {
    return positions.of(*a) < positions.of(*b);
  });
  return steps;
}

}  // namespace

double StepLoss::sqnr() const { return -20 * std::log10(error); }

Sensitivity sensitivity(const Model& model, const SensitivityOptions& options) {
  const Measure& measure = options.measure;
  if (!measure.device.empty() && to_device(measure.device, model) != to_device("", model))
    throw Error(fmt::format(
        "sensitivity cannot move models to '{}': it runs them on the device of their tensors",
        measure.device));
  FilterUse filter(options.filter);
  const Model all = with_all(model, options, filter);
  const std::vector<const Step*> steps = lossy_steps(all, filter);
  filter.require_matches(all);  // after everything that a pattern may match has been seen
  if (steps.empty()) throw Error(none_found(options.transformations));
  exec::require_allowed(all);
  const Model original = original_of(all);
  exec::require_allowed(original);

  const Environment environment(measure.threads.value_or(1));
  std::size_t done = 0;
  const auto progress = [&](const std::string& what) {
    if (measure.progress) measure.progress({done++, steps.size() + 2, what});
  };
  progress("the original");
  const Inputs inputs = sized_inputs(original, measure);
  const LossOf loss(original, {inputs}, measure.seed);
  Sensitivity result{
      .inputs = describe_inputs(inputs), .threads = at::get_num_threads(), .runs = 2};

  const auto error_of = [&](const Model& form) {
    ++result.runs;
    return loss(form);
  };
  const auto bases = built_on(all);
  std::set<StepId> together;
  for (const Step* step : steps) {
    progress(fmt::format("{} at {}", step->transformation, step->site));
    std::set<StepId> kept = bases.at(step->id);
    StepLoss& one = result.steps.emplace_back(describe(*step, kept));
    one.in_model = model.history().contains(step->id);
    kept.insert(step->id);
    together.insert(kept.begin(), kept.end());
    one.error = error_of(form_with(all, kept));
  }
  // The errors of single steps do not add up, so the whole is measured, too.
  progress("all of them");
  result.error = error_of(options.filter.empty() ? all : form_with(all, together));
  return result;
}

}  // namespace refx
