#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec/watch.h"

namespace refx {

// What the rounding of a run is made of. The dtypes are those of the model as it is; the decisions
// those of its run in fp64: what is computed from floating-point values and is not one itself (a
// comparison, a cast to bool or integer, argmax, the order of a sort), or jumps like one (floor,
// round, remainder).
struct Trace {
  std::vector<std::vector<c10::ScalarType>> dtypes;           // of the tensors that each call gives
  std::map<std::size_t, std::vector<c10::IValue>> decisions;  // by call
};

class DtypeRecorder : public exec::Watcher {
 public:
  explicit DtypeRecorder(Trace& trace) : trace_(trace) {}
  void after(std::size_t at, exec::Program& program) override;

 private:
  Trace& trace_;
};

class DecisionRecorder : public exec::Watcher {
 public:
  explicit DecisionRecorder(Trace& trace) : trace_(trace) {}
  void before(std::size_t at, const exec::Program& program) override;
  void after(std::size_t at, exec::Program& program) override;

 private:
  Trace& trace_;
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
  bool floating_ = false;
  std::set<const void*> operands_;  // their storages
  std::set<std::string> flipped_;
};

// Multiplies what these nodes give by 1 + part or 1 - part, element by element at random.
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
