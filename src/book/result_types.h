// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "refx/model.h"

namespace refx::book {

// What is known of a value without running the graph. An operator that is missing here runs on
// tensors without data instead, see exec/on_meta.h.

// The type of the result of an operator, by aten's name for it, from the types of its arguments,
// symbolic sizes included. Null if the book does not know the operator well enough, or if its
// arguments do not fit. Strides are left open.
using ArgumentByName = std::function<const Arg*(std::string_view)>;  // null: the call has none
using TypeOfArg = std::function<TypePtr(const Arg&)>;
TypePtr result_type(std::string_view op, const ArgumentByName& argument, const TypeOfArg& type_of);

// The three below follow the graph where it records no types, as torch.fx leaves it.

// Whether it may be an integer, a size or a truth value rather than a floating-point tensor.
bool may_be_integer(const Model& model, NodeId node);

// Its number of dimensions, if that is certain.
std::optional<std::size_t> known_rank(const Model& model, NodeId node);

// Its dtype, if that is certain.
std::optional<c10::ScalarType> known_dtype(const Model& model, NodeId node);

}  // namespace refx::book
