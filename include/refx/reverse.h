#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "refx/model.h"

namespace refx {

// What happens to live steps that build on a reversed one.
enum class Dependents {
  reapply,  // as if the reversed step had never been applied: they are applied again where they match
  refuse,   // Error that names them; nothing is changed
  cascade,  // they are reversed too
};

struct ReverseOptions {
  Dependents dependents = Dependents::reapply;
  bool discard_changes = false;  // drop what was trained since into tensors that a step made
};

struct Reversal {
  std::vector<StepId> reversed;  // newest first: what was asked for, and what was cascaded
  struct Replaced {
    StepId id;                     // a dependent step …
    std::string label;             // … "transformation  site"
    std::vector<StepId> reapplied;  // … and what stands in its place; empty: dropped
  };
  std::vector<Replaced> replaced;
};

// Takes steps back, bit for bit, in any order. On any failure nothing is changed.
Reversal reverse(Model& model, const std::vector<StepId>& steps, ReverseOptions options = {});
Reversal reverse(Model& model, StepId step, ReverseOptions options = {});
// By step id, transformation or site pattern; see History::select.
Reversal reverse(Model& model, std::string_view what, ReverseOptions options = {});
Reversal reverse_all(Model& model, ReverseOptions options = {});

// Brings the last reversed step back exactly as it was; false if there is none.
bool redo(Model& model);

// Drops the history and the originals it keeps. The model stays as it is.
void forget(Model& model);

}  // namespace refx
