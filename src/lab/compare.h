#pragma once

#include "lab/run_once.h"
#include "refx/verify.h"

namespace refx {

// How the values of two runs compare with a reference, one check for each value.
struct Comparison {
  bool precise = true;  // the reference is in fp64, the runs in something narrower
  double tolerance = 0;
};
std::vector<OutputCheck> compare(const Run& reference, const Run& original, const Run& current,
                                 const Comparison& how);

}  // namespace refx
