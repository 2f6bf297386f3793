#include "text/json_args.h"

#include "refx/text.h"

namespace refx {

namespace {

void write_items(Json& json, const Args& args) {
  json.array();
  for (const Arg& arg : args) json.value(arg);
  json.end();
}

}  // namespace

void write_json(Json& json, const Arg& arg) {
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
    write_items(json, list->items);
  else if (const auto* tuple = arg.get<Tuple>())
    write_items(json, tuple->items);
  else
    json.value(print(arg, Graph()));
}

void write_json(Json& json, const Kwargs& kwargs) {
  json.object();
  for (const auto& [name, arg] : kwargs) json.member(name, arg);
  json.end();
}

}  // namespace refx
