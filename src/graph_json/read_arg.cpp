// SPDX-License-Identifier: Apache-2.0

#include "graph_json/read_arg.h"

#include <fmt/format.h>

#include <new>

#include "graph_json/schema.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

class Reader {
 public:
  Reader(JsonDocument& document, const Graph& graph) : document_(document), graph_(graph) {}

  Arg any(ondemand::object object, int depth = 0) {
    if (depth > limits::kArgumentDepth) document_.fail("an argument is nested too deeply");
    Arg arg;
    int kinds = 0;
    for (auto field : object) {
      const std::string_view kind = field.unescaped_key();
      if (++kinds > 1) document_.fail(fmt::format("an argument has a second kind, '{}'", kind));
      const Trail::Step step(document_.trail, kind);
      arg = of_kind(kind, field.value(), depth);
    }
    if (kinds == 0) document_.fail("an argument is empty");
    return arg;
  }

 private:
  NodeId node(std::string_view name) {
    const NodeId id = graph_.find(name);
    if (!id) document_.fail(fmt::format("uses '{}', which nothing before it makes", name));
    return id;
  }

  Arg tensor(ondemand::object object) { return node(object["name"].get_string().value()); }

  // A name, or the number itself.
  Arg symbolic(ondemand::object object) {
    for (auto field : object) {
      const std::string_view kind = field.unescaped_key();
      ondemand::value value = field.value();
      if (kind == "as_name") return node(value.get_string().value());
      if (kind == "as_int") return Arg(value.get_int64().value());
      if (kind == "as_float") return Arg(double_in(value));
      if (kind == "as_bool") return Arg(value.get_bool().value());
      document_.fail(fmt::format("a symbolic argument of unknown kind '{}'", kind));
    }
    document_.fail("a symbolic argument is empty");
  }

  Arg optional_tensor(ondemand::object object) {
    for (auto field : object) {
      const std::string_view kind = field.unescaped_key();
      ondemand::value value = field.value();
      if (kind == "as_none") return None{};
      if (kind == "as_tensor") return tensor(value.get_object());
      document_.fail(fmt::format("an optional tensor of unknown kind '{}'", kind));
    }
    document_.fail("an optional tensor is empty");
  }

  template <class F>
  Arg list(ondemand::value value, F&& item_of) {
    List out;
    for (ondemand::value item : value.get_array()) {
      const Trail::Step step(document_.trail, out.items.size());
      out.items.push_back(item_of(item));
    }
    return out;
  }

  Arg of_kind(std::string_view kind, ondemand::value value, int depth) {
    auto integer = [](ondemand::value v) { return Arg(v.get_int64().value()); };
    auto number = [](ondemand::value v) { return Arg(double_in(v)); };
    auto truth = [](ondemand::value v) { return Arg(v.get_bool().value()); };
    auto string = [](ondemand::value v) { return Arg(string_in(v)); };
    auto a_tensor = [this](ondemand::value v) { return tensor(v.get_object()); };
    auto a_symbol = [this](ondemand::value v) { return symbolic(v.get_object()); };

    if (kind == "as_tensor") return a_tensor(value);
    if (kind == "as_none") return None{};
    if (kind == "as_int") return integer(value);
    if (kind == "as_ints") return list(value, integer);
    if (kind == "as_tensors") return list(value, a_tensor);
    if (kind == "as_float") return number(value);
    if (kind == "as_floats") return list(value, number);
    if (kind == "as_bool") return truth(value);
    if (kind == "as_bools") return list(value, truth);
    if (kind == "as_string") return string(value);
    if (kind == "as_strings") return list(value, string);
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
      return a_symbol(value);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools")
      return list(value, a_symbol);
    if (kind == "as_scalar_type") return known(scalar_type_of(value.get_int64()), "scalar type");
    if (kind == "as_memory_format")
      return known(memory_format_of(value.get_int64()), "memory format");
    if (kind == "as_layout") return known(layout_of(value.get_int64()), "layout");
    if (kind == "as_device") return device(value.get_object());
    if (kind == "as_optional_tensor") return optional_tensor(value.get_object());
    if (kind == "as_optional_tensors")
      return list(value, [this](ondemand::value v) { return optional_tensor(v.get_object()); });
    if (kind == "as_nested_tensors")
      return list(value, [&](ondemand::value v) { return list(v, a_tensor); });
    if (kind == "as_int_lists")
      return list(value, [&](ondemand::value v) { return list(v, integer); });
    if (kind == "as_float_lists")
      return list(value, [&](ondemand::value v) { return list(v, number); });
    if (kind == "as_complex") {
      ondemand::object parts = value.get_object();
      const double real = double_in(parts["real"]);
      return std::complex<double>(real, double_in(parts["imag"]));
    }
    if (kind == "as_string_to_argument") {
      Dict dict;
      for (auto field : value.get_object()) {
        std::string key(field.unescaped_key().value());
        dict.items.emplace_back(std::move(key), any(field.value().get_object(), depth + 1));
      }
      return dict;
    }
    if (kind == "as_graph" || kind == "as_custom_obj" || kind == "as_operator")
      return raw(kind, value);
    // It may name values, which a rewrite would then take away.
    document_.fail("an argument of a kind that refx does not know");
  }

  template <class T>
  Arg known(std::optional<T> value, const char* what) {
    if (!value) document_.fail(fmt::format("unknown {}", what));
    return *value;
  }

  Arg device(ondemand::object object) {
    std::string name(object["type"].get_string().value());
    if (auto index = find_field(object, "index"); index && !index->is_null())
      name += fmt::format(":{}", index->get_int64().value());
    try {
      return c10::Device(name);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      document_.fail(fmt::format("unknown device '{}'", name));
    }
  }

  Arg raw(std::string_view kind, ondemand::value value) {
    std::string_view text;
    switch (value.type()) {
      case ondemand::json_type::object:
        text = value.get_object().value().raw_json();
        break;
      case ondemand::json_type::array:
        text = value.get_array().value().raw_json();
        break;
      default:
        text = value.raw_json_token();
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
    return Raw{fmt::format("{{\"{}\": {}}}", kind, text)};
  }

  JsonDocument& document_;
  const Graph& graph_;
};

}  // namespace

Arg read_arg(JsonDocument& document, ondemand::object object, const Graph& graph) {
  return Reader(document, graph).any(object);
}

}  // namespace refx
