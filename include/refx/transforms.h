// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/transformation.h"

namespace refx {

// The classes of registry.def. The last argument holds members that only one of them has.
#define REFX_TRANSFORMATION(Class, Name, Numerics_, Summary, ...)                 \
  class REFX_API Class : public ReversibleTransformation {                        \
   public:                                                                        \
    std::string name() const override { return Name; }                            \
    std::string summary() const override { return Summary; }                      \
    Numerics numerics() const override { return Numerics_; }                      \
    Findings find(const Model& model) const override;                             \
    std::optional<Reason> apply(Editor& editor, const Site& site) const override; \
    __VA_ARGS__                                                                   \
  };
#include "refx/registry.def"
#undef REFX_TRANSFORMATION

}  // namespace refx
