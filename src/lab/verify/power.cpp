// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/power.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>

#include "lab/verify/noise.h"
#include "refx/editor.h"

namespace refx {

namespace {

// A tensor of zeros and one other number. A small relative error of such a mask has no meaning: 0
// and -inf stay what they are.
bool is_mask(const at::Tensor& tensor) {
  if (tensor.is_complex()) return false;
  const at::Tensor others = tensor.masked_select(tensor != 0);
  if (others.numel() == 0) return true;
  return others.numel() < tensor.numel() && at::equal(others.min(), others.max());
}

// Whether a value can have a small relative error. Integers and masks cannot. Of values that are
// computed in a run only the dtype is known, if at all.
bool can_be_off(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (const StateId state = model.state().find(bound_state(node))) {
    const at::Tensor tensor(model.state().tensor(state));
    return is_approximate(tensor.scalar_type()) && !is_mask(tensor);
  }
  return !node.type || is_approximate(node.type->dtype);
}

// The results of the step that the rest of the model reads, and that can have a small error. The
// fp64 model stores constants, so it may lack a result that is constant; then the search continues
// with the users of that result until it finds nodes that the fp64 model has.
std::set<NodeId> values_read_outside(const Model& model, const Model& wide, const Step& step) {
  const Graph& graph = model.graph();
  const std::set<NodeId> own(step.nodes.begin(), step.nodes.end());
  std::set<NodeId> values;
  std::vector<NodeId> queue;
  for (NodeId id : step.nodes) {
    if (!graph.contains(id)) continue;
    if (graph[id].op == Opcode::placeholder && graph[id].state.empty()) continue;
    const auto& users = graph.users(id);
    if (std::any_of(users.begin(), users.end(), [&](NodeId u) { return own.count(u) == 0; }))
      queue.push_back(id);
  }
  std::set<NodeId> seen(queue.begin(), queue.end());
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (wide.graph().contains(queue[i])) {
      if (can_be_off(wide, queue[i])) values.insert(queue[i]);
      continue;
    }
    for (NodeId user : graph.users(queue[i]))
      if (seen.insert(user).second) queue.push_back(user);
  }
  return values;
}

// A copy of the fp64 model with errors planted in the stored tensors that these nodes read.
Model with_planted_state(const Model& wide, const std::set<NodeId>& values, double part,
                         std::uint64_t seed) {
  Model copy = wide;
  Editor editor(copy);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (NodeId id : values) {
    const Name& name = bound_state(wide.graph()[id]);
    if (name.empty()) continue;
    const StateId state = wide.state().find(name);
    editor.set_state(state, planted(at::Tensor(wide.state().tensor(state)), part, generator));
  }
  editor.commit_as_origin(wide.source());
  return copy;
}

double largest_fraction(Evidence evidence, const Run& wide, bool exactly) {
  static const FarRuns kNone;  // flipped decisions do not matter here
  evidence.weights.far = evidence.rounding.far = []() -> const FarRuns& { return kNone; };
  evidence.explained = exactly;
  double most = 0;
  for (const OutputCheck& check : judge(evidence, evidence.original, &wide)) {
    if (check.exact) {
      if (!check.passed()) return INFINITY;
      continue;
    }
    if (check.fp64_error.error > 0)
      most = std::max(most, check.fp64_error.error / check.fp64_error.allowed);
  }
  return most;
}

}  // namespace

double PowerTest::fraction_of_tolerance(const std::set<NodeId>& values, double part,
                                        bool exactly) const {
  double most = 0;
  const Model wide_form = with_planted_state(wide_, values, part, seed_);
  std::set<std::string> nodes;
  for (NodeId id : values) nodes.insert(wide_.graph()[id].name);
  for (const Witness& witness : witnesses_) {
    if (!witness.evidence(0).wide) continue;
    // Only the fp64 comparison is tested: errors in the model's own dtype have a larger tolerance.
    Planted planted(nodes, part, seed_);
    const std::vector<Run> wide = witness.run_in_fp64(wide_form, &planted);
    for (std::size_t call = 0; call < witness.calls() && most <= 1; ++call)
      most = std::max(most, largest_fraction(witness.evidence(call), wide[call], exactly));
    if (most > 1) break;
  }
  return most;
}

bool PowerTest::can_plant(const Step& step) const {
  return !values_read_outside(model_, wide_, step).empty();
}

std::set<NodeId> PowerTest::values_read_from(Steps steps) const {
  std::set<NodeId> values;
  for (const Step* step : steps) values.merge(values_read_outside(model_, wide_, *step));
  return values;
}

bool PowerTest::detects(Steps steps, double part) const {
  return fraction_of_tolerance(values_read_from(steps), part, false) > 1;
}

bool PowerTest::reaches(Steps steps) const {
  return fraction_of_tolerance(values_read_from(steps), 0.5, false) > 0;
}

std::optional<double> PowerTest::smallest_detected(const Step& step) const {
  const std::set<NodeId> values = values_read_outside(model_, wide_, step);
  const auto is_detected = [&](double part) { return fraction_of_tolerance(values, part) > 1; };
  // The effect of a small error is proportional to it, so one run predicts the threshold, and two
  // more confirm it to within 5%. Otherwise the search bisects on a logarithmic scale, to within
  // 10%. Below 2^-48 an error cannot be told from fp64's own rounding.
  double low = 0x1p-48, high = 1;
  const double at_one_percent = fraction_of_tolerance(values, kPlantedError);
  if (std::isfinite(at_one_percent) && at_one_percent > 0) {
    const double guess = std::min(1.0, kPlantedError / at_one_percent);
    (is_detected(std::min(1.0, 1.05 * guess)) ? high : low) = std::min(1.0, 1.05 * guess);
    if (high < 1) (is_detected(0.95 * guess) ? high : low) = 0.95 * guess;
  }
  if (high == 1 && !is_detected(1)) return std::nullopt;
  while (high > 1.1 * low) {
    const double middle = std::sqrt(low * high);
    (is_detected(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace refx
