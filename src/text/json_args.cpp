// SPDX-License-Identifier: Apache-2.0

#include "refx/text.h"
#include "util/json_writer.h"

namespace refx {

namespace {

void write(Json& json, const Arg& arg);

void write(Json& json, const Args& args) {
  json.array();
  for (const Arg& arg : args) write(json, arg);
  json.end();
}

void write(Json& json, const Arg& arg) {
  if (arg.is<None>())
    json.null();
  else if (const auto* truth = arg.get<bool>())
    json.value(*truth);
  else if (const auto* integer = arg.get<std::int64_t>())
    json.value(*integer);
  else if (const auto* number = arg.get<double>())
    json.value(*number);
  else if (const auto* text = arg.get<std::string>())
    json.value(*text);
  else if (const auto* list = arg.get<List>())
    write(json, list->items);
  else if (const auto* tuple = arg.get<Tuple>())
    write(json, tuple->items);
  else
    json.value(print(arg, Graph()));
}

}  // namespace

std::string to_json(const Kwargs& arguments) {
  Json json;
  json.object();
  for (const auto& [name, arg] : arguments) write(json.key(name), arg);
  std::string text = json.end().take();
  text.pop_back();  // the line break
  return text;
}

}  // namespace refx
