// SPDX-License-Identifier: Apache-2.0

#include "lab/check/draw_literals.h"

#include <cmath>
#include <limits>

namespace refx::checking {

namespace {

Arg list_of(const Sizes& sizes) {
  List list;
  for (const std::int64_t size : sizes) list.items.emplace_back(size);
  return list;
}

// Lists of small numbers: stride, padding, dilation, dim. One number, or one for each spatial
// dimension.
Arg numbers_for(const std::string& name, const ShapeGenerator& shapes, Random& random) {
  if (name.starts_with("dim")) return List{{draw_dim(shapes, random)}};
  const std::int64_t rank = shapes.first_rank(3);
  const std::int64_t n = random.one_in(4) || rank < 3 ? 1 : rank - 2;
  Sizes sizes;
  const bool zero = name.find("padding") != name.npos;
  for (std::int64_t i = 0; i < n; ++i) sizes.push_back(random.between(zero ? 0 : 1, zero ? 1 : 2));
  return list_of(sizes);
}

}  // namespace

Arg draw_number(const Requirements& requirements, Random& random) {
  const auto& numbers = requirements.numbers;
  const double number = numbers.empty() ? 0 : random.pick(numbers);
  const bool extreme =
      std::abs(number) > 1e20;  // a mask value; random numbers would never reach it
  if (!numbers.empty() && (requirements.equal || extreme ? !random.one_in(8) : random.one_in(4))) {
    if (extreme && random.one_in(2))
      return random.pick({std::copysign(std::numeric_limits<double>::infinity(), number),
                          std::copysign(3.4028234663852886e38, number)});
    // The required number in most cases, and close misses that the rule has to refuse.
    return random.pick({number, number, number, number, number, number, number, number * 1.001,
                        number * 2, number / 2, -number, std::nextafter(number, 2 * number)});
  }
  if (random.one_in(4))
    return random.pick<Arg>({0.0, 1.0, -1.0, 1e-30, 1e30, 1e-12, 1e4, -0.0, 0, 1, 2, -2, 3.0});
  return random.pick({1e-5, 1e-6, 1e-3, 0.1, 0.5, 2.0, 8.0, 0.125, 0.3, 1.7});
}

Arg draw_dim(const ShapeGenerator& shapes, Random& random) {
  const std::int64_t rank = shapes.first_rank(2);
  return rank == 0 ? 0 : random.between(-rank, rank - 1);
}

Arg draw_argument(const std::string& name, c10::TypePtr type, ShapeGenerator& shapes,
                  Random& random) {
  using c10::TypeKind;
  if (type && type->kind() == TypeKind::OptionalType)
    type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type ? type->kind() : TypeKind::ListType) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return name.starts_with("dim") ? draw_dim(shapes, random)
                                     : random.pick<std::int64_t>({0, 1, 2, 3});
    case TypeKind::BoolType:
      return random.one_in(2);
    case TypeKind::FloatType:
    case TypeKind::NumberType:
      return random.pick({0.5, 1.0, 0.1, 2.0, -0.5});
    case TypeKind::StringType:
      return random.pick<Arg>({"valid", "same", "none", "tanh"});
    default:
      break;
  }
  const bool is_shape = name.find("size") != name.npos || name.find("shape") != name.npos;
  if (!is_shape) return numbers_for(name, shapes, random);
  return list_of(shapes.argument(name));
}

}  // namespace refx::checking
