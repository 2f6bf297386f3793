// SPDX-License-Identifier: Apache-2.0

#include "lab/check/shape_generator.h"

#include <algorithm>
#include <utility>

namespace refx::checking {

namespace {

void merge(Sizes& sizes, std::int64_t at) {
  sizes[static_cast<std::size_t>(at)] *= sizes[static_cast<std::size_t>(at) + 1];
  sizes.erase(sizes.begin() + at + 1);
}

}  // namespace

std::int64_t elements(const Sizes& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

void ShapeGenerator::draw_pool() {
  for (std::size_t i = 0; i < 4; ++i) pool_.push_back(random_.between(1, 5));
}

void ShapeGenerator::start_call(std::vector<Sizes> arguments, const std::vector<Sizes>& others) {
  near_ = std::move(arguments);
  own_ = near_.size();
  near_.insert(near_.end(), others.begin(), others.end());
}

void ShapeGenerator::put_first(const Sizes& sizes) {
  near_.insert(near_.begin(), sizes);
  ++own_;
}

std::int64_t ShapeGenerator::first_rank(std::int64_t otherwise) const {
  return near_.empty() ? otherwise : static_cast<std::int64_t>(near_[0].size());
}

Sizes ShapeGenerator::tensor(const std::string& name, std::int64_t least_rank,
                             std::int64_t most_rank) {
  Sizes sizes;
  for (int t = 0; t < 20; ++t) {
    sizes = most_rank == 1 ? Sizes{channels()} : shape(name);
    const auto rank = static_cast<std::int64_t>(sizes.size());
    if (rank >= least_rank && rank <= most_rank && elements(sizes) <= kMostElements) break;
    sizes = free_shape(random_.between(least_rank, most_rank));
  }
  return sizes;
}

Sizes ShapeGenerator::argument(const std::string& name) {
  return name == "normalized_shape" ? last_sizes() : name == "size" ? expanded() : reshaped();
}

// Sizes come from a pool of four, so that different tensors often have equal sizes. Ones
// broadcast.
std::int64_t ShapeGenerator::fresh() { return random_.one_in(6) ? 1 : random_.pick(pool_); }

Sizes ShapeGenerator::free_shape(std::int64_t rank) {
  Sizes sizes;
  for (std::int64_t i = 0; i < rank; ++i) sizes.push_back(fresh());
  return sizes;
}

// The shape of an argument of this call in three of four cases, otherwise any known shape.
Sizes ShapeGenerator::nearby() {
  if (near_.empty()) return {};
  if (own_ > 0 && !random_.one_in(4))
    return near_[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(own_)))];
  return random_.pick(near_);
}

std::int64_t ShapeGenerator::some_size() {
  const Sizes sizes = nearby();
  return sizes.empty() || random_.one_in(4) ? fresh() : random_.pick(sizes);
}

Sizes ShapeGenerator::shape(const std::string& name) {
  const bool vector = name == "bias" || name.starts_with("running_");
  if (near_.empty())
    return free_shape(random_.pick<std::int64_t>({0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5}));
  if (vector && !random_.one_in(4)) return {channels()};
  Sizes sizes = nearby();
  const auto rank = sizes.size();
  // A weight is a matrix or a filter in most cases. Another tensor has the shape of an operand
  // (case 0) in 4 of 11 draws, since most operators are elementwise.
  const bool weight = name == "weight" && !random_.one_in(4);
  switch (weight ? random_.pick({4, 6, 6}) : std::max<std::int64_t>(random_.below(11) - 3, 0)) {
    case 0:  // the same shape
      return sizes;
    case 1:  // a shape that broadcasts to it
      return broadcast(std::move(sizes));
    case 2:  // the other operand of a matrix product
      if (rank >= 2) std::swap(sizes[rank - 1], sizes[rank - 2]);
      if (rank >= 1 && random_.one_in(2)) sizes[rank - 1] = fresh();
      return sizes;
    case 3:  // one size differs
      if (rank >= 1)
        sizes[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(rank)))] =
            some_size();
      return sizes;
    case 4:  // a matrix
      return rank >= 1 && random_.one_in(2)
                 ? Sizes{random_.one_in(2) ? fresh() : some_size(), sizes.back()}
                 : Sizes{rank >= 1 ? sizes.back() : fresh(), fresh()};
    case 5:  // the last sizes
      if (rank >= 1)
        sizes.erase(sizes.begin(), sizes.begin() + random_.below(static_cast<std::int64_t>(rank)));
      return sizes;
    case 6:  // a filter of a convolution over it
      if (rank < 3) return {channels()};
      sizes[0] = fresh();
      for (std::size_t i = 2; i < rank; ++i) sizes[i] = random_.between(1, 2);
      return sizes;
    default:
      return free_shape(random_.between(0, 5));
  }
}

// The length of a vector such as a bias: that of another vector, or a likely channel dimension.
std::int64_t ShapeGenerator::channels() {
  for (std::size_t i = 0; i < own_; ++i)
    if (near_[i].size() == 1 && !random_.one_in(3)) return near_[i][0];
  const Sizes sizes = nearby();
  if (sizes.empty()) return fresh();
  if (sizes.size() == 1) return sizes[0];
  return random_.pick({sizes[0], sizes[1], sizes.back()});
}

Sizes ShapeGenerator::broadcast(Sizes sizes) {
  for (std::int64_t& size : sizes)
    if (random_.one_in(3)) size = 1;
  if (random_.one_in(2) && !sizes.empty())
    sizes.erase(sizes.begin(),
                sizes.begin() + random_.below(static_cast<std::int64_t>(sizes.size())));
  return sizes;
}

Sizes ShapeGenerator::last_sizes() {
  Sizes sizes = nearby();
  if (sizes.size() > 1)
    sizes.erase(sizes.begin(),
                sizes.begin() + random_.between(1, static_cast<std::int64_t>(sizes.size()) - 1));
  return sizes;
}

Sizes ShapeGenerator::expanded() {
  if (random_.one_in(4)) return reshaped();
  Sizes sizes = near_.empty() ? Sizes{} : near_[0];
  for (std::int64_t& size : sizes)
    if (size == 1 && random_.one_in(2))
      size = random_.between(1, 3);
    else if (random_.one_in(6))
      size = -1;
  return sizes;
}

// A shape with as many elements as the first argument.
Sizes ShapeGenerator::reshaped() {
  const Sizes from = near_.empty() ? Sizes{1} : near_[0];
  const std::int64_t all = elements(from);
  Sizes to = from;
  switch (random_.below(5)) {
    case 0:  // two sizes as one
      if (to.size() >= 2) merge(to, random_.below(static_cast<std::int64_t>(to.size()) - 1));
      break;
    case 1:  // all but the last as one, or all but the last two
      for (const std::size_t rest : {random_.one_in(2) ? 2u : 3u})
        while (to.size() > rest) merge(to, 0);
      break;
    case 2: {  // another shape, with what is left as the last size
      to = random_.pick(near_);
      if (to.empty()) break;
      const std::int64_t others = elements(to) / std::max<std::int64_t>(to.back(), 1);
      if (others == 0 || all % others != 0) break;
      to.back() = all / others;
      break;
    }
    case 3: {  // the first size as two
      if (to.empty() || to[0] < 1) break;
      const std::int64_t first = random_.pick<std::int64_t>({1, 2, 3, to[0]});
      if (to[0] % first != 0) break;
      to[0] /= first;
      to.insert(to.begin(), first);
      break;
    }
    default:
      break;
  }
  if (!to.empty() && random_.one_in(5))
    to[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(to.size())))] = -1;
  return to;
}

}  // namespace refx::checking
