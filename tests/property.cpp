// SPDX-License-Identifier: Apache-2.0

#include "property.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace refx::testing {

namespace {

// What went wrong in GoogleTest's terms, told in RapidCheck's.
void run_judged(const std::function<void()>& property) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    property();
  }
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed()) RC_FAIL(results.GetTestPartResult(i).message());
}

}  // namespace

void check_property(const std::string& what, int cases, std::uint64_t seed,
                    const std::function<void()>& property) {
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = what;
  rc::detail::TestParams params;
  params.seed = seed;
  params.maxSuccess = cases;
  const auto judged = [&] { run_judged(property); };
  const auto result = std::getenv("RC_PARAMS")
                          ? rc::detail::checkTestable(judged, metadata)
                          : rc::detail::checkTestable(judged, metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  ADD_FAILURE() << message.str();
}

rc::Gen<int> any_number() { return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 5040)); }

}  // namespace refx::testing
