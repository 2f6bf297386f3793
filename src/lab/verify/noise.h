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

// What the rounding of a run is made of. The dtypes are those of the model as it is; the decisions
// those of its run in fp64: what is computed from floating-point values and is not one itself (a
// comparison, a cast to bool or integer, argmax, the order of a sort), or jumps like one (floor,
// round, remainder).
//
// Calls are known by their node, since a reference in fp64 need not compute what is constant, and
// by how often the node has called before, over all runs of the watcher.
struct Trace {
  struct Call {
    std::vector<c10::ScalarType> dtypes;  // of the tensors that it gives
    std::vector<c10::IValue> decisions;
  };
  std::unordered_map<std::string, std::vector<Call>> calls;
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

// Disturbs a run in fp64 as one more rounding of every result would: where a result is not a number
// of the dtype that the model has there, it is off by up to `roundings` roundings, at random. A
// view rounds nothing, and what a dtype holds exactly is not rounded: masks and counters stay.
class RoundingNoise : public exec::Watcher {
 public:
  enum class Decisions { held, free };
  struct Options {
    bool in_fp64 = false;  // the roundings are fp64's own
    double roundings = 1;
    Decisions decisions = Decisions::held;
    std::uint64_t seed = 0;
  };

  RoundingNoise(const Trace& trace, const Options& options);
  void before(std::size_t at, const exec::Program& program) override;
  void after(std::size_t at, exec::Program& program) override;

  // Nodes that decided otherwise than without the noise.
  const std::set<std::string>& flipped() const { return flipped_; }

 private:
  at::Tensor disturbed(const at::Tensor& value, c10::ScalarType dtype, bool written);
  bool is_operand(const at::Tensor& value) const;

  const Trace& trace_;
  const Options options_;
  at::Generator generator_;
  CallNumbers numbers_;
  bool floating_ = false;
  std::set<const void*> operands_;  // their storages
  std::set<std::string> flipped_;
};

// Every number that is floating-point times 1 + part or 1 - part, at random.
at::Tensor planted(const at::Tensor& value, double part, at::Generator& generator);

// Does so to what these nodes give.
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
