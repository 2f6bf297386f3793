// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "refx/id.h"

namespace refx {

// A set of ids of one model. Ids are small numbers, so it is a bit vector.
template <class T>
class IdSet {
 public:
  // Returns true if newly inserted.
  bool insert(Id<T> id) {
    if (id.value >= ids_.size()) ids_.resize(id.value + id.value / 2 + 64);
    if (ids_[id.value]) return false;
    return ids_[id.value] = true;
  }
  bool contains(Id<T> id) const { return id.value < ids_.size() && ids_[id.value]; }

 private:
  std::vector<bool> ids_;
};

}  // namespace refx
