// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include "refx/executor.h"
#include "refx/model.h"

namespace refx::exec {

// What an operator returns, found by calling it on tensors of the meta device, which have a type
// and no data: for operators whose result book/result_types.h does not know.

// One call as a model of its own: its inputs are the values that the call reads, each once.
struct IsolatedCall {
  std::vector<NodeId> inputs;
  Executor executor;
};
// Throws Error if the executor refuses the call.
IsolatedCall isolate_call(Node call);

// The call with the meta device in the place of the device that it names, so that an operator that
// creates a tensor creates one without data.
Node with_meta_device(const Model& model, const Node& call);
// A tensor without data of this type, whose sizes and strides have to be numbers.
c10::IValue meta_tensor(const TensorType& type);
c10::IValue run_on_meta(IsolatedCall& call, const std::vector<c10::IValue>& inputs);

// The type of the result of a call, also where sizes are symbols; null if the operator does not run
// on the meta device, or does not take these arguments. Strides are left open.
using TypeOfNode = std::function<TypePtr(NodeId)>;
TypePtr type_on_meta(const Node& call, const TypeOfNode& type_of);

}  // namespace refx::exec
