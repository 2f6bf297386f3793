#include "pt2/targets.h"

#include "ops/names.h"

namespace refx {

namespace {

constexpr std::string_view kOps = "torch.ops.", kHigherOrder = "higher_order.";

}  // namespace

std::string target_from_file(std::string_view target) {
  if (target.starts_with(kOps)) {
    const std::string_view name = target.substr(kOps.size());
    if (operator_target(name) || name.starts_with(kHigherOrder)) return std::string(name);
  }
  if (target.starts_with("_operator.")) target.remove_prefix(1);
  return std::string(target);
}

std::string target_for_file(std::string_view target) {
  if (target.starts_with("operator.")) return "_" + std::string(target);
  if (!target.starts_with(kOps) && (operator_target(target) || target.starts_with(kHigherOrder)))
    return std::string(kOps) + std::string(target);
  return std::string(target);
}

}  // namespace refx
