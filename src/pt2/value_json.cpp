#include "pt2/value_json.h"

#include <fmt/format.h>

#include <clocale>
#include <cstdlib>

#include "pt2/json.h"
#include "refx/error.h"
#include "text/spelling.h"

namespace refx {

namespace {

using NameOf = std::function<std::string(NodeId)>;
constexpr int kDepth = 100;

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

namespace dom = simdjson::dom;

// Whatever the locale of the process, in which a decimal point may be a comma.
double number_in(const dom::element& element) {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(std::string(element.get_string().value()).c_str(), nullptr, locale);
}

Args items_in(const dom::element& element, const FindNode& find, int depth) {
  Args items;
  for (const dom::element& item : element.get_array())
    items.push_back(read_value(item, find, depth + 1));
  return items;
}

Arg tagged_value(std::string_view tag, const dom::element& value, const FindNode& find, int depth) {
  auto text = [&] { return std::string(value.get_string().value()); };
  auto number = [&] { return value.get_int64().value(); };
  if (tag == "float") return number_in(value);
  if (tag == "node") return find(value.get_string().value());
  if (tag == "tuple") return Tuple{items_in(value, find, depth)};
  if (tag == "slice") return Slice{items_in(value, find, depth)};
  if (tag == "sym") return SymInt{text()};
  if (tag == "raw") return Raw{text()};
  if (tag == "ellipsis") return Ellipsis{};
  if (tag == "dtype") return static_cast<c10::ScalarType>(number());
  if (tag == "layout") return static_cast<c10::Layout>(number());
  if (tag == "memory_format") return static_cast<c10::MemoryFormat>(number());
  if (tag == "device") return c10::Device(text());
  if (tag == "complex") return std::complex<double>(number_in(value.at(0)), number_in(value.at(1)));
  if (tag == "dict") {
    Dict dict;
    for (const dom::element& pair : value.get_array())
      dict.items.emplace_back(read_value(pair.at(0), find, depth + 1),
                              read_value(pair.at(1), find, depth + 1));
    return dict;
  }
  throw Error(fmt::format("a value of unknown kind '{}'", tag));
}

}  // namespace

Arg read_value(const dom::element& element, const FindNode& find, int depth) {
  if (depth > kDepth) throw Error("a value is nested too deeply");
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
      for (const auto& [tag, value] : element.get_object())
        return tagged_value(tag, value, find, depth);
      break;
    default:
      break;
  }
  throw Error("a value of unknown kind");
}

Kwargs read_values(const dom::element& element, const FindNode& find) {
  Kwargs kwargs;
  for (const auto& [key, value] : element.get_object())
    kwargs.emplace_back(std::string(key), read_value(value, find));
  return kwargs;
}

}  // namespace refx
