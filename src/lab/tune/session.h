// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/bench/clock.h"
#include "lab/bench/contest.h"
#include "lab/run/machine.h"
#include "lab/tune/budget.h"
#include "lab/tune/classes.h"
#include "lab/tune/trials.h"
#include "refx/tune.h"

namespace refx {

// The state of one call of tune(), which its stages share: describing the sites, measuring them,
// deciding and proving.
class TuneSession {
 public:
  TuneSession(const Model& input, const TuneOptions& options);

  const Model& input() const { return input_; }
  const TuneOptions& options() const { return options_; }
  const c10::Device& device() const { return device_; }
  const std::vector<TransformationPtr>& all() const { return all_; }
  const Inputs& given() const { return given_; }
  // The values of the last call, on the device.
  const std::vector<c10::IValue>& inputs() const { return inputs_; }
  Trials& trials() { return *trials_; }

  std::vector<Class> classes;
  Tuning tuning;

  // Measures two forms of one site, as a part of what progress() was last called with.
  Contest race_sites(const MakeRunner& before, const MakeRunner& after);
  // Measures two whole models.
  Contest race(const std::string& what, const MakeRunner& before, const MakeRunner& after);
  MakeRunner whole(const Model& model) const;

  // One unit of work for each class, and one for the decision.
  void set_done(std::size_t done) { done_ = done; }
  void progress(const std::string& what, double part);

 private:
  void describe();

  const Model& input_;
  const TuneOptions& options_;
  const c10::Device device_;
  const std::unique_ptr<Clock> clock_;
  const Environment environment_;
  std::vector<TransformationPtr> all_;
  Inputs given_;
  std::vector<c10::IValue> inputs_;
  std::optional<Trials> trials_;
  std::size_t done_ = 0;
  std::string what_;  // the arguments of the last progress()
  double part_ = 0;
};

// "merge-linears, then fuse-bias-in-linear".
std::string describe_moves(const std::vector<std::string>& moves);

}  // namespace refx
