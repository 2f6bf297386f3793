#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

struct ExecutorOptions {
  // Operators ("aten.from_file") and namespaces ("mylib") that the model may call besides those
  // that its file may (LoadOptions).
  std::vector<std::string> allow_ops = {};
};

// A graph compiled to a flat list of operator calls. Compile once, run many times, without Python.
// The numerics are those of eager PyTorch. One run at a time per Executor.
//
// It calls operators of aten and prims that neither touch files nor take memory on trust; where the
// model was made in this process and not loaded from a file, also those of other namespaces. Others
// have to be allowed by name: see docs/security.md.
class REFX_API Executor {
 public:
  // Throws Error that names the node for what cannot run, and HintedError for what is refused.
  // Keeps the model's tensors, not the model.
  explicit Executor(const Model& model, const ExecutorOptions& options = {});
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

// An operator that the model calls, if only in a subgraph, and that is refused unless it is
// allowed.
struct RefusedOp {
  std::string op;      // "aten.from_file"
  std::string reason;  // "it reads any file, and can write it"
};
REFX_API std::vector<RefusedOp> refused_ops(const Model& model);

}  // namespace refx
