// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "refx/editor.h"
#include "refx/reason.h"
#include "rules/match.h"

namespace refx::rules {

// What `after` would give at a match: why it cannot be made, or the types of its results, null
// where they are not known.
struct Draft {
  std::optional<Reason> problem;
  std::vector<TypePtr> types;
  std::vector<NodeId> calls;  // of `after`, that give them; no id for a value of the graph
};
Draft draft(const Definition& rule, const Model& model, const Match& match);

// Puts `after` in the place of a match that nothing speaks against.
void rewrite(const Definition& rule, Editor& editor, const Match& match);

}  // namespace refx::rules
