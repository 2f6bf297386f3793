// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <set>
#include <span>

#include "lab/verify/witness.h"

namespace refx {

// Plants errors in the results of steps and tests whether verify() would detect them.
class PowerTest {
 public:
  // `wide` is `model`, the rewritten model, in fp64.
  PowerTest(const Model& model, const Model& wide, const std::deque<Witness>& witnesses,
            std::uint64_t seed)
      : model_(model), wide_(wide), witnesses_(witnesses), seed_(seed) {}

  // Whether the rest of the model reads results of the step that can have a small error. Integers
  // and masks cannot.
  bool can_plant(const Step& step) const;
  // The smallest relative error that is detected, to within 10%; none: not even 1 is.
  std::optional<double> smallest_detected(const Step& step) const;
  // Whether an error of this relative size, planted in all of these steps at once, is detected.
  using Steps = std::span<const Step* const>;
  bool detects(Steps steps, double part) const;
  // Whether the outputs depend on the results of the steps at all.
  bool reaches(Steps steps) const;

 private:
  // The largest fraction of a tolerance that the planted error uses, over all inputs and outputs.
  // Above 1 it is only approximate unless `exactly`, which is slower.
  std::set<NodeId> values_read_from(Steps steps) const;
  double fraction_of_tolerance(const std::set<NodeId>& values, double part,
                               bool exactly = true) const;

  const Model& model_;
  const Model& wide_;
  const std::deque<Witness>& witnesses_;
  const std::uint64_t seed_;
};

}  // namespace refx
