// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "refx/model.h"
#include "refx/reason.h"

namespace refx::book {

// What a call may do to its tensor arguments. An unknown call has all effects.
struct Effect {
  bool views = false;         // its result may share memory with an argument
  bool writes_first = false;  // it writes its first argument
  bool writes_all = false;    // it may write any argument
};
Effect effect_of(const Model& model, const Node& node);

// Returns true if the result of a call with this effect shares memory with its first argument only.
// An in-place operator returns that argument.
bool views_first_only(const Model& model, const Node& node, const Effect& effect);

// Why calling a node twice is not the same as calling it once and reading its result twice: "it
// draws random numbers"; empty if it is.
std::optional<Reason> why_not_repeatable(const Model& model, const Node& node);

// The effect of a target with any arguments.
struct Entry;
Effect effect_of(const Entry& entry, bool method);
bool may_draw_numbers(const Entry& entry);

}  // namespace refx::book
