#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// A graph compiled to a flat list of operator calls. Compile once, run many times, without Python.
// The numerics are those of eager PyTorch. One run at a time per Executor.
class REFX_API Executor {
 public:
  // Throws Error that names the node for what cannot run. Keeps the model's tensors, not the model.
  explicit Executor(const Model& model);
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  // Takes the user inputs in order; returns what the graph returns: a tensor, or a tuple, list or
  // dict of them. Outputs that mutate a buffer or an input are written there and not returned.
  c10::IValue run(const std::vector<c10::IValue>& inputs);

  // Runs after the first two with inputs of one shape put their results into memory planned
  // beforehand, and give the same bits. On by default; off saves that memory.
  void use_plans(bool on);
  bool last_run_was_planned() const;

  // Model::revision() at the time of compilation.
  std::uint64_t revision() const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

// Runs the model on its user inputs, with an Executor that it makes on first use and after a
// change.
REFX_API c10::IValue run(Model& model, const std::vector<c10::IValue>& inputs);

}  // namespace refx
