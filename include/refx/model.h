// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/graph.h"
#include "refx/history.h"
#include "refx/module.h"
#include "refx/state.h"

namespace c10 {
struct IValue;
}

namespace refx {

class Executor;
class Source;

// An output of the graph that is written to a buffer or an input instead of being returned.
struct Mutation {
  std::size_t output = 0;  // index in the outputs of the graph
  std::string target;      // name of the state entry or the placeholder
  bool operator==(const Mutation&) const = default;
};

// A model and the history of its rewrites. It is read-only: changes go through an Editor. A copy is
// independent but shares the tensors, because refx never writes to a tensor of a model.
class REFX_API Model {
 public:
  Model();  // defined in model.cpp, so that users do not instantiate the members
  Model(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(const Model&);
  Model& operator=(Model&&) noexcept;
  ~Model();

  const Graph& graph() const { return graph_; }
  const State& state() const { return state_; }
  const Modules& modules() const { return modules_; }
  const History& history() const { return history_; }
  const std::vector<Mutation>& mutations() const { return mutations_; }

  // The file that it was loaded from; null for a model that was made in memory.
  const std::shared_ptr<const Source>& source() const { return source_; }

  // A number that no two different models share: every change assigns a new one.
  std::uint64_t revision() const { return revision_; }

  // The modules whose calls unflattening the program restores. So values may cross the boundary of
  // such a module only where they did in the original.
  const std::vector<std::string>& kept_modules() const { return kept_modules_; }

  // Runs the model on its user inputs with run() of refx/executor.h, which must be included.
  template <class Value = c10::IValue>
  Value forward(const std::vector<Value>& inputs) {
    return run(*this, inputs);
  }

 private:
  friend struct ModelAccess;
  friend REFX_API c10::IValue run(Model& model, const std::vector<c10::IValue>& inputs);
  Graph graph_;
  State state_;
  Modules modules_;
  History history_;
  std::vector<Mutation> mutations_;
  std::uint64_t revision_ = 0;
  std::shared_ptr<const Source> source_;
  std::vector<std::string> kept_modules_;
  std::shared_ptr<Executor> executor_;  // made by run(), valid for one revision
};

}  // namespace refx
