// SPDX-License-Identifier: Apache-2.0

#include "lab/check/requirements.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

#include "book/call.h"
#include "rules/literal.h"
#include "rules/match.h"

namespace refx::checking {

using rules::Body;
using rules::Definition;
using rules::Reading;

Requirements requirements_of(const Definition& rule, const std::string& variable) {
  Requirements requirements;
  const auto it = rule.where.named.find(variable);
  if (it == rule.where.named.end()) return requirements;
  const Graph& graph = rule.where.model.graph();
  for (NodeId user : graph.users(it->second)) {
    const Node& node = graph[user];
    if (node.target != "rule.rank") {
      for (const Arg& arg : node.args)
        if (const auto number = rules::number_of(arg)) requirements.numbers.push_back(*number);
      requirements.equal |= node.target == "operator.eq" || node.target == "rule.near";
      continue;
    }
    for (NodeId comparison : graph.users(user)) {
      const Node& compared = graph[comparison];
      const auto* to = compared.args.size() == 2 ? compared.args[1].get<std::int64_t>() : nullptr;
      if (!to) continue;
      const std::string& op = compared.target;
      if (op == "operator.eq") requirements.least_rank = requirements.most_rank = *to;
      if (op == "operator.ge") requirements.least_rank = *to;
      if (op == "operator.gt") requirements.least_rank = *to + 1;
      if (op == "operator.le") requirements.most_rank = *to;
      if (op == "operator.lt") requirements.most_rank = *to - 1;
    }
  }
  requirements.most_rank = std::max(requirements.most_rank, requirements.least_rank);
  return requirements;
}

bool may_be_absent(const Body& body, const std::string& variable) {
  const Graph& graph = body.model.graph();
  const Arg id(body.named.at(variable));
  for (NodeId user : graph.users(body.named.at(variable))) {
    if (graph[user].op != Opcode::call_function) continue;
    const Reading reading = rules::read_form(body, user);
    const c10::FunctionSchema* schema = book::Call(body.model, graph[user]).schema();
    for (const Reading::Given& given : reading.args) {
      if (!(given.value == id)) continue;
      static constexpr std::string_view kNeutral[] = {"add", "sub", "mul", "div"};
      const bool operand =
          given.name == "other" &&
          std::find(std::begin(kNeutral), std::end(kNeutral), reading.name) != std::end(kNeutral);
      const auto at =
          schema ? schema->argumentIndexWithName(std::string(given.name)) : std::nullopt;
      const bool optional =
          at && schema->arguments()[static_cast<std::size_t>(*at)].type()->kind() ==
                    c10::TypeKind::OptionalType;
      if (!operand && !optional && given.name != "dtype") return false;
    }
  }
  return true;
}

}  // namespace refx::checking
