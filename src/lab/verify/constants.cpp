// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/constants.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "book/effect.h"
#include "lab/verify/in_double.h"
#include "ops/constant_call.h"
#include "ops/part.h"
#include "ops/writes.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/reverse.h"

namespace refx {

namespace {

using c10::IValue;
using Ids = std::unordered_set<NodeId>;

// The nodes whose values are the same in every run: stored tensors and literals, and repeatable
// calls of these. Memory that any node writes is excluded.
class ConstantNodes {
 public:
  explicit ConstantNodes(const Model& model) : graph_(model.graph()) {
    const Writes writes(model);
    std::unordered_set<std::string> mutated;
    for (const Mutation& mutation : model.mutations()) mutated.insert(mutation.target);
    const auto is_constant = [&](NodeId id) { return all_.contains(id); };
    for (NodeId id : graph_) {
      const Node& node = graph_[id];
      if (writes.ever(id)) continue;
      if (const Name& name = bound_state(node); !name.empty()) {
        const StateId state = model.state().find(name);
        if (state && !mutated.contains(name) && !model.state().tensor(state).is_meta())
          all_.insert(id);
      } else if (is_constant_call(node, is_constant) && !book::why_not_repeatable(model, node)) {
        all_.insert(id);
      }
    }
  }

  // The computed ones that the rest of the model reads. Only these are stored: they are the edge
  // between the constant part and the part that runs in fp64.
  std::vector<NodeId> read_by_others() const {
    std::vector<NodeId> nodes;
    for (NodeId id : graph_) {
      if (!all_.contains(id) || !bound_state(graph_[id]).empty()) continue;
      const auto users = graph_.users(id);
      if (std::any_of(users.begin(), users.end(), [&](NodeId u) { return !all_.contains(u); }))
        nodes.push_back(id);
    }
    return nodes;
  }

 private:
  const Graph& graph_;
  Ids all_;
};

std::vector<IValue> run_part(const Model& part) {
  Executor executor(part);
  executor.use_plans(
      false);  // planned memory would be reused by a next run, but the results are kept
  return executor.run({}).toTupleRef().elements().vec();
}

// The same constants computed in fp64. Empty if the operators do not run in fp64.
std::vector<IValue> run_in_fp64(const Model& part) {
  try {
    const DoubleByDefault by_default;
    return run_part(in_double(part));
  } catch (const Error&) {
    return {};
  }
}

// A view of a stored tensor is not computed. It stays a view, so that it also follows the tensor
// when noise perturbs that.
bool is_computed(const IValue& value, const State& state) {
  if (!value.isTensor() || !value.toTensor().defined()) return false;
  const at::Tensor& tensor = value.toTensor();
  if (tensor.layout() != c10::kStrided || tensor.is_quantized()) return false;
  const void* storage = tensor.storage().unsafeGetStorageImpl();
  return std::none_of(state.begin(), state.end(), [&](StateId id) {
    return state.tensor(id).has_storage() &&
           state.tensor(id).storage().unsafeGetStorageImpl() == storage;
  });
}

// The rounding error of a computed constant. NaN and inf have none.
at::Tensor difference(const at::Tensor& value, const IValue& exact) {
  if (!is_approximate(value.scalar_type()) || !exact.isTensor()) return {};
  if (exact.toTensor().sizes() != value.sizes()) return {};
  return (exact.toTensor() - value).abs().nan_to_num(0, 0, 0);
}

}  // namespace

ConstantsStored store_constants(const Model& model, MeasureConstants measure) {
  ConstantsStored result{model, {}, {}};
  forget(result.model);
  const ConstantNodes constants(model);
  const std::vector<NodeId> read = constants.read_by_others();
  if (read.empty()) return result;
  const std::vector<NodeId> nodes = needed_for(model.graph(), read);
  const Model part = part_of(model, nodes, read);
  std::vector<IValue> values;
  try {
    values = run_part(part);
  } catch (const Error&) {  // the run of the whole model reports the error
    return result;
  }
  const std::vector<IValue> exact =
      measure == MeasureConstants::yes ? run_in_fp64(part) : std::vector<IValue>();

  Editor editor(result.model);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!is_computed(values[i], part.state())) continue;
    const Node old = model.graph()[read[i]];
    const at::Tensor value = values[i].toTensor();
    const std::string name = editor.state().fresh_name("constant_" + std::string(old.name));
    const StateId id = editor.add_state({name, StateKind::constant, false, value});
    editor.set_node(read[i], {.op = Opcode::get_attr, .target = name, .type = old.type});
    result.constants.push_back(id);
    if (exact.empty()) continue;
    if (at::Tensor off = difference(value, exact[i]); off.defined()) result.off[id] = off;
  }
  // Users come after their operands, so the reverse order finds nodes that became unused.
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it)
    if (bound_state(editor.graph()[*it]).empty() && editor.graph().num_users(*it) == 0)
      editor.erase_node(*it);
  editor.commit_as_origin(model.source());
  return result;
}

}  // namespace refx
