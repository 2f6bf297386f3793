// SPDX-License-Identifier: Apache-2.0

#include "exec/lowering.h"

#include "refx/error.h"

namespace refx::exec {
namespace {

using Actual = book::Operation::Actual;

bool is_true(const Operand* o) {
  return o && o->kind == OperandKind::boolean && o->constant.toBool();
}

Operand as_list(const Operand& o) {
  // What is only known at run time is passed on: convert() makes a list of a number.
  bool is_list = o.kind == OperandKind::sequence || o.kind == OperandKind::unknown;
  return is_list ? o : Operand::nest(Operand::Form::list, {o});
}

Operand value_of(Compiler& out, const Actual& actual, const NamedOperands& names,
                 std::string_view path) {
  if (actual.source == Actual::Source::literal) return Compiler::constant(actual.literal);
  if (actual.source == Actual::Source::tensor) {
    std::string full = std::string(path) + "." + actual.name;
    return actual.optional && !out.has_state(full) ? Operand() : out.state(full);
  }
  const Operand* named = find_named(names, actual.name);
  REFX_CHECK(named, "lowering: there is no argument '" + actual.name + "'");
  return *named;
}

}  // namespace

const Operand* find_named(const NamedOperands& names, std::string_view name) {
  for (const auto& [n, value] : names) {
    if (n == name) return &value;
  }
  return nullptr;
}

NamedOperands bind_signature(const book::Signature& signature, const std::vector<Operand>& args,
                             const NamedOperands& kwargs) {
  const auto bound = book::bind(signature, args, kwargs);
  NamedOperands named;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const book::Signature::Formal& formal = signature.formals[i];
    named.emplace_back(formal.name,
                       bound[i] ? *bound[i] : Compiler::constant(*formal.default_value));
  }
  return named;
}

Operand lower(Compiler& out, const book::Operation& operation, const NamedOperands& names,
              std::string_view path) {
  std::vector<Operand> args;
  for (const Actual& actual : operation.actuals) {
    Operand value = value_of(out, actual, names, path);
    args.push_back(actual.as_list ? as_list(value) : std::move(value));
  }
  const bool in_place = is_true(find_named(names, "inplace"));
  return out.call(in_place ? book::in_place_twin(operation.target) : operation.target, args);
}

}  // namespace refx::exec
