// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace refx {

// The comment that a transformation's file opens with, by the transformation's name.
const std::map<std::string_view, std::string_view>& contracts();

}  // namespace refx
