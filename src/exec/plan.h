// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "exec/program.h"

namespace refx::exec {

// What of a run's inputs decides which kernels run and how much memory they need.
class Signature {
 public:
  void assign(const std::vector<c10::IValue>& inputs);
  bool is_fixed() const { return fixed_; }  // false: an input is of a kind that cannot be compared
  bool operator==(const Signature& other) const { return words_ == other.words_; }

 private:
  void add(const c10::IValue& value);
  std::vector<std::int64_t> words_;
  bool fixed_ = true;
};

// A program for inputs of one signature: results lie in an arena, made by operators' out variants;
// views and shapes are computed once. It gives the bits of the plain program.
struct Plan {
  Signature signature;
  Program program;

  // The tensors of the state as they were; views of them were taken.
  struct Origin {
    Slot slot;
    const void* storage;
    const void* data;
    std::vector<std::int64_t> sizes, strides;
  };
  std::vector<Origin> origins;
  bool is_current(const Program& plain) const;
};

// Runs the program plainly, and watches. Null plan: the graph is left to the plain path.
std::unique_ptr<Plan> run_and_plan(Program& program, const Signature& signature, Stack& stack,
                                   Instruction*& current);

}  // namespace refx::exec
