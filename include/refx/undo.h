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

// Taking steps back. It knows no transformations: what applies a step again where it built on one
// that is gone is handed in. reverse() hands in the registry, see refx/reverse.h.

// What happens to live steps that build on a reversed one.
enum class Dependents {
  reapply,  // as if the reversed step had never been applied: they are applied again where they
            // match
  refuse,   // Error that names them; nothing is changed
  cascade,  // they are reversed too
};

struct ReverseOptions {
  Dependents dependents = Dependents::reapply;
  bool discard_changes = false;  // drop what was trained since into tensors that a step made
  bool redoable = true;          // off: the model keeps nothing of what is reversed
};

struct Reversal {
  std::vector<StepId> reversed;  // newest first: what was asked for, and what was cascaded
  struct Replaced {
    StepId id;                           // a dependent step …
    std::string label;                   // … "transformation  site"
    std::vector<StepId> reapplied = {};  // … and what stands in its place; empty: dropped
    bool known = true;  // false: dropped since its transformation is not registered here
  };
  std::vector<Replaced> replaced;
};

// What reversing some steps takes along.
struct REFX_API ReversalPlan {
  std::vector<StepId> asked;  // in order, each once
  // Other steps -> the steps they build on, but for those that are behind another of them.
  std::map<StepId, std::vector<StepId>> dependents;

  bool is_asked(StepId id) const;
};
// Throws Error if a step is not live.
REFX_API ReversalPlan plan_reversal(Model& model, const std::vector<StepId>& steps);

// Applies what a step did again, at the sites that are accepted, and tells of every new step.
using AcceptSite = std::function<bool(const Site&)>;
using OnStep = std::function<void(const Site&, StepId)>;
using Reapply = std::function<void(Model& model, const Step& like, const AcceptSite& accept,
                                   const OnStep& on_step)>;

// Takes the steps of the plan back, bit for bit. On any failure nothing is changed.
REFX_API Reversal undo(Model& model, const ReversalPlan& plan, const ReverseOptions& options,
                       const Reapply& reapply = {});

// Brings the last reversed step back exactly as it was; false if there is none.
REFX_API bool redo(Model& model);

// Drops the history and the originals it keeps. The model stays as it is.
REFX_API void forget(Model& model);

}  // namespace refx
