// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "ops/names.h"
#include "refx/editor.h"
#include "refx/reason.h"

namespace refx {

// A stored tensor as an operator sees it: the state entry, and the placeholder or get_attr that
// reads it (no id for a module's own tensors).
struct Param {
  StateId state;
  NodeId node;
};

// The stored tensor that an argument stands for, if it does.
std::optional<Param> param_of(const Model& model, const Arg* arg);
at::Tensor tensor_of(const Model& model, const Param& param);
// Whether an argument is an input of the graph: it is given by the caller, not computed.
bool is_graph_input(const Model& model, const Arg* arg);

// Whether running the model writes a new value into the state entry.
bool is_mutated(const Model& model, std::string_view state);
// The path of a module that is called and that the state entry is part of; empty if there is none.
std::string_view called_owner(const Model& model, std::string_view state);
// Why the tensor cannot be replaced or dropped together with its one user; nullopt if it can.
std::optional<Reason> why_shared(const Model& model, const Param& param);
// Whether others than the node that `param` is of would see another tensor in its place.
bool is_read_by_others(const Model& model, const Param& param);
// Why it cannot become a part of another tensor; nullopt if it can.
std::optional<Reason> why_not_dense(const Model& model, const Param& param);
// Why its values cannot be computed with; nullopt if they can.
std::optional<Reason> why_not_readable(const Model& model, const Param& param);

// A new tensor beside `like`, spelled the same way; `user` is the node that will read it.
Param add_param(Editor& editor, const Param& like, const Name& name, const at::Tensor& tensor,
                NodeId user);
void set_param(Editor& editor, const Param& param, const at::Tensor& tensor);
// The tensor for `user` alone: in the place of its own, or beside one that others read too.
Param assign_param_to(Editor& editor, const Param& param, const at::Tensor& tensor, NodeId user);
void erase_param(Editor& editor, const Param& param);

}  // namespace refx
