// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <set>
#include <span>

#include "lab/verify/witness.h"

namespace refx {

// Plants wrongs in what steps made and looks whether they would be noticed.
class PowerTest {
 public:
  // `model` is the rewritten one, and `wide` that in fp64.
  PowerTest(const Model& model, const Model& wide, const std::deque<Witness>& witnesses,
            std::uint64_t seed)
      : model_(model), wide_(wide), witnesses_(witnesses), seed_(seed) {}

  // Whether the step hands on numbers that can be a little wrong: integers and masks cannot.
  bool can_plant(const Step& step) const;
  // The smallest part that is noticed, within a tenth; none: not even 1.
  std::optional<double> smallest_noticed(const Step& step) const;
  // Wrongs in all of these steps at once.
  using Steps = std::span<const Step* const>;
  bool notices(Steps steps, double part) const;
  // Whether anything at all comes out otherwise when what the steps hand on is another.
  bool reaches(Steps steps) const;

 private:
  // How far into what is allowed the planted wrong goes, on the inputs that show it best; beyond 1
  // `exactly` or only roughly, which is faster.
  std::set<NodeId> handed_on_by(Steps steps) const;
  double load(const std::set<NodeId>& values, double part, bool exactly = true) const;

  const Model& model_;
  const Model& wide_;
  const std::deque<Witness>& witnesses_;
  const std::uint64_t seed_;
};

}  // namespace refx
