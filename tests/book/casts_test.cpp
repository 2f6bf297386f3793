// SPDX-License-Identifier: Apache-2.0

#include "book/casts.h"

#include <gtest/gtest.h>

namespace refx::book {
namespace {

TEST(Casts, MethodsNameTheirDtype) {
  EXPECT_EQ(dtype_of_cast_method("float"), c10::ScalarType::Float);
  EXPECT_EQ(dtype_of_cast_method("half"), c10::ScalarType::Half);
  EXPECT_EQ(dtype_of_cast_method("bfloat16"), c10::ScalarType::BFloat16);
  EXPECT_EQ(dtype_of_cast_method("long"), c10::ScalarType::Long);
  EXPECT_EQ(dtype_of_cast_method("byte"), c10::ScalarType::Byte);
  EXPECT_EQ(dtype_of_cast_method("bool"), c10::ScalarType::Bool);
}

// to() and type() take the dtype as an argument; float_power is no cast.
TEST(Casts, OtherMethodsAreNoCasts) {
  for (const char* method : {"to", "type", "relu", "float_power", "floats", ""})
    EXPECT_EQ(dtype_of_cast_method(method), std::nullopt) << method;
}

}  // namespace
}  // namespace refx::book
