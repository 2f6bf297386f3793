// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

class Executor;
namespace exec {
class Watcher;
c10::IValue run_watched(Executor& executor, const std::vector<c10::IValue>& inputs,
                        Watcher& watcher);
}  // namespace exec

struct ExecutorOptions {
  // Operators ("aten.from_file") and namespaces ("mylib") that the model may call besides those
  // that its file may (LoadOptions).
  std::vector<std::string> allow_ops = {};
};

// A graph compiled to a flat list of operator calls. Compile once, run many times, without Python.
// The numerics are those of eager PyTorch.
//
// Threads may call it at the same time. Runs of a model without state are independent, each with
// memory of its own, which is kept for later runs; runs of a model that writes state take turns.
//
// A model from a file calls the operators of aten that were tried with hostile arguments; one that
// was made in this process, also others and those of other namespaces. The rest have to be allowed
// by name: see docs/security.md.
//
// State belongs to the executor, not to the model. What a run may write (caches, counters,
// statistics of batch norms in training) the executor keeps in copies of its own, which the first
// run makes: runs go on where the last one ended, and no tensor of the model is written. Everything
// else is shared with the model.
class REFX_API Executor {
 public:
  // Throws Error that names the node for what cannot run, and HintedError for what is refused.
  // Keeps the model's tensors, not the model.
  explicit Executor(const Model& model, const ExecutorOptions& options = {});
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  // Takes the user inputs in order, and throws Error for one whose dtype or size is not what the
  // model takes; returns what the graph returns: a tensor, or a tuple, list or
  // dict of them. Outputs that mutate a buffer are written into the executor's state, those that
  // mutate an input into that input; neither are returned.
  c10::IValue run(const std::vector<c10::IValue>& inputs);

  // The state that runs may write, by its names in the model, as it is now. The tensors are the
  // executor's own: the next run writes into them, and whoever writes into them sets the state.
  std::vector<std::pair<std::string, at::Tensor>> state();
  // Sets the state to what the model has.
  void reset_state();

  // Runs after the first two with inputs of one shape put their results into memory planned
  // beforehand, and give the same bits. On by default; off saves that memory.
  void use_plans(bool on);  // not while it runs
  bool last_run_was_planned() const;

  // Model::revision() at the time of compilation.
  std::uint64_t revision() const;

 private:
  friend c10::IValue exec::run_watched(Executor& executor, const std::vector<c10::IValue>& inputs,
                                       exec::Watcher& watcher);
  struct Frame;
  struct Program;
  class Borrowed;
  void check(const std::vector<c10::IValue>& inputs) const;
  c10::IValue run_in(Frame& frame, const std::vector<c10::IValue>& inputs);
  std::unique_ptr<Program> program_;
};

// Runs the model on its user inputs, with an Executor that it makes on first use and after a
// change, with fresh state. Threads may call it at the same time, as long as none changes the
// model. The model's tensors are not written. Whoever wants to read or reset the state makes an
// Executor. A copy of the model starts with fresh state.
REFX_API c10::IValue run(Model& model, const std::vector<c10::IValue>& inputs);

// An operator that the model calls, if only in a subgraph, and that is refused unless it is
// allowed.
struct RefusedOp {
  std::string op;      // "aten.from_file"
  std::string reason;  // "it reads any file, and can write it"
};
REFX_API std::vector<RefusedOp> refused_ops(const Model& model);

}  // namespace refx
