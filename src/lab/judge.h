#pragma once

#include "lab/run_once.h"
#include "refx/verify.h"

namespace refx {

// "f32[2, 10]", or the kind of what is not a tensor.
std::string type_of_value(const c10::IValue& value);

struct Comparison {
  bool precise = true;  // the reference is in fp64, the runs in something narrower
  double tolerance = 0;
};

// How the values of two runs compare with a reference, one check for each value. `rounded` is the
// reference with everything in it rounded once more.
std::vector<OutputCheck> compare(const Run& reference, const Run& rounded, const Run& original,
                                 const Run& current, const Comparison& how);

}  // namespace refx
