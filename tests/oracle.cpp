// SPDX-License-Identifier: Apache-2.0

#include "oracle.h"

#include <ATen/ATen.h>
#include <c10/core/DefaultDtype.h>

#include <set>
#include <unordered_map>

#include "kit.h"
#include "refx/editor.h"
#include "refx/error.h"

namespace refx::testing {

namespace {

at::ScalarType wide(at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return at::kDouble;
  return at::isComplexType(dtype) ? at::kComplexDouble : dtype;
}

at::Tensor wide_copy(const at::Tensor& tensor) {
  return tensor.detach().to(wide(tensor.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
}

class Rebuilder {
 public:
  explicit Rebuilder(const Model& model) : model_(model) {}

  Model run() {
    Model result;
    Editor editor(result);
    for (ModuleId id : model_.modules()) editor.add_module(model_.modules()[id]);
    for (StateId id : model_.state()) editor.add_state(entry(model_.state()[id]));
    for (NodeId id : model_.graph())
      nodes_[id] = editor.insert_before({}, node(model_.graph()[id]));
    editor.commit_as_origin(model_.source(), model_.mutations());
    return result;
  }

 private:
  // Names of one tensor stay names of one tensor.
  StateEntry entry(StateEntry entry) {
    at::Tensor& tensor = tensors_[entry.tensor.unsafeGetTensorImpl()];
    if (!tensor.defined()) tensor = wide_copy(at::Tensor(entry.tensor));
    entry.tensor = tensor;
    return entry;
  }

  Node node(Node node) {
    static const std::set<std::string> narrow{"float", "half", "bfloat16"};
    asks_for_type_ = false;
    for (Arg& arg : node.args) arg = argument(arg);
    for (auto& [name, arg] : node.kwargs) arg = argument(arg);
    if (asks_for_type_ && node.target.find("view") != std::string::npos)
      throw Error("node '" + node.name + "' looks at bits");
    if (node.op == Opcode::call_method && narrow.count(node.target)) node.target = "double";
    if (node.type) {
      TensorType type = *node.type;
      type.dtype = wide(type.dtype);
      node.type = std::make_shared<TensorType>(type);
    }
    return node;
  }

  Arg argument(const Arg& arg) {
    if (const auto* id = arg.get<NodeId>()) return nodes_.at(*id);
    if (const auto* dtype = arg.get<at::ScalarType>()) {
      asks_for_type_ = true;
      return wide(*dtype);
    }
    if (const auto* list = arg.get<List>()) return List{arguments(list->items)};
    if (const auto* tuple = arg.get<Tuple>()) return Tuple{arguments(tuple->items)};
    if (const auto* slice = arg.get<Slice>()) return Slice{arguments(slice->parts)};
    if (const auto* dict = arg.get<Dict>()) {
      Dict result;
      for (const auto& [key, value] : dict->items)
        result.items.emplace_back(argument(key), argument(value));
      return result;
    }
    return arg;
  }

  Args arguments(const Args& args) {
    Args result;
    for (const Arg& arg : args) result.push_back(argument(arg));
    return result;
  }

  const Model& model_;
  std::unordered_map<const void*, at::Tensor> tensors_;
  std::unordered_map<NodeId, NodeId> nodes_;
  bool asks_for_type_ = false;
};

// What operators make of no dtype is double while this lives.
class DoubleIsTheDefault {
 public:
  DoubleIsTheDefault() { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~DoubleIsTheDefault() { c10::set_default_dtype(before_); }

 private:
  const caffe2::TypeMeta before_ = c10::get_default_dtype();
};

}  // namespace

std::vector<at::Tensor> results_in_double(const Model& model,
                                          const std::vector<c10::IValue>& inputs) {
  Model exact = Rebuilder(model).run();
  std::vector<c10::IValue> wide_inputs;
  for (const c10::IValue& input : inputs)
    wide_inputs.push_back(input.isTensor() ? c10::IValue(wide_copy(input.toTensor())) : input);
  const DoubleIsTheDefault guard;
  return tensors_in(exact.forward(wide_inputs));
}

}  // namespace refx::testing
