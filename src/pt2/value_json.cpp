// SPDX-License-Identifier: Apache-2.0

#include "pt2/value_json.h"

#include <fmt/format.h>

#include <clocale>
#include <cstdlib>

#include "graph_json/json.h"
#include "graph_json/schema.h"
#include "refx/error.h"
#include "text/spelling.h"
#include "util/limits.h"

namespace refx {

namespace {

std::string repr(double value) {
  std::string out;
  append_double(out, value);
  return out;
}

// A value that JSON has no form for: {"tag": …}.
template <class F>
void tagged(std::string& out, std::string_view tag, F&& value) {
  JsonList fields(out, '{', '}');
  fields.key(tag);
  value();
}

void append_items(std::string& out, const Args& items, const NameOf& name_of) {
  JsonList list(out, '[', ']');
  for (const Arg& item : items) append_value(list.next(), item, name_of);
}

}  // namespace

void append_value(std::string& out, const Arg& arg, const NameOf& name_of) {
  struct Visitor {
    std::string& out;
    const NameOf& name_of;

    void text(std::string_view tag, std::string_view value) {
      tagged(out, tag, [&] { append_json(out, value); });
    }
    void number(std::string_view tag, int value) {
      tagged(out, tag, [&] { out += std::to_string(value); });
    }
    void items(std::string_view tag, const Args& args) {
      tagged(out, tag, [&] { append_items(out, args, name_of); });
    }

    void operator()(None) { out += "null"; }
    void operator()(bool v) { out += v ? "true" : "false"; }
    void operator()(std::int64_t v) { out += std::to_string(v); }
    void operator()(double v) { text("float", repr(v)); }
    void operator()(const std::complex<double>& v) {
      tagged(out, "complex", [&] {
        JsonList list(out, '[', ']');
        append_json(list.next(), std::string_view(repr(v.real())));
        append_json(list.next(), std::string_view(repr(v.imag())));
      });
    }
    void operator()(const std::string& v) { append_json(out, v); }
    void operator()(c10::ScalarType v) { number("dtype", static_cast<int>(v)); }
    void operator()(c10::Device v) { text("device", v.str()); }
    void operator()(c10::Layout v) { number("layout", static_cast<int>(v)); }
    void operator()(c10::MemoryFormat v) { number("memory_format", static_cast<int>(v)); }
    void operator()(NodeId v) { text("node", name_of(v)); }
    void operator()(const SymInt& v) { text("sym", v.expr); }
    void operator()(Ellipsis) { number("ellipsis", 0); }
    void operator()(const Raw& v) { text("raw", v.text); }
    void operator()(const List& v) { append_items(out, v.items, name_of); }
    void operator()(const Tuple& v) { items("tuple", v.items); }
    void operator()(const Slice& v) { items("slice", v.parts); }
    void operator()(const Dict& v) {
      tagged(out, "dict", [&] {
        JsonList list(out, '[', ']');
        for (const auto& [key, value] : v.items) append_items(list.next(), {key, value}, name_of);
      });
    }
  };
  std::visit(Visitor{out, name_of}, arg.value());
}

void append_values(std::string& out, const Kwargs& kwargs, const NameOf& name_of) {
  JsonList fields(out, '{', '}');
  for (const auto& [key, value] : kwargs) append_value(fields.key(key), value, name_of);
}

namespace {

// Whatever the locale of the process, in which a decimal point may be a comma.
double number_in(const dom::element& element) {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string text(value_as<std::string_view>(element, "float"));
  char* end = nullptr;
  const double number = strtod_l(text.c_str(), &end, locale);
  if (text.empty() || end != text.c_str() + text.size())
    throw Error(fmt::format("'{}' is not a number", text));
  return number;
}

Args items_in(const dom::element& element, const FindNode& find, int depth) {
  return read_list(element, "a list of values", find, depth);
}

// The numbers are c10's; those that torch.export's schema has a number for can be in a file.
template <class T>
T enum_in(const dom::element& value, const char* what) {
  const auto number = value_as<std::int64_t>(value, what);
  const auto as_enum = static_cast<T>(number);
  if (number != static_cast<std::int64_t>(as_enum) || !number_of(as_enum))
    throw Error(fmt::format("unknown {} {}", what, number));
  return as_enum;
}

Arg tagged_value(std::string_view tag, const dom::element& value, const FindNode& find, int depth) {
  auto text = [&] { return std::string(value_as<std::string_view>(value, tag)); };
  if (tag == "float") return number_in(value);
  if (tag == "node") return find(value_as<std::string_view>(value, tag));
  if (tag == "tuple") return Tuple{items_in(value, find, depth)};
  if (tag == "slice") {
    Args parts = items_in(value, find, depth);
    if (parts.size() != 3) throw Error("a slice has a start, a stop and a step");
    return Slice{std::move(parts)};
  }
  if (tag == "sym") return SymInt{text()};
  if (tag == "raw") return Raw{text()};
  if (tag == "ellipsis") return Ellipsis{};
  if (tag == "dtype") return read_dtype(value);
  if (tag == "layout") return read_layout(value);
  if (tag == "memory_format") return enum_in<c10::MemoryFormat>(value, "memory format");
  if (tag == "device") return read_device(value);
  if (tag == "complex") {
    const auto [real, imaginary] = pair_in(value, tag);
    return std::complex<double>(number_in(real), number_in(imaginary));
  }
  if (tag == "dict") {
    Dict dict;
    for (const dom::element& item : value_as<dom::array>(value, tag)) {
      const auto [key, of_key] = pair_in(item, tag);
      dict.items.emplace_back(read_value(key, find, depth + 1),
                              read_value(of_key, find, depth + 1));
    }
    return dict;
  }
  throw Error(fmt::format("a value of unknown kind '{}'", tag));
}

}  // namespace

c10::ScalarType read_dtype(const dom::element& value) {
  return enum_in<c10::ScalarType>(value, "dtype");
}

c10::Layout read_layout(const dom::element& value) { return enum_in<c10::Layout>(value, "layout"); }

c10::Device read_device(const dom::element& value) {
  const auto name = value_as<std::string_view>(value, "device");
  if (name == "cpu") return c10::kCPU;  // what nearly all are
  try {
    return c10::Device(std::string(name));
  } catch (const std::exception&) {
    throw Error(fmt::format("unknown device '{}'", name));
  }
}

Arg read_value(const dom::element& element, const FindNode& find, int depth) {
  if (depth > limits::kNesting) throw Error("a value is nested too deeply");
  switch (element.type()) {
    case dom::element_type::NULL_VALUE:
      return None{};
    case dom::element_type::BOOL:
      return element.get_bool().value();
    case dom::element_type::INT64:
      return element.get_int64().value();
    case dom::element_type::STRING:
      return std::string(element.get_string().value());
    case dom::element_type::ARRAY:
      return List{items_in(element, find, depth)};
    case dom::element_type::OBJECT:
      if (const dom::object tagged = element.get_object(); tagged.size() == 1)
        return tagged_value((*tagged.begin()).key, (*tagged.begin()).value, find, depth);
      break;
    default:
      break;
  }
  throw Error("a value of unknown kind");
}

Args read_list(const dom::element& element, std::string_view name, const FindNode& find,
               int depth) {
  const auto list = value_as<dom::array>(element, name);
  Args items;
  items.reserve(list.size());
  for (const dom::element& item : list) items.push_back(read_value(item, find, depth + 1));
  return items;
}

Kwargs read_values(const dom::element& element, const FindNode& find) {
  Kwargs kwargs;
  for (const auto& [key, value] : value_as<dom::object>(element, "arguments by name"))
    kwargs.emplace_back(std::string(key), read_value(value, find));
  return kwargs;
}

}  // namespace refx
