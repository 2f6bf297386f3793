// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace refx {

// Formats errors for tables.
std::string short_number(double value);  // "3.2e-07"
std::string decibels(double error);      // "44.6"; "-" where there is no error

}  // namespace refx
