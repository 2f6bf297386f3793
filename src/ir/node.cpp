// SPDX-License-Identifier: Apache-2.0

#include "refx/node.h"

#include <bit>

#include "refx/module.h"
#include "refx/state.h"

namespace refx {

namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

struct Equal {
  bool operator()(double a, double b) const { return same_bits(a, b); }
  bool operator()(const std::complex<double>& a, const std::complex<double>& b) const {
    return same_bits(a.real(), b.real()) && same_bits(a.imag(), b.imag());
  }
  bool operator()(const List& a, const List& b) const { return a.items == b.items; }
  bool operator()(const Tuple& a, const Tuple& b) const { return a.items == b.items; }
  bool operator()(const Slice& a, const Slice& b) const { return a.parts == b.parts; }
  bool operator()(const Dict& a, const Dict& b) const { return a.items == b.items; }
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
};

bool same_type(const TypePtr& a, const TypePtr& b) { return a == b || (a && b && *a == *b); }

bool same_meta(const MetaPtr& a, const MetaPtr& b) {
  static const Meta empty;
  return a == b || (a ? *a : empty) == (b ? *b : empty);
}

}  // namespace

Arg::Arg(const Arg&) = default;
Arg::Arg(Arg&&) noexcept = default;
Arg& Arg::operator=(const Arg&) = default;
Arg& Arg::operator=(Arg&&) noexcept = default;
Arg::~Arg() = default;

bool operator==(const Arg& a, const Arg& b) {
  if (a.value_.index() != b.value_.index()) return false;
  return std::visit([&](const auto& x) { return Equal{}(x, *b.get<std::decay_t<decltype(x)>>()); },
                    a.value_);
}

bool operator==(const Node& a, const Node& b) {
  return a.op == b.op && a.name == b.name && a.target == b.target && a.args == b.args &&
         a.kwargs == b.kwargs && a.state == b.state && same_type(a.type, b.type) &&
         same_meta(a.meta, b.meta) && a.marks == b.marks;
}

std::string_view to_string(Opcode op) {
  switch (op) {
    case Opcode::placeholder:
      return "placeholder";
    case Opcode::get_attr:
      return "get_attr";
    case Opcode::call_function:
      return "call_function";
    case Opcode::call_module:
      return "call_module";
    case Opcode::call_method:
      return "call_method";
    case Opcode::output:
      return "output";
  }
  return "?";
}

std::string_view to_string(StateKind kind) {
  switch (kind) {
    case StateKind::parameter:
      return "parameter";
    case StateKind::buffer:
      return "buffer";
    case StateKind::constant:
      return "constant";
  }
  return "?";
}

const Name& bound_state(const Node& node) {
  static const Name none;
  if (node.op == Opcode::get_attr) return node.target;
  if (node.op == Opcode::placeholder) return node.state;
  return none;
}

const Arg* argument(const Node& node, std::size_t position, std::string_view name) {
  if (position < node.args.size()) return &node.args[position];
  for (const auto& [key, value] : node.kwargs)
    if (key == name) return &value;
  return nullptr;
}

const Arg* parameter(const Module& module, std::string_view name) {
  for (const auto& [key, value] : module.parameters)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace refx
