// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "ops/writes.h"
#include "refx/reason.h"
#include "rules/match.h"

namespace refx::rules {

// The matched nodes that nobody needs once the results are made another way, in the order of the
// graph, with what idles beside them. `problem` says why there is no such set.
struct Dead {
  std::vector<NodeId> nodes;
  std::optional<Reason> problem;
};
Dead dead_nodes(const Model& model, const Match& match);

// Why the rule cannot be applied at a match; nullopt if it can.
std::optional<Reason> why_not(const Definition& rule, const Model& model, const Match& match,
                              LazyWrites& writes);

// Whether the model is written with operators and lifted tensors, as torch.export has them.
bool is_exported(const Model& model, const Match& match);

}  // namespace refx::rules
