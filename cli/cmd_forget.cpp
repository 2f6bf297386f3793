// SPDX-License-Identifier: Apache-2.0

// refx forget: removes the history of a file and the originals that it keeps.

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/error.h"
#include "refx/reverse.h"
#include "util/json_writer.h"

namespace refx::cli {

namespace {

struct Opened {
  Model& model;
  std::optional<std::size_t> steps;  // none if the history cannot be read
};

// Opens the model even if its history cannot be read: removing such a history is a use of forget.
Opened open(const std::string& path) {
  try {
    Model& model = open_model(path);
    return {model, model.history().size()};
  } catch (const Error& unreadable) {
    Opened opened{open_model(path, {.history = false}), {}};
    note(fmt::format("the history cannot be read and is dropped: {}", unreadable.what()));
    return opened;
  }
}

}  // namespace

int forget(const ForgetOptions& options) {
  require_output("forget", options.model, options.output);
  Opened opened = open(options.model);
  const std::uintmax_t before = std::filesystem::file_size(options.model);
  const bool stays = opened.steps == 0 && same_file(options.model, options.output);
  refx::forget(opened.model);
  if (!stays) write(opened.model, options.output);
  const std::uintmax_t after = std::filesystem::file_size(options.output);
  const std::uintmax_t freed = before > after ? before - after : 0;

  if (options.json) {
    Json json;
    json.object(Json::kLines).member("output", options.output).key("steps");
    opened.steps ? json.value(*opened.steps) : json.null();
    json.member("bytes_before", before).member("bytes_after", after).member("bytes_freed", freed);
    say_exactly(json.end().take());
  } else if (opened.steps == 0) {
    say("nothing to forget: {} has no steps\n", options.model);
  } else {
    say("{} forgotten, {} freed\n",
        opened.steps ? count(*opened.steps, "step") : std::string("the history is"),
        human_bytes(freed));
  }
  return kDone;
}

}  // namespace refx::cli
