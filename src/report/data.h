// SPDX-License-Identifier: Apache-2.0
#pragma once

// report/: the data of the page of `refx report`. The page itself is in web/.

#include <string>

#include "refx/report.h"

namespace refx {

// What the page shows, as JSON that may stand inside a <script>. web/src/data.js reads it.
std::string page_data(const Model& model, const ReportOptions& options, const std::string& title);

// The name of the file that the model came from, without its folders; empty: none.
std::string file_name(const Model& model);

}  // namespace refx
