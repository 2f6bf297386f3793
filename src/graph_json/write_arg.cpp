// SPDX-License-Identifier: Apache-2.0

#include "graph_json/write_arg.h"

#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>

#include "graph_json/json.h"
#include "graph_json/schema.h"
#include "refx/error.h"
#include "refx/text.h"

namespace refx {

namespace {

class Writer {
 public:
  Writer(std::string& out, const Graph& graph, const SymbolicValues& symbolic)
      : out_(out), graph_(graph), symbolic_(symbolic) {}

  void any(const Arg& arg, const c10::TypePtr& type) {
    if (auto* raw = arg.get<Raw>()) {
      out_ += raw->text;
    } else if (auto* list = arg.get<List>()) {
      items(list->items, type);
    } else if (auto* tuple = arg.get<Tuple>()) {
      items(tuple->items, type);
    } else if (auto* id = arg.get<NodeId>()) {
      const std::string_view kind = kind_of(*id);
      field(kind == "tensor" ? "as_tensor" : fmt::format("as_{}", kind), [&] { reference(*id); });
    } else if (auto* dict = arg.get<Dict>()) {
      field("as_string_to_argument", [&] {
        JsonList fields(out_, '{', '}');
        for (const auto& [key, value] : dict->items) {
          fields.key(key.get<std::string>() ? *key.get<std::string>() : cannot(arg));
          any(value, nullptr);
        }
      });
    } else if (auto* value = arg.get<std::complex<double>>()) {
      field("as_complex", [&] {
        JsonList fields(out_, '{', '}');
        append_json(fields.key("real"), value->real());
        append_json(fields.key("imag"), value->imag());
      });
    } else if (auto* device = arg.get<c10::Device>()) {
      field("as_device", [&] {
        JsonList fields(out_, '{', '}');
        append_json(fields.key("type"), c10::DeviceTypeName(device->type(), true));
        fields.key("index") += device->has_index() ? std::to_string(device->index()) : "null";
      });
    } else {
      field(scalar_kind(arg), [&] { scalar(arg); });
    }
  }

 private:
  template <class F>
  void field(std::string_view kind, F&& value) {
    JsonList fields(out_, '{', '}');
    fields.key(kind);
    value();
  }

  std::string cannot(const Arg& arg) const {
    throw Error(fmt::format("a .pt2 file cannot hold the argument {}", print(arg, graph_)));
  }

  std::string_view kind_of(NodeId id) const {
    if (symbolic_.empty()) return "tensor";
    auto it = symbolic_.find(graph_[id].name);
    return it == symbolic_.end() ? std::string_view("tensor") : it->second;
  }

  void reference(NodeId id) {
    field(kind_of(id) == "tensor" ? "name" : "as_name",
          [&] { append_json(out_, graph_[id].name); });
  }

  std::string scalar_kind(const Arg& arg) const {
    if (arg.is<None>()) return "as_none";
    if (arg.is<bool>()) return "as_bool";
    if (arg.is<std::int64_t>()) return "as_int";
    if (arg.is<double>()) return "as_float";
    if (arg.is<std::string>()) return "as_string";
    if (arg.is<c10::ScalarType>()) return "as_scalar_type";
    if (arg.is<c10::Layout>()) return "as_layout";
    if (arg.is<c10::MemoryFormat>()) return "as_memory_format";
    return cannot(arg);
  }

  template <class T>
  void number(const Arg& arg, const T& value) {
    const auto n = number_of(value);
    out_ += n ? std::to_string(*n) : cannot(arg);
  }

  void scalar(const Arg& arg) {
    if (arg.is<None>()) out_ += "true";
    if (auto* v = arg.get<bool>()) out_ += *v ? "true" : "false";
    if (auto* v = arg.get<std::int64_t>()) out_ += std::to_string(*v);
    if (auto* v = arg.get<double>()) append_json(out_, *v);
    if (auto* v = arg.get<std::string>()) append_json(out_, *v);
    if (auto* v = arg.get<c10::ScalarType>()) number(arg, *v);
    if (auto* v = arg.get<c10::Layout>()) number(arg, *v);
    if (auto* v = arg.get<c10::MemoryFormat>()) number(arg, *v);
  }

  template <class F>
  void list(std::string_view kind, const Args& args, F&& item) {
    field(kind, [&] {
      JsonList list(out_, '[', ']');
      for (const Arg& arg : args) {
        list.next();
        item(arg);
      }
    });
  }

  static bool all(const Args& args, auto&& test) {
    return std::all_of(args.begin(), args.end(), test);
  }

  void items(const Args& args, const c10::TypePtr& type) {
    if (args.empty()) return list(empty_kind(type), args, [](const Arg&) {});
    auto plain = [&](const Arg& arg) { scalar(arg); };
    auto is = []<class T>(T*) { return [](const Arg& arg) { return arg.is<T>(); }; };
    if (all(args, is(static_cast<bool*>(nullptr)))) return list("as_bools", args, plain);
    if (all(args, is(static_cast<std::int64_t*>(nullptr)))) return list("as_ints", args, plain);
    if (all(args, is(static_cast<double*>(nullptr)))) return list("as_floats", args, plain);
    if (all(args, is(static_cast<std::string*>(nullptr)))) return list("as_strings", args, plain);
    auto has_kind = [&](const Arg& arg, std::string_view kind) {
      const NodeId* id = arg.get<NodeId>();
      return id && kind_of(*id) == kind;
    };
    if (all(args, [&](const Arg& arg) { return has_kind(arg, "tensor"); }))
      return list("as_tensors", args, [&](const Arg& arg) { reference(*arg.get<NodeId>()); });
    if (all(args, [&](const Arg& arg) { return arg.is<None>() || has_kind(arg, "tensor"); }))
      return list("as_optional_tensors", args, [&](const Arg& arg) { any(arg, nullptr); });
    for (const char* kind : {"sym_int", "sym_float", "sym_bool"})
      if (all(args, [&](const Arg& arg) { return has_kind(arg, kind) || !arg.is<NodeId>(); }) &&
          all(args, [&](const Arg& arg) {
            return arg.is<NodeId>() || arg.is<std::int64_t>() || arg.is<double>() || arg.is<bool>();
          }))
        return list(fmt::format("as_{}s", kind), args, [&](const Arg& arg) {
          if (auto* id = arg.get<NodeId>()) return reference(*id);
          field(scalar_kind(arg), [&] { scalar(arg); });
        });
    cannot(List{args});
  }

  static std::string empty_kind(const c10::TypePtr& type) {
    c10::TypePtr element = type;
    while (element) {
      if (auto optional = element->cast<c10::OptionalType>()) {
        element = optional->getElementType();
      } else if (auto inner = element->cast<c10::ListType>()) {
        element = inner->getElementType();
      } else {
        break;
      }
    }
    if (!element) return "as_tensors";
    if (element->kind() == c10::TypeKind::BoolType) return "as_bools";
    if (element->kind() == c10::TypeKind::FloatType) return "as_floats";
    if (element->kind() == c10::TypeKind::StringType) return "as_strings";
    if (element->kind() == c10::TypeKind::TensorType) return "as_tensors";
    return "as_ints";
  }

  std::string& out_;
  const Graph& graph_;
  const SymbolicValues& symbolic_;
};

}  // namespace

void append_arg(std::string& out, const Arg& arg, const Graph& graph,
                const SymbolicValues& symbolic, const c10::TypePtr& type) {
  Writer(out, graph, symbolic).any(arg, type);
}

}  // namespace refx
