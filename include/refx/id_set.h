// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "refx/id.h"

namespace refx {

// Ids of objects of one model, which are small numbers.
template <class T>
class IdSet {
 public:
  // Whether it was not there before.
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
