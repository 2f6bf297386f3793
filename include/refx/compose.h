// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/registry.h"

namespace refx {

enum class Inplace { no, yes };

// Several transformations that are called like one: applied left to right, and reversed right to
// left. It has no sites of its own, so it is not a Transformation.
class REFX_API Composition {
 public:
  explicit Composition(std::vector<TransformationPtr> parts, Inplace inplace = Inplace::yes);

  const std::vector<TransformationPtr>& parts() const { return parts_; }
  // Identifies the parts, as Transformation::signature() identifies one.
  std::string signature() const;
  // `approximate` if any part is.
  Numerics numerics() const;
  bool preserves_computation() const { return numerics() == Numerics::preserved; }
  bool reversible() const;  // if all parts are

  // Applies every part until none of its sites is left, or reverses every step of the parts. With
  // Inplace::no the model stays untouched and the result is Outcome::copy.
  Outcome operator()(Model& model, Reverse direction = Reverse::no) const;

 private:
  std::vector<TransformationPtr> parts_;
  Inplace inplace_;
};

// The parts of a nested composition become parts of the new one.
template <class T>
concept Composable = std::derived_from<T, Transformation> || std::same_as<T, Composition>;

template <Composable... T>
Composition compose(Inplace inplace, T... parts) {
  std::vector<TransformationPtr> all;
  const auto add = [&]<class Part>(Part part) {
    if constexpr (std::same_as<Part, Composition>)
      all.insert(all.end(), part.parts().begin(), part.parts().end());
    else
      all.push_back(std::make_shared<Part>(std::move(part)));
  };
  (add(std::move(parts)), ...);
  return Composition(std::move(all), inplace);
}
template <Composable... T>
Composition compose(T... parts) {
  return compose(Inplace::yes, std::move(parts)...);
}
REFX_API Composition compose(std::vector<TransformationPtr> parts, Inplace inplace = Inplace::yes);

}  // namespace refx
