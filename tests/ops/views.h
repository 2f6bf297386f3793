// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "ops/names.h"
#include "refx/model.h"

namespace refx::testing {

// What the library makes of the node of this name, as text. Only views.cpp and this header know how
// the library is asked.

std::string name_in(const Model& model, std::string_view node);

// "x * fc.weight + fc.bias", "no" for something else, and the reason why it cannot be rewritten:
// "x * fc.weight: 'fc.weight' is used in more than one place".
std::string linear_in(const Model& model, std::string_view node);
// The same with "transposed" and "groups 2" before it, where it is so.
std::string convolution_in(const Model& model, std::string_view node);
// "x by bn.running_mean bn.running_var bn.weight bn.bias eps 1e-05".
std::string norm_in(const Model& model, std::string_view node);
// "x / 8", "x / scale".
std::string division_in(const Model& model, std::string_view node);
// The division as a multiplication by 0.5: "aten.mul.Tensor".
std::string multiplication_for(const Model& model, std::string_view node);

// "pure", or of "views", "writes its first", "writes any" what holds.
std::string effect_in(const Model& model, std::string_view node);
// Whether the value may be written between two nodes.
bool written_between(const Model& model, std::string_view value, std::string_view first,
                     std::string_view last);
bool column_slice_will_do(const Model& model, std::string_view value, std::int64_t width);

bool may_be_integer_in(const Model& model, std::string_view node);
std::string rank_in(const Model& model, std::string_view node);   // "?" if it is not certain
std::string dtype_in(const Model& model, std::string_view node);  // likewise

// The value that the node hands on unchanged: "x"; "?" if it does something.
std::string no_op_in(const Model& model, std::string_view node);

// The stored tensor that a node reads, and why it cannot be replaced or computed with.
std::string param_in(const Model& model, std::string_view node);

}  // namespace refx::testing
