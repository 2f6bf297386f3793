// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/check/recipe.h"

namespace refx::checking {

// Larger tensors find no other mistakes and take longer.
inline constexpr std::int64_t kMostElements = 1 << 14;

// The number of elements of a tensor of that shape.
std::int64_t elements(const Sizes& sizes);

// Draws shapes for the arguments of one call after another. Most of them are derived from shapes
// that are known already, because an operator accepts few combinations of unrelated shapes.
class ShapeGenerator {
 public:
  explicit ShapeGenerator(Random& random) : random_(random) {}
  // Draws the sizes that all shapes are made of. Must be called once, first.
  void draw_pool();

  // Begins a call: the known shapes of its arguments, and those of other values.
  void start_call(std::vector<Sizes> arguments, const std::vector<Sizes>& others);
  // Makes a shape that was drawn for an argument of this call the first of the known ones.
  void put_first(const Sizes& sizes);
  // Replaces the shape of the last put_first().
  void replace_first(const Sizes& sizes) { near_[0] = sizes; }
  // The rank of the first known shape, or `otherwise` if none is known.
  std::int64_t first_rank(std::int64_t otherwise) const;

  // A shape for the tensor argument of that name, with a rank in these limits.
  Sizes tensor(const std::string& name, std::int64_t least_rank, std::int64_t most_rank);
  // A value for an argument of that name that is itself a shape.
  Sizes argument(const std::string& name);

 private:
  std::int64_t fresh();
  Sizes free_shape(std::int64_t rank);
  Sizes nearby();
  std::int64_t some_size();
  Sizes shape(const std::string& name);
  std::int64_t channels();
  Sizes broadcast(Sizes sizes);
  Sizes last_sizes();
  Sizes expanded();
  Sizes reshaped();

  Random& random_;
  Sizes pool_;
  std::vector<Sizes> near_;  // the known shapes
  std::size_t own_ = 0;      // the first shapes of near_: those of the arguments of this call
};

}  // namespace refx::checking
