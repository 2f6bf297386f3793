// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "refx/model.h"

namespace refx::book {

// What calling a node may do to its tensor arguments. Where it is not known, the worst.
struct Effect {
  bool views = false;         // its result may share memory with an argument
  bool writes_first = false;  // it writes its first argument
  bool writes_all = false;    // it may write any argument
};
Effect effect_of(const Model& model, const Node& node);

// Whether the result of a call with this effect shares memory with its first argument alone: what
// works in place returns that argument.
bool views_first_only(const Model& model, const Node& node, const Effect& effect);

// Why calling a node twice is not the same as calling it once and reading its result twice: "it
// draws random numbers"; empty if it is.
std::string_view why_not_repeatable(const Model& model, const Node& node);

// Of a target, whatever the arguments are.
struct Entry;
Effect effect_of(const Entry& entry, bool method);
bool may_draw_numbers(const Entry& entry);

}  // namespace refx::book
