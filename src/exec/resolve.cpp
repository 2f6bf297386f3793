// SPDX-License-Identifier: Apache-2.0

#include "exec/resolve.h"

#include <limits>

#include "book/allowed_ops.h"
#include "book/schemas.h"
#include "refx/error.h"

namespace refx::exec {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::OperatorHandle;

std::string overload_list(const std::string& name) {
  std::string out;
  for (const auto& n : c10::Dispatcher::singleton().getAllOpNames()) {
    if (n.name == name)
      out += (out.empty() ? "" : ", ") + (n.overload_name.empty() ? "default" : n.overload_name);
  }
  return out;
}

// One operand, or none, for each argument of a schema.
struct Assignment {
  std::vector<const Operand*> of;
  Operand packed;  // x.view(2, 3): the trailing positions as one list
  std::size_t packed_at = std::numeric_limits<std::size_t>::max();

  bool is_gathered() const { return !packed.items.empty(); }
  const Operand* operator[](std::size_t i) const { return i == packed_at ? &packed : of[i]; }
};

bool is_ignored(std::string_view name, const Operand& value) {
  bool off = value.is_none() || (value.kind == OperandKind::boolean && !value.constant.toBool());
  // Arguments of functions of torch that no operator has. With these values they change nothing.
  return off && (name == "requires_grad" || name == "out" || name == "_stacklevel");
}

std::optional<std::size_t> position(const FunctionSchema& schema, std::string_view name) {
  const auto& arguments = schema.arguments();
  // An argument may have torch's name or the schema's: input or self, axis or dim.
  for (std::string_view n : {name, book::aten_argument(name)}) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() == n) return i;
    }
  }
  return std::nullopt;
}

bool takes_list(const Argument& a) {
  const c10::Type* type = a.real_type().get();
  if (auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType().get();
  return type->kind() == c10::TypeKind::ListType;
}

std::size_t num_positional(const FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  std::size_t n = 0;
  while (n < arguments.size() && !arguments[n].kwarg_only()) ++n;
  return n;
}

// Python lets the last list be spelled out: x.view(2, 3), torch.ones(2, 3), torch.einsum(eq, a, b).
// The position from which arguments are to be gathered; no value if none are.
std::optional<std::size_t> gather_from(const FunctionSchema& schema,
                                       const std::vector<Operand>& args, const Values& slots) {
  const auto& arguments = schema.arguments();
  std::size_t positional = num_positional(schema);
  if (positional == 0 || args.size() < positional) return std::nullopt;
  std::size_t last = positional - 1;
  if (!takes_list(arguments[last])) return std::nullopt;
  // Without slots (at compile time) the value of a slot is not known yet.
  bool unknown = args[last].form == Operand::Form::slot && args[last].slot >= slots.size();
  OperandKind kind = unknown ? OperandKind::unknown : kind_of(args[last], slots);
  if (kind != OperandKind::integer && kind != OperandKind::tensor) return std::nullopt;
  // One number for a list of fixed length means all of its elements, as in stride=2.
  if (args.size() == positional && arguments[last].N()) return std::nullopt;
  return last;
}

// Why the operands do not fit the schema; empty if they do.
std::string assign(const FunctionSchema& schema, const std::vector<Operand>& args,
                   const NamedOperands& kwargs, const Values& slots, Assignment& out) {
  const auto& arguments = schema.arguments();
  out.of.assign(arguments.size(), nullptr);
  std::size_t count = args.size();
  if (auto first = gather_from(schema, args, slots)) {
    out.packed = Operand::nest(Operand::Form::tuple, {args.begin() + *first, args.end()});
    out.packed_at = *first;
    out.of[*first] = &out.packed;
    count = *first;
  }
  if (count > arguments.size()) return "too many arguments";
  for (std::size_t i = 0; i < count; ++i) out.of[i] = &args[i];
  for (const auto& [name, value] : kwargs) {
    auto at = position(schema, name);
    if (!at) {
      if (is_ignored(name, value)) continue;
      return "no argument '" + name + "'";
    }
    if (out.of[*at]) return "argument '" + name + "' is given twice";
    out.of[*at] = &value;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!out.of[i] && !arguments[i].default_value()) {
      return "argument '" + arguments[i].name() + "' is missing";
    }
  }
  return "";
}

[[noreturn]] void throw_unfit(const Argument& argument, const FunctionSchema& schema,
                              const std::string& got) {
  throw Error("argument '" + argument.name() + "' of " + toString(schema.operator_name()) +
              " expects " + argument.real_type()->str() + ", got " + got);
}

Input make_input(const Argument& argument, const Operand* operand, const FunctionSchema& schema) {
  Input input;
  input.argument = &argument;
  input.want = want_of(argument);
  if (!operand) {
    input.constant = *argument.default_value();
  } else if (operand->form == Operand::Form::slot) {
    input.from = Input::From::slot;
    input.slot = operand->slot;
  } else if (operand->has_slots()) {
    input.from = Input::From::nest;
    input.nest = *operand;
  } else {
    c10::IValue value = evaluate(*operand, {});
    // A number is no dtype, although an IValue keeps one as such.
    const bool number = operand->kind == OperandKind::integer && takes_enum(argument);
    auto converted = number ? std::nullopt : convert(value, argument);
    if (!converted) throw_unfit(argument, schema, value.tagKind());
    input.constant = std::move(*converted);
  }
  return input;
}

void give_operator(Instruction& instruction, const OperatorHandle& op,
                   const Assignment& assignment) {
  const FunctionSchema& schema = op.schema();
  instruction.op = op;
  instruction.native = nullptr;
  instruction.inputs.clear();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    instruction.inputs.push_back(make_input(schema.arguments()[i], assignment[i], schema));
  }
  instruction.writes = schema.is_mutable();
  instruction.guard = guard_of(schema.operator_name());
}

// The total distance between operands and schema, or -1.
int distance(const FunctionSchema& schema, const Assignment& assignment, const Values& slots) {
  int total = 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const Operand* operand = assignment[i];
    if (!operand) continue;
    OperandKind kind = kind_of(*operand, slots);
    // Only indexing takes these, and it is no operator.
    if (kind == OperandKind::slice || kind == OperandKind::ellipsis) return -1;
    int m = mismatch(evaluate(*operand, slots), kind, schema.arguments()[i]);
    if (m < 0) return -1;
    total += m;
  }
  // A list gathered from separate arguments is a last resort: x.max(1, 2) has a better reading.
  return total + (assignment.is_gathered() ? 1 : 0);
}

std::string describe(const std::vector<Operand>& args, const NamedOperands& kwargs,
                     const Values& slots) {
  std::string out;
  auto add = [&](const Operand& o) {
    if (!out.empty()) out += ", ";
    return o.form == Operand::Form::slice || o.form == Operand::Form::ellipsis
               ? "slice"
               : evaluate(o, slots).tagKind();
  };
  for (const Operand& o : args) out += add(o);
  for (const auto& [name, o] : kwargs) {
    std::string kind = add(o);
    out += name + "=" + kind;
  }
  return out;
}

}  // namespace

OperatorHandle find_operator(std::string_view target) {
  const book::Target parsed = book::parse_target(target);
  if (!parsed.is_op() && parsed.kind != book::Target::Kind::packet)
    throw Error("'" + std::string(target) + "' is not an operator name");
  const std::string name = parsed.qualified_name(), overload = parsed.overload_name();
  auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (op) return *op;
  std::string known = overload_list(name);
  if (!known.empty()) {
    throw Error("no overload '" + (overload.empty() ? "default" : overload) + "' of " + name +
                " in this torch; it has: " + known);
  }
  bool aten = parsed.is_aten();
  std::string near = aten ? book::nearest_operator(parsed.name) : "";
  throw Error("no operator " + name + " is registered" +
              (near.empty() ? aten ? std::string(".") : "; load the library that defines it"
                            : "; did you mean aten::" + near + "?"));
}

void bind_operator(Instruction& instruction, const OperatorHandle& op,
                   const std::vector<Operand>& args, const NamedOperands& kwargs) {
  Assignment assignment;
  std::string problem = assign(op.schema(), args, kwargs, {}, assignment);
  if (!problem.empty()) {
    throw Error(problem + "; the schema is " + toString(op.schema()));
  }
  give_operator(instruction, op, assignment);
}

void bind_best_overload(Instruction& instruction, const std::string& name,
                        const std::vector<Operand>& args, const NamedOperands& kwargs,
                        const Values& slots) {
  const OperatorHandle* best = nullptr;
  int best_distance = std::numeric_limits<int>::max();
  std::string problem;
  for (const OperatorHandle& op : book::overloads(name)) {
    // A model from a file may call only the overloads in the table of allowed operators.
    if (instruction.by_table && !book::is_allowed(name, op.operator_name().overload_name)) continue;
    Assignment assignment;
    problem = assign(op.schema(), args, kwargs, slots, assignment);
    if (!problem.empty()) continue;
    // Python does not let a positional argument reach a keyword-only one.
    bool by_name_only = args.size() > num_positional(op.schema()) && !assignment.is_gathered();
    if (by_name_only) continue;
    int d = distance(op.schema(), assignment, slots);
    // The first of several equally near overloads wins, in the order of their names.
    if (d >= 0 && d < best_distance) {
      best = &op;
      best_distance = d;
    }
  }
  if (!best) {
    // With several overloads, the problem of the last one tried would mislead.
    bool single = book::overloads(name).size() == 1 && !problem.empty();
    throw Error("no overload of aten::" + name + " takes (" + describe(args, kwargs, slots) + ")" +
                (single ? ": " + problem : ""));
  }
  Assignment assignment;
  assign(best->schema(), args, kwargs, slots, assignment);
  give_operator(instruction, *best, assignment);
}

}  // namespace refx::exec
