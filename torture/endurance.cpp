// SPDX-License-Identifier: Apache-2.0

#include "endurance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace refx::torture {

namespace {

double number_in(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : otherwise;
}

}  // namespace

void endure(const std::string& what, const std::function<int(std::uint64_t seed)>& trial) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration<double>(number_in("TORTURE_S", 2));
  auto seed = static_cast<std::uint64_t>(number_in("REFX_SEED", 1)) * 1'000'000'007;
  std::int64_t done = 0;
  const bool failed_before = ::testing::Test::HasFailure();
  do {
    SCOPED_TRACE(seed);
    done += trial(seed++);
  } while (clock::now() < end && (failed_before || !::testing::Test::HasFailure()));
  std::printf("torture: %lld %s, %s\n", static_cast<long long>(done), what.c_str(),
              ::testing::Test::HasFailure() ? "WRONG" : "0 wrong");
}

}  // namespace refx::torture
