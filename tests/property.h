// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <functional>
#include <string>

namespace refx::testing {

// Runs a property on random cases, which it draws from RapidCheck's generators, and shrinks one
// that fails to a small one. EXPECT_ and ASSERT_ in it make it fail, like RC_ASSERT and exceptions.
// Reproducible: the seed is fixed, and RC_PARAMS in the environment has the last word.
void check_property(const std::string& what, int cases, std::uint64_t seed,
                    const std::function<void()>& property);

// From 0 to 5039, evenly whatever the size of the case is: so its remainders by 2 to 10, 12, 14, 15
// and 16 are even too. It shrinks to 0.
rc::Gen<int> any_number();

// Up to `most` of them; shrinks by leaving some out.
template <class T>
rc::Gen<std::vector<T>> up_to(int most, rc::Gen<T> gen) {
  return rc::gen::resize(most, rc::gen::container<std::vector<T>>(std::move(gen)));
}

}  // namespace refx::testing
