// SPDX-License-Identifier: Apache-2.0

// fmt's own code, compiled once. With FMT_HEADER_ONLY every file that formats a string would
// compile it again, at 5 s each. Torch ships fmt's headers but not its library.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
template auto locale_ref::get<std::locale>() const -> std::locale;
namespace detail {
template auto dragonbox::to_decimal(float) -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
