// SPDX-License-Identifier: Apache-2.0

#include "book/casts.h"

namespace refx::book {

namespace {

struct CastMethod {
  std::string_view method;
  c10::ScalarType dtype;
};
// Few enough for a linear search. cfloat and cdouble are missing: no exported graph has them.
constexpr CastMethod kCastMethods[] = {
    {"float", c10::ScalarType::Float}, {"double", c10::ScalarType::Double},
    {"half", c10::ScalarType::Half},   {"bfloat16", c10::ScalarType::BFloat16},
    {"long", c10::ScalarType::Long},   {"int", c10::ScalarType::Int},
    {"short", c10::ScalarType::Short}, {"char", c10::ScalarType::Char},
    {"byte", c10::ScalarType::Byte},   {"bool", c10::ScalarType::Bool},
};

}  // namespace

std::optional<c10::ScalarType> dtype_of_cast_method(std::string_view method) {
  for (const CastMethod& row : kCastMethods)
    if (row.method == method) return row.dtype;
  return std::nullopt;
}

}  // namespace refx::book
