// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <random>

#include "json_tree.h"

namespace refx::testing {

// One change at random that keeps it JSON: a value for another, a member gone, doubled, moved or
// renamed, a number at its limits, … `mutate_text`, if there is one, changes some of the strings.
void mutate(Json& json, std::minstd_rand& random,
            const std::function<std::string(std::string_view)>& mutate_text = {});

}  // namespace refx::testing
