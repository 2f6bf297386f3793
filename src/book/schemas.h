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

// The schema of an operator by its full target. Null if the target is none, or if the operator is
// neither registered nor one of the few that the book knows by itself.
const c10::FunctionSchema* find_schema(const Target& target);

// aten's name for an argument that torch calls otherwise: "self" for input. The name itself, if
// there is no other.
std::string_view aten_argument(std::string_view name);

// The functional and in-place overloads of "aten::<name>", in a fixed order; empty if unknown.
const std::vector<c10::OperatorHandle>& overloads(std::string_view name);
// Operator names of aten near to this one, for messages.
std::string nearest_operator(std::string_view name);

}  // namespace refx::book
