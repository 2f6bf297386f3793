// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/registry.h"

namespace refx {

// Several transformations as one.

enum class Inplace { no, yes };

// Transformations applied left to right, and reversed right to left; itself a transformation.
class REFX_API Composition : public Transformation {
 public:
  Composition(std::vector<TransformationPtr> parts, Inplace inplace);

  std::string name() const override { return "compose"; }
  Kwargs parameters() const override;
  bool preserves_computation() const override;
  bool reversible() const override;
  Findings find(const Model& model) const override;             // of its parts, as it stands
  void apply(Editor& editor, const Site& site) const override;  // refused: see operator()
  Outcome operator()(Model& model, Reverse direction = Reverse::no) const override;

 private:
  std::vector<TransformationPtr> parts_;
  Inplace inplace_;
};

REFX_API Composition compose(std::vector<TransformationPtr> parts, Inplace inplace = Inplace::yes);

template <class... T>
requires(std::derived_from<T, Transformation>&&...) Composition compose(T... parts) {
  return compose(std::vector<TransformationPtr>{std::make_shared<T>(std::move(parts))...});
}
// The input stays untouched; the result is in Outcome::copy.
template <class... T>
requires(std::derived_from<T, Transformation>&&...) Composition
    compose(Inplace inplace, T... parts) {
  return compose(std::vector<TransformationPtr>{std::make_shared<T>(std::move(parts))...}, inplace);
}

}  // namespace refx
