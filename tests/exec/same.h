// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kit.h"
#include "refx/builder.h"
#include "refx/executor.h"

namespace refx::testing {

// Same type, sizes and bits; nan equals itself.
inline ::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return ::testing::AssertionFailure()
           << a.toString() << a.sizes() << " is not " << b.toString() << b.sizes();
  }
  at::Tensor x = a.contiguous(), y = b.contiguous();
  if (std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "bits differ, at most by "
         << (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item();
}

// Three runs: the plain one that is recorded, the one that plans, and the planned one.
inline void expect_same(Model& model, const std::vector<c10::IValue>& inputs,
                        const at::Tensor& expected) {
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(same(model.forward(inputs).toTensor(), expected)) << "run " << run;
  }
}

using Body = std::function<Arg(Builder&, NodeId)>;

// A model of one input.
inline Model one_input(const Body& body) {
  Builder b;
  NodeId x = b.input("x");
  Arg result = body(b, x);
  return b.build(std::move(result));
}
inline void expect_same(const Body& body, const at::Tensor& x, const at::Tensor& expected) {
  Model model = one_input(body);
  expect_same(model, {x}, expected);
}

inline void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  std::string message = error_of(f);
  for (const auto& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

inline Arg ints(std::initializer_list<std::int64_t> values) {
  return List{Args(values.begin(), values.end())};
}

}  // namespace refx::testing
