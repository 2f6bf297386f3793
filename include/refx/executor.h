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
  // Operators ("aten.from_file") and namespaces ("mylib") that the model may call in addition to
  // those that were allowed when its file was loaded (LoadOptions).
  std::vector<std::string> allow_ops = {};
};

// A graph compiled to a flat list of operator calls. Compile it once and run it many times, without
// Python. It runs the operators of PyTorch, so its numerics are those of eager PyTorch.
//
// Threads may call it at the same time. Runs of a model without state are independent: each uses
// its own memory, which is kept for later runs. Runs of a model that writes state wait for each
// other.
//
// A model that was loaded from a file may call only the aten operators that were tested with
// hostile arguments: those neither access files nor trust caller-supplied sizes or pointers. A
// model that was built in this process may also call other operators and other namespaces. The
// remaining operators must be allowed by name: see docs/security.md.
//
// State belongs to the executor, not to the model. The first run copies every tensor that a run may
// write (caches, counters, statistics of batch norms in training). Later runs continue with these
// copies, and no tensor of the model is written. All other tensors are shared with the model.
class REFX_API Executor {
 public:
  // Throws Error, which names the node, if a node cannot run, and HintedError if an operator is
  // refused. The executor keeps the model's tensors alive, but not the model.
  explicit Executor(const Model& model, const ExecutorOptions& options = {});
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  // Takes the user inputs in order. Throws Error if the dtype or size of one is wrong. Returns what
  // the graph returns: a tensor, or a tuple, list or dict of tensors. An output that mutates a
  // buffer is written into the executor's state, one that mutates an input into that input; neither
  // is returned.
  c10::IValue run(const std::vector<c10::IValue>& inputs);

  // The current state that runs may write, with its names in the model. These are the executor's
  // own tensors: the next run writes into them, and a caller may write into them to set the state.
  std::vector<std::pair<std::string, at::Tensor>> state();
  // Resets the state to the tensors of the model.
  void reset_state();

  // From the third run with inputs of the same shape on, results are written into memory that was
  // planned in advance. The results are the same, bit for bit. On by default; without plans, a
  // process needs less memory. Do not call this while the executor runs.
  void use_plans(bool on);
  bool last_run_was_planned() const;

  // The Model::revision() that was compiled.
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

// Runs the model on its user inputs. The first run, and the first run after a change, compiles an
// Executor with fresh state and keeps it. Threads may call it at the same time, as long as none
// changes the model. The model's tensors are not written. To read or reset the state, use an
// Executor. A copy of the model starts with fresh state.
REFX_API c10::IValue run(Model& model, const std::vector<c10::IValue>& inputs);

// An operator that the model or one of its subgraphs calls, and that is refused unless it is
// allowed by name.
struct RefusedOp {
  std::string op;      // "aten.from_file"
  std::string reason;  // "it reads any file, and can write it"
};
REFX_API std::vector<RefusedOp> refused_ops(const Model& model);

}  // namespace refx
