// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

#include "refx/export.h"

namespace refx {

// Identifies an object of one model. It is never reused during the lifetime of the model.
template <class T>
struct Id {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr explicit operator bool() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

struct REFX_API Node;
struct REFX_API StateEntry;
struct REFX_API Module;
struct Step;

using NodeId = Id<Node>;
using StateId = Id<StateEntry>;
using ModuleId = Id<Module>;
using StepId = Id<Step>;

}  // namespace refx

template <class T>
struct std::hash<refx::Id<T>> {
  std::size_t operator()(refx::Id<T> id) const noexcept { return id.value; }
};
