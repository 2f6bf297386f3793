// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"
#include "refx/site.h"

namespace refx {

// Undo of steps. This level does not know the transformations: the caller passes a function that
// applies a dependent step again. reverse() of refx/reverse.h passes one that uses the registry.

// What happens to live steps that depend on a reversed one.
enum class Dependents {
  reapply,  // they are applied again where they still match, as if the reversed step had never
            // been applied
  refuse,   // an Error names them, and nothing changes
  cascade,  // they are reversed as well
};

struct ReverseOptions {
  Dependents dependents = Dependents::reapply;
  bool discard_changes = false;  // drops changes since then to tensors that a step made
  bool redoable = true;          // false: the model does not keep the reversed steps for redo()
};

struct Reversal {
  std::vector<StepId> reversed;  // newest first: the requested and the cascaded steps
  struct Replaced {
    StepId id;                           // a dependent step …
    std::string label;                   // … "transformation  site"
    std::vector<StepId> reapplied = {};  // … and the steps that replace it; empty if it was dropped
    bool known = true;  // false: dropped because its transformation is not registered
  };
  std::vector<Replaced> replaced;
};

// The steps to be reversed, and the ones that depend on them.
struct REFX_API ReversalPlan {
  std::vector<StepId> asked;  // the requested steps in order, without duplicates
  // Each dependent step, with the steps that it directly depends on.
  std::map<StepId, std::vector<StepId>> dependents;

  bool is_asked(StepId id) const;
};
// Throws Error if a step is not live.
REFX_API ReversalPlan plan_reversal(Model& model, const std::vector<StepId>& steps);

// Applies the transformation of a step again, at the sites that `accept` accepts, and calls
// `on_step` for every new step.
using AcceptSite = std::function<bool(const Site&)>;
using OnStep = std::function<void(const Site&, StepId)>;
using Reapply = std::function<void(Model& model, const Step& like, const AcceptSite& accept,
                                   const OnStep& on_step)>;

// Reverses the steps of the plan, bit for bit. If anything fails, nothing changes.
REFX_API Reversal undo(Model& model, const ReversalPlan& plan, const ReverseOptions& options,
                       const Reapply& reapply = {});

// Restores the last reversed step exactly as it was. Returns false if there is none.
REFX_API bool redo(Model& model);

// Drops the history and the originals that it keeps. The model does not change.
REFX_API void forget(Model& model);

}  // namespace refx
