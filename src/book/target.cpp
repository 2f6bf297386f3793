// SPDX-License-Identifier: Apache-2.0

#include "book/target.h"

#include <algorithm>

#include "refx/target.h"

namespace refx::book {

namespace {

constexpr std::string_view kOps = "torch.ops.", kHigherOrder = "higher_order.";

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The parts of "space.name.overload" or "space.name".
Target parse_operator(std::string_view target, bool prefixed) {
  const auto first = target.find('.');
  if (first == target.npos) return {};
  const std::string_view space = target.substr(0, first);
  const auto second = target.find('.', first + 1);
  if (second == target.npos) {
    if (!prefixed && space != "aten" && space != "prims") return {};
    return {Target::Kind::packet, space, target.substr(first + 1), {}};
  }
  if (target.find('.', second + 1) != target.npos) return {};
  return {Target::Kind::op, space, target.substr(first + 1, second - first - 1),
          target.substr(second + 1)};
}

Target python_target(Target::Kind kind, std::string_view target) {
  const auto last = target.rfind('.');
  if (last == target.npos) return {kind, {}, target, {}};
  return {kind, target.substr(0, last), target.substr(last + 1), {}};
}

Target parse(std::string_view target) {
  using Kind = Target::Kind;
  if (std::string_view rest = target; consume(rest, kOps)) return parse_operator(rest, true);
  if (target.starts_with("torch.nn.functional.")) return python_target(Kind::functional, target);
  if (target.starts_with("torch.")) return python_target(Kind::torch, target);
  if (target.starts_with("operator.") || target.starts_with("math."))
    return python_target(Kind::python, target);
  if (target.starts_with("_operator.")) return python_target(Kind::python, target.substr(1));
  if (target.starts_with("builtins.") || target.find('.') == target.npos)
    return python_target(Kind::builtin, target);
  return parse_operator(target, false);
}

}  // namespace

Target parse_target(std::string_view target) {
  Target parsed = parse(target);
  if (parsed.kind == Target::Kind::other) parsed = {Target::Kind::other, {}, target, {}};
  return parsed;
}

std::string operator_of(const Target& function) {
  for (std::string_view space : {"linalg", "fft", "special"})
    if (function.space == "torch." + std::string(space))
      return std::string(space) + "_" + std::string(function.name);
  return std::string(function.name);
}

std::string Target::qualified_name() const { return std::string(space) + "::" + std::string(name); }

std::string Target::overload_name() const {
  return overload == "default" ? "" : std::string(overload);
}

std::string target_from_file(std::string_view target) {
  if (std::string_view name = target; consume(name, kOps))
    if (parse_target(name).is_op() || name.starts_with(kHigherOrder)) return std::string(name);
  if (target.starts_with("_operator.")) target.remove_prefix(1);
  return std::string(target);
}

std::string target_for_file(std::string_view target) {
  if (target.starts_with("operator.")) return "_" + std::string(target);
  if (!target.starts_with(kOps) &&
      (parse_target(target).is_op() || target.starts_with(kHigherOrder)))
    return std::string(kOps) + std::string(target);
  return std::string(target);
}

std::string_view value_name(std::string_view target) {
  const Target parsed = parse_target(target);
  if (parsed.kind != Target::Kind::other) return parsed.name;
  return target.substr(target.rfind('.') + 1);  // npos + 1 == 0
}

}  // namespace refx::book

namespace refx {

std::optional<OperatorParts> operator_parts(std::string_view target) {
  const book::Target parts = book::parse_target(target);
  if (!parts.is_op()) return std::nullopt;
  return OperatorParts{std::string(parts.space), std::string(parts.name),
                       std::string(parts.overload)};
}

}  // namespace refx
