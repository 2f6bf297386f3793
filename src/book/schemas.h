// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "book/target.h"

namespace c10 {
class OperatorHandle;
struct FunctionSchema;
}  // namespace c10

namespace refx::book {

// The schema of an operator. Null if the target names no operator, or if the operator is neither
// registered nor one of the few that the book itself declares.
const c10::FunctionSchema* find_schema(const Target& target);

// aten's name for an argument that torch names differently: "self" for input. Otherwise the name
// itself.
std::string_view aten_argument(std::string_view name);

// The functional and in-place overloads of "aten::<name>", in a fixed order; empty if unknown.
const std::vector<c10::OperatorHandle>& overloads(std::string_view name);
// The most similar operator name of aten, for messages.
std::string nearest_operator(std::string_view name);

}  // namespace refx::book
