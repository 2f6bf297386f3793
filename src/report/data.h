// SPDX-License-Identifier: Apache-2.0
#pragma once

// report/: the data of the page of `refx report`. The page itself is in web/.

#include <string>

#include "refx/report.h"

namespace refx {

// The contents of the page, as JSON that is safe inside a <script>. web/src/data.js reads it.
std::string page_data(const Model& model, const ReportOptions& options, const std::string& title);

// The name of the model's file, without folders; empty if it has no file.
std::string file_name(const Model& model);

}  // namespace refx
