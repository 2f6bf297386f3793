// SPDX-License-Identifier: Apache-2.0

#include "refx/report.h"

#include "archive/atomic_file.h"
#include "refx/error.h"
#include "report/data.h"
#include "report/page.h"

namespace refx {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string report(const Model& model, const ReportOptions& options) {
  const std::string_view page = page_template();
  if (page.empty())
    throw Error(
        "this build of refx has no report page: it was built without Node.js; install nodejs and "
        "npm, and build again");
  std::string title = options.title.empty() ? file_name(model) : options.title;
  if (title.empty()) title = "model";

  const auto at_title = page.find(kTitleMark), at_data = page.find(kDataMark);
  REFX_CHECK(at_title < at_data && at_data != page.npos, "the page has no place for its data");
  const std::string data = page_data(model, options, title);
  std::string out;
  out.reserve(page.size() + data.size() + title.size());
  out += page.substr(0, at_title);
  out += escaped(title);
  out += page.substr(at_title + kTitleMark.size(), at_data - at_title - kTitleMark.size());
  out += data;
  out += page.substr(at_data + kDataMark.size());
  return out;
}

void write_report(const std::string& path, const std::string& html) {
  write_atomically(path, html);
}

}  // namespace refx
