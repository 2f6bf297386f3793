#pragma once

#include "refx/transformation.h"

namespace refx {

#define REFX_TRANSFORMATION(Class, Name, Summary)                    \
  class Class : public ReversibleTransformation {                    \
   public:                                                           \
    std::string name() const override { return Name; }               \
    std::string summary() const override { return Summary; }         \
    bool preserves_computation() const override { return true; }     \
    Findings find(const Model& model) const override;                \
    void apply(Editor& editor, const Site& site) const override;     \
  };
#include "refx/registry.def"
#undef REFX_TRANSFORMATION

}  // namespace refx
