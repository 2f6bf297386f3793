// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/transformation.h"

namespace refx {

// Of a rewritten model: the same up to rounding, or not.
enum class Results { same, other };

// What one has beside that comes last.
#define REFX_TRANSFORMATION(Class, Name, Results_, Summary, ...)                      \
  class REFX_API Class : public ReversibleTransformation {                            \
   public:                                                                            \
    std::string name() const override { return Name; }                                \
    std::string summary() const override { return Summary; }                          \
    bool preserves_computation() const override { return Results_ == Results::same; } \
    Findings find(const Model& model) const override;                                 \
    void apply(Editor& editor, const Site& site) const override;                      \
    __VA_ARGS__                                                                       \
  };
#include "refx/registry.def"
#undef REFX_TRANSFORMATION

}  // namespace refx
