// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace refx::torture {

// What goes wrong in this thread: the n-th call from now on, or that one and all that follow.
struct Plan {
  std::int64_t call = -1;  // counted from 0; negative: none
  bool sticky = false;
  int error = 0;  // what a system call answers; 0: the process is killed
};

// While one lives, its kind of calls is counted, and fails as planned.
class Interference {
 public:
  enum Kind { allocations, system_calls };
  Interference(Kind kind, Plan plan);
  ~Interference();
  Interference(const Interference&) = delete;
  Interference& operator=(const Interference&) = delete;

  std::int64_t calls() const;  // until now
  bool struck() const;

 private:
  Kind kind_;
};

}  // namespace refx::torture
