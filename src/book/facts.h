// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace refx::book {

// What is true of an operator of aten that its schema does not say. By aten's name for it, without
// the underscore of an in-place twin; Python's own functions (len, getattr) are among them.
enum Fact : std::uint32_t {
  kMayAlias = 1 << 0,           // may hand an argument, or a view of it, through
  kKeepsRank = 1 << 1,          // the result has as many dimensions as the first argument
  kGivesIntegers = 1 << 2,      // sizes, indices and truth values
  kKeepsIntegers = 1 << 3,      // integers from integers
  kNeedsStrides = 1 << 4,       // works on some strides only, or shows them
  kJumps = 1 << 5,              // floating-point results that jump
  kShapeFromContents = 1 << 6,  // the shape of the result depends on contents; no tag says so
  kReadsSizes = 1 << 7,         // looks at sizes and types alone
  kWritesSilently = 1 << 8,     // in training, writes statistics or noise
  kKeepsIndices = 1 << 9,       // what it gives are the same integers, in another shape or type
  kPythonFunction = 1 << 10,    // of Python itself: hands arguments through, writes none
  kHandsOn = 1 << 11,           // gives its first argument, or a copy of it
  kKeepsElements = 1 << 12,     // gives its first argument if it leaves dtype, device and sizes
  kReshapes = 1 << 13,          // gives its elements in their order, in another shape
};
std::uint32_t facts_of(std::string_view name);
// The name without the underscore of an in-place twin: add for add_. __and__ is no twin.
std::string_view without_underscore(std::string_view name);
inline bool has(std::string_view name, Fact fact) { return facts_of(name) & fact; }

// aten's name for what torch and its methods call otherwise: "div" for true_divide, "div_" for
// __itruediv__. The name itself, if there is no other.
std::string_view aten_name(std::string_view name);
// The same for a function of Python's operator module: "div" for truediv. Empty if Python has none
// of that name.
std::string_view aten_name_of_python(std::string_view name);

}  // namespace refx::book
