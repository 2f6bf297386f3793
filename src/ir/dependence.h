// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <vector>

#include "ir/references.h"
#include "refx/graph.h"
#include "refx/history.h"

namespace refx {

// Finds which steps depend on which, in one pass over the steps from old to new.
//
// Reversing a step restores the earlier values of everything it wrote. A later step depends on it
// if that would overwrite what the later step wrote, or would remove or change what it reads. So
// for each object we keep the steps that restoring would affect, together with the kinds of access
// by which a later step becomes dependent. The table is built for one reversal and thrown away: a
// model keeps no index that every edit would have to maintain.
class Dependence {
 public:
  explicit Dependence(const Graph& graph) : graph_(graph) {}

  // Returns the steps added so far that this one depends on directly, oldest first. A step on which
  // it depends only through another returned step may be left out.
  std::vector<StepId> causes(const Step& step) const;

  // Adds a step on which later ones may depend: one that is to be reversed (`asked`), or one that
  // depends on such a step. A dependent step then represents its own causes, see
  // represent_causes().
  enum class As { asked, dependent };
  void add(const Step& step, As as);

 private:
  // How a step accesses an object.
  enum Access : std::uint8_t {
    kWrites = 1,       // in any way
    kInvalidates = 2,  // erases or replaces it, so that it cannot be used as it was
    kRefers = 4,       // from a node that the step writes
    kNewlyReads = 8,   // from a node that did not read it before the step
  };
  // A later step that accesses the object in one of these ways depends on `step`.
  struct Entry {
    StepId step;
    std::uint8_t accesses;
  };
  // Most objects are written by one step, whose entry needs no allocation.
  using Entries = c10::SmallVector<Entry, 1>;

  template <class F>
  static void for_each_access(const Step& step, F&& f);
  void record(ObjectKey object, StepId step, std::uint8_t accesses);
  void represent_causes(const Edit& edit);

  const Graph& graph_;
  ska::flat_hash_map<ObjectKey, Entries> entries_;
};

}  // namespace refx
