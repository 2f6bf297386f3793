// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/watch.h"

namespace refx {

// What is needed to imitate rounding in an fp64 run: the dtype of every result in the model's own
// dtypes, and the decisions of the fp64 run without noise. A decision is a discrete value computed
// from floating-point values (a comparison, a cast to bool or integer, argmax, the order of a sort)
// or the result of a discontinuous operator (floor, round, remainder).
//
// Calls are identified by the name of their node, since the fp64 run does not compute constants
// again, and by the number of earlier calls of that node.
struct Trace {
  struct CallRecord {
    std::vector<c10::ScalarType> dtypes;  // of the result tensors
    std::vector<c10::IValue> decisions;
  };
  std::unordered_map<std::string, std::vector<CallRecord>> calls;
};

// Numbers the calls of each node.
class CallNumbers {
 public:
  std::size_t next(const std::string& node) { return seen_[node]++; }

 private:
  std::unordered_map<std::string, std::size_t> seen_;
};

class DtypeRecorder : public exec::Watcher {
 public:
  explicit DtypeRecorder(Trace& trace) : trace_(trace) {}
  void after(std::size_t at, exec::Program& program) override;

 private:
  Trace& trace_;
  CallNumbers numbers_;
};

class DecisionRecorder : public exec::Watcher {
 public:
  explicit DecisionRecorder(Trace& trace) : trace_(trace) {}
  void before(std::size_t at, const exec::Program& program) override;
  void after(std::size_t at, exec::Program& program) override;

 private:
  Trace& trace_;
  CallNumbers numbers_;
  bool floating_ = false;
};

// Perturbs an fp64 run like one more rounding of every result: each number that the dtype of the
// model cannot represent exactly changes by up to `roundings` roundings, at random. Views do not
// round, and exact numbers such as masks and counters are not rounded.
class RoundingNoise : public exec::Watcher {
 public:
  enum class Decisions { held, free };
  struct Options {
    bool in_fp64 = false;  // uses the rounding of fp64 instead of the model's dtypes
    double roundings = 1;
    Decisions decisions = Decisions::held;
    std::uint64_t seed = 0;
  };

  RoundingNoise(const Trace& trace, const Options& options);
  void before(std::size_t at, const exec::Program& program) override;
  void after(std::size_t at, exec::Program& program) override;

  // Nodes whose decision differs from the one without noise.
  const std::set<std::string>& flipped() const { return flipped_; }

 private:
  at::Tensor disturbed(const at::Tensor& value, c10::ScalarType dtype, bool written);
  bool is_operand(const at::Tensor& value) const;

  const Trace& trace_;
  const Options options_;
  at::Generator generator_;
  CallNumbers numbers_;
  bool floating_ = false;
  std::set<const void*> operands_;  // storages of the operands of this instruction
  std::set<std::string> flipped_;
};

// Multiplies every floating-point number by 1 + part or 1 - part, at random.
at::Tensor planted(const at::Tensor& value, double part, at::Generator& generator);

// Plants such errors in the results of these nodes.
class Planted : public exec::Watcher {
 public:
  Planted(std::set<std::string> nodes, double part, std::uint64_t seed);
  void after(std::size_t at, exec::Program& program) override;

 private:
  const std::set<std::string> nodes_;
  const double part_;
  at::Generator generator_;
};

}  // namespace refx
