// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <vector>

#include "ir/references.h"
#include "refx/graph.h"
#include "refx/history.h"

namespace refx {

// Which steps build on which: found in one pass over the steps, from old to new, without an index.
class Dependence {
 public:
  explicit Dependence(const Graph& graph) : graph_(graph) {}

  // The steps added so far that this one builds on directly, oldest first. Left out are those that
  // are behind another of them all the same.
  std::vector<StepId> causes(const Step& step) const;

  // A step that later ones may build on. One that is there for its causes stands for them too.
  enum class As { asked, dependent };
  void add(const Step& step, As as);

 private:
  // What somebody does to an object that a step is concerned with.
  enum Deed : std::uint8_t {
    kWrites = 1,       // in any way
    kInvalidates = 2,  // so that nobody can rely on it as it was
    kRefers = 4,       // in a node that is written
    kComesToUse = 8,   // in a node that did not before
  };
  struct Concern {
    StepId step;
    std::uint8_t deeds;
  };
  using Concerns = c10::SmallVector<Concern, 1>;

  template <class F>
  static void for_each_deed(const Step& step, F&& f);
  void concern(ObjectKey object, StepId step, std::uint8_t deeds);
  void stand_for_causes(const Edit& edit);

  const Graph& graph_;
  ska::flat_hash_map<ObjectKey, Concerns> concerns_;
};

}  // namespace refx
