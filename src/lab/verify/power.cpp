#include "lab/verify/power.h"

#include <algorithm>
#include <cmath>

#include "lab/verify/noise.h"

namespace refx {

namespace {

// The values that the step gives to the rest of the model.
std::set<std::string> handed_on(const Model& model, const Step& step) {
  const std::set<NodeId> own(step.nodes.begin(), step.nodes.end());
  std::set<std::string> names;
  for (NodeId id : step.nodes) {
    if (!model.graph().contains(id)) continue;
    const Node& node = model.graph()[id];
    if (node.op == Opcode::placeholder || node.op == Opcode::get_attr) continue;
    const auto& users = model.graph().users(id);
    const bool leaves =
        std::any_of(users.begin(), users.end(), [&](NodeId user) { return own.count(user) == 0; });
    if (leaves) names.insert(node.name);
  }
  return names;
}

}  // namespace

double PowerTest::load(const std::set<std::string>& nodes, double part) const {
  double most = 0;
  for (const Witness& witness : witnesses_) {
    Evidence evidence = witness.evidence();
    if (!evidence.wide) continue;
    static const FarRuns kNone;  // whether a decision is turned does not matter here
    evidence.weights.far = evidence.rounding.far = []() -> const FarRuns& { return kNone; };
    Planted planted(nodes, part, seed_);
    const Run wide = witness.run_in_fp64(wide_, &planted);
    for (const OutputCheck& check : judge(evidence, evidence.original, &wide)) {
      if (check.exact) {
        if (!check.passed()) return INFINITY;
        continue;
      }
      if (check.meaning.error > 0)
        most = std::max(most, check.meaning.error / check.meaning.allowed);
    }
    if (most > 1) break;
  }
  return most;
}

bool PowerTest::notices(const Step& step, double part) const {
  return load(handed_on(model_, step), part) > 1;
}

bool PowerTest::reaches(const Step& step) const { return load(handed_on(model_, step), 0.5) > 0; }

std::optional<double> PowerTest::smallest_noticed(const Step& step) const {
  const std::set<std::string> nodes = handed_on(model_, step);
  const auto noticed = [&](double part) { return load(nodes, part) > 1; };
  // Small wrongs come out in proportion, so one run nearly tells; else by halving.
  double low = 0x1p-48, high = 1;
  const double at_one_percent = load(nodes, kPlanted);
  if (std::isfinite(at_one_percent) && at_one_percent > 0) {
    const double guess = std::min(1.0, kPlanted / at_one_percent);
    (noticed(std::min(1.0, 1.05 * guess)) ? high : low) = std::min(1.0, 1.05 * guess);
    if (high < 1) (noticed(0.95 * guess) ? high : low) = 0.95 * guess;
  }
  if (high == 1 && !noticed(1)) return std::nullopt;
  while (high > 1.1 * low) {
    const double middle = std::sqrt(low * high);
    (noticed(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace refx
