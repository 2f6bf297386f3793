#pragma once

#include "refx/model.h"

namespace refx::book {

// What calling a node may do to its tensor arguments. Where it is not known, the worst.
struct Effect {
  bool views = false;         // its result may share memory with an argument
  bool writes_first = false;  // it writes its first argument
  bool writes_all = false;    // it may write any argument
};
Effect effect_of(const Model& model, const Node& node);

// Of a target, whatever the arguments are.
struct Entry;
Effect effect_of(const Entry& entry, bool method);

}  // namespace refx::book
