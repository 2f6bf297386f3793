// SPDX-License-Identifier: Apache-2.0

// In place of the generated page where there is no Node.js to make it.

#include "report/page.h"

namespace refx {
std::string_view page_template() { return {}; }
}  // namespace refx
