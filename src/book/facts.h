// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace refx::book {

// Facts about an operator that its schema does not state. They are looked up by aten's name,
// without the underscore of an in-place operator. Functions of Python (len, getattr) have facts,
// too.
enum Fact : std::uint32_t {
  kMayAlias = 1 << 0,           // may return an argument or a view of one
  kKeepsRank = 1 << 1,          // the result has as many dimensions as the first argument
  kYieldsIntegers = 1 << 2,     // sizes, indices and truth values
  kKeepsIntegers = 1 << 3,      // integers from integers
  kNeedsStrides = 1 << 4,       // accepts only some strides, or returns them
  kJumps = 1 << 5,              // floating-point results with discontinuities
  kShapeFromContents = 1 << 6,  // the result's shape depends on values, and no tag says so
  kReadsSizes = 1 << 7,         // reads only sizes and types
  kWritesSilently = 1 << 8,     // in training, writes statistics or noise
  kKeepsIndices = 1 << 9,       // returns the same integers in another shape or type
  kPythonFunction = 1 << 10,    // of Python: may return arguments, writes none
  kPassesThrough = 1 << 11,     // returns its first argument or a copy of it
  kKeepsElements = 1 << 12,  // returns its first argument if dtype, device and sizes stay the same
  kReshapes = 1 << 13,       // returns the elements in the same order, in another shape
  kKeepsType = 1 << 14,      // a floating-point result has the type of the first argument
};
std::uint32_t facts_of(std::string_view name);
// The name without the underscore of an in-place twin: add for add_. __and__ is no twin.
std::string_view without_underscore(std::string_view name);
inline bool has(std::string_view name, Fact fact) { return facts_of(name) & fact; }

// aten's name for an operator that torch or its methods name differently: "div" for true_divide,
// "div_" for __itruediv__. Otherwise the name itself.
std::string_view aten_name(std::string_view name);
// The same for a function of Python's operator module: "div" for truediv. Empty if there is no such
// function.
std::string_view aten_name_of_python(std::string_view name);

}  // namespace refx::book
