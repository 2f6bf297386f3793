#pragma once

#include <deque>
#include <set>
#include <string>

#include "lab/verify/witness.h"

namespace refx {

// Plants wrongs in what steps made and looks whether they would be noticed.
class PowerTest {
 public:
  // `model` is the rewritten one, and `wide` that in fp64.
  PowerTest(const Model& model, const Model& wide, const std::deque<Witness>& witnesses,
            std::uint64_t seed)
      : model_(model), wide_(wide), witnesses_(witnesses), seed_(seed) {}

  // The smallest part that is noticed, within a tenth; none: not even 1.
  std::optional<double> smallest_noticed(const Step& step) const;
  bool notices(const Step& step, double part) const;
  // Whether anything at all comes out otherwise when what the step hands on is another.
  bool reaches(const Step& step) const;

 private:
  // How far into what is allowed the planted wrong goes, on the inputs that show it best.
  double load(const std::set<std::string>& nodes, double part) const;

  const Model& model_;
  const Model& wide_;
  const std::deque<Witness>& witnesses_;
  const std::uint64_t seed_;
};

}  // namespace refx
