#include "exec/resolve.h"

#include <limits>
#include <map>

#include "refx/error.h"
#include "util/did_you_mean.h"

namespace refx::exec {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::OperatorHandle;

bool has_out(const FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const Argument& a) { return a.is_out(); });
}

// Dimensions by name ("Dimname", "names_dim") look like strings to a schema; nobody exports them.
bool takes_dimension_names(const c10::OperatorName& op) {
  return op.overload_name.find("imname") != std::string::npos ||
         op.overload_name.rfind("names", 0) == 0;
}

using Index = std::map<std::string, std::vector<OperatorHandle>, std::less<>>;

// Sorted by overload name, so that the choice among equals never depends on registration order.
const Index& aten_index() {
  static const Index index = [] {
    Index all;
    auto& dispatcher = c10::Dispatcher::singleton();
    auto names = dispatcher.getAllOpNames();
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
      return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
    });
    for (const auto& name : names) {
      if (name.name.rfind("aten::", 0) != 0 || takes_dimension_names(name)) continue;
      auto op = dispatcher.findSchema(name);
      if (op && !has_out(op->schema())) all[name.name.substr(6)].push_back(*op);
    }
    return all;
  }();
  return index;
}

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

// torch's names for arguments that aten calls otherwise.
std::string_view aten_name(std::string_view name) {
  if (name == "input") return "self";
  if (name == "axis") return "dim";
  if (name == "keepdims") return "keepdim";
  return name;
}

bool is_ignored(std::string_view name, const Operand& value) {
  bool off = value.is_none() || (value.kind == Kind::boolean && !value.constant.toBool());
  return off && (name == "requires_grad" || name == "out" || name == "_stacklevel");
}

std::optional<std::size_t> position(const FunctionSchema& schema, std::string_view name) {
  const auto& arguments = schema.arguments();
  for (std::string_view n : {name, aten_name(name)}) {
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
  bool unknown = args[last].form == Operand::Form::slot && args[last].slot >= slots.size();
  Kind kind = unknown ? Kind::unknown : kind_of(args[last], slots);
  if (kind != Kind::integer && kind != Kind::tensor) return std::nullopt;
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
              " wants " + argument.real_type()->str() + ", got " + got);
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
    auto converted = convert(value, argument);
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
}

// The total distance between operands and schema, or -1.
int distance(const FunctionSchema& schema, const Assignment& assignment, const Values& slots) {
  int total = 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const Operand* operand = assignment[i];
    if (!operand) continue;
    Kind kind = kind_of(*operand, slots);
    if (kind == Kind::slice || kind == Kind::ellipsis) return -1;
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

std::optional<OperatorSpelling> parse_operator(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  bool prefixed = target.substr(0, kPrefix.size()) == kPrefix;
  if (prefixed) target.remove_prefix(kPrefix.size());
  auto first = target.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  auto second = target.find('.', first + 1);
  std::string space(target.substr(0, first));
  if (second == std::string_view::npos) {
    if (!prefixed && space != "aten" && space != "prims") return std::nullopt;
    return OperatorSpelling{space + "::" + std::string(target.substr(first + 1)), ""};
  }
  if (target.find('.', second + 1) != std::string_view::npos) return std::nullopt;
  std::string overload(target.substr(second + 1));
  return OperatorSpelling{space + "::" + std::string(target.substr(first + 1, second - first - 1)),
                          overload == "default" ? "" : overload};
}

OperatorHandle find_operator(std::string_view target) {
  auto spelling = parse_operator(target);
  if (!spelling) throw Error("'" + std::string(target) + "' is not an operator name");
  const auto& [name, overload] = *spelling;
  auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (op) return *op;
  std::string known = overload_list(name);
  if (!known.empty()) {
    throw Error("no overload '" + (overload.empty() ? "default" : overload) + "' of " + name +
                " in this torch; it has: " + known);
  }
  bool aten = name.rfind("aten::", 0) == 0;
  std::string near = aten ? nearest_operator(name.substr(6)) : "";
  throw Error("no operator " + name + " is registered" +
              (near.empty() ? aten ? std::string(".") : "; load the library that defines it"
                            : "; did you mean aten::" + near + "?"));
}

const std::vector<OperatorHandle>& overloads(const std::string& name) {
  static const std::vector<OperatorHandle> none;
  auto it = aten_index().find(name);
  return it == aten_index().end() ? none : it->second;
}

std::string nearest_operator(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [n, ops] : aten_index()) names.push_back(n);
  return nearest(name, names);
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
  for (const OperatorHandle& op : overloads(name)) {
    Assignment assignment;
    problem = assign(op.schema(), args, kwargs, slots, assignment);
    if (!problem.empty()) continue;
    bool by_name_only = args.size() > num_positional(op.schema()) && !assignment.is_gathered();
    if (by_name_only) continue;
    int d = distance(op.schema(), assignment, slots);
    if (d >= 0 && d < best_distance) {
      best = &op;
      best_distance = d;
    }
  }
  if (!best) {
    bool single = overloads(name).size() == 1 && !problem.empty();
    throw Error("no overload of aten::" + name + " takes (" + describe(args, kwargs, slots) + ")" +
                (single ? ": " + problem : ""));
  }
  Assignment assignment;
  assign(best->schema(), args, kwargs, slots, assignment);
  give_operator(instruction, *best, assignment);
}

}  // namespace refx::exec
