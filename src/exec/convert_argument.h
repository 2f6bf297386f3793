// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>

#include "exec/operand.h"

namespace refx::exec {

// What a schema asks of a value, as far as a quick check at run time goes.
enum class Want : std::uint8_t { tensor, integer, scalar, other };
Want want_of(const c10::Argument& argument);

// Whether it is a dtype, a layout or a memory format.
bool takes_enum(const c10::Argument& argument);

// The value as the schema's argument wants it: an int becomes a float or a list, a number where a
// tensor is wanted becomes a wrapped number, as in Python. No value: it does not fit.
std::optional<c10::IValue> convert(const c10::IValue& value, const c10::Argument& argument);

// How far a value is from what the argument wants: 0 exact, more for each conversion, -1 unfit.
int mismatch(const c10::IValue& value, OperandKind kind, const c10::Argument& argument);

inline bool fits(const c10::IValue& value, Want want) {
  switch (want) {
    case Want::tensor:
      return value.isTensor();
    case Want::integer:
      return value.isInt();
    case Want::scalar:
      return value.isInt() || value.isDouble() || value.isBool();
    case Want::other:
      return false;
  }
  return false;
}

}  // namespace refx::exec
