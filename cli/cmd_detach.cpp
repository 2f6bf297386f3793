// SPDX-License-Identifier: Apache-2.0

// refx detach: removes the originals from a file and keeps their hashes.

#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/detach.h"
#include "refx/text.h"
#include "summary.h"
#include "util/json_writer.h"

namespace refx::cli {

int detach(const DetachOptions& options) {
  require_output("detach", options.model, options.output);
  Model& model = open_model(options.model);
  const std::uintmax_t before = std::filesystem::file_size(options.model);
  const std::vector<DetachedTensor> left = refx::detach(model);
  if (!left.empty() || !same_file(options.model, options.output)) write(model, options.output);
  const std::uintmax_t after = std::filesystem::file_size(options.output);

  if (options.json) {
    Json json;
    json.object(Json::kLines).member("output", options.output).key("tensors").array(Json::kLines);
    for (const DetachedTensor& tensor : left)
      json.object()
          .member("name", tensor.name)
          .member("dtype", print(tensor.dtype, Graph()))
          .member("bytes", tensor.bytes)
          .end();
    json.end().member("bytes_before", before).member("bytes_after", after);
    say_exactly(json.end().take());
  } else if (left.empty()) {
    say("nothing to detach: {} has no removable originals\n", options.model);
  } else {
    say("{} detached; the file has {}, had {}\n", originals(left), human_bytes(after),
        human_bytes(before));
    note("keep the original file: `refx reverse --base` needs it");
  }
  return kDone;
}

}  // namespace refx::cli
