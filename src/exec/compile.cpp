// SPDX-License-Identifier: Apache-2.0

#include "exec/compile.h"

#include <ATen/core/Tensor.h>

#include "book/casts.h"
#include "book/higher_order.h"
#include "book/schemas.h"
#include "exec/control_flow.h"
#include "exec/grouped_mm.h"
#include "exec/lowering.h"
#include "exec/own_state.h"
#include "exec/python_ops.h"
#include "exec/resolve.h"
#include "graph_json/subgraph.h"
#include "ir/content.h"
#include "refx/error.h"
#include "refx/hint.h"
#include "util/first_line.h"

namespace refx::exec {
namespace {

using c10::IValue;

void bind_overloaded(Instruction& instruction, const Values& slots) {
  bind_best_overload(instruction, instruction.name, instruction.args, instruction.kwargs, slots);
}

Operand convert_arg(const Arg& arg, const std::unordered_map<NodeId, Operand>* values);

Operand convert_nest(Operand::Form form, const Args& args,
                     const std::unordered_map<NodeId, Operand>* values) {
  std::vector<Operand> items;
  for (const Arg& a : args) items.push_back(convert_arg(a, values));
  return Operand::nest(form, std::move(items));
}

struct ToOperand {
  const std::unordered_map<NodeId, Operand>* values;

  Operand operator()(None) const { return {}; }
  Operand operator()(bool v) const { return v; }
  Operand operator()(std::int64_t v) const { return v; }
  Operand operator()(double v) const { return v; }
  Operand operator()(std::complex<double> v) const {
    return {IValue(c10::complex<double>(v)), OperandKind::complex};
  }
  Operand operator()(const std::string& v) const { return {IValue(v), OperandKind::string}; }
  Operand operator()(c10::ScalarType v) const { return {IValue(v), OperandKind::dtype}; }
  Operand operator()(c10::Device v) const { return {IValue(v), OperandKind::device}; }
  Operand operator()(c10::Layout v) const { return {IValue(v), OperandKind::layout}; }
  Operand operator()(c10::MemoryFormat v) const { return {IValue(v), OperandKind::memory_format}; }
  Operand operator()(NodeId v) const {
    REFX_CHECK(values && values->count(v), "a node is used before it is defined");
    return values->at(v);
  }
  Operand operator()(const SymInt& v) const {
    throw Error("the symbol in '" + v.expr + "' is not bound: no node computes it");
  }
  Operand operator()(Ellipsis) const { return Operand::nest(Operand::Form::ellipsis, {}); }
  Operand operator()(const Raw&) const {
    throw Error(
        "an argument is a subgraph or a custom object of a kind that the executor cannot run");
  }
  Operand operator()(const List& v) const {
    return convert_nest(Operand::Form::list, v.items, values);
  }
  Operand operator()(const Tuple& v) const {
    return convert_nest(Operand::Form::tuple, v.items, values);
  }
  Operand operator()(const Slice& v) const {
    Args parts = v.parts;
    // slice(stop) has one part; the executor reads start, stop and step.
    parts.resize(3);
    return convert_nest(Operand::Form::slice, parts, values);
  }
  Operand operator()(const Dict& v) const {
    Args flat;
    for (const auto& [key, value] : v.items) {
      flat.push_back(key);
      flat.push_back(value);
    }
    return convert_nest(Operand::Form::dict, flat, values);
  }
};

Operand convert_arg(const Arg& arg, const std::unordered_map<NodeId, Operand>* values) {
  return std::visit(ToOperand{values}, arg.value());
}

std::string where(const Node& node) {
  return "node '" + node.name + "' (" + std::string(to_string(node.op)) + " " + node.target + "): ";
}

}  // namespace

// ---- emitting ----------------------------------------------------------------------------------

Slot Compiler::new_slot() {
  program_.slots.emplace_back();
  return static_cast<Slot>(program_.slots.size() - 1);
}

Instruction& Compiler::emit() {
  Instruction& instruction = program_.code.emplace_back();
  instruction.node = scope_ + node_->name;
  instruction.autocast = autocast_;
  instruction.target = node_->op == Opcode::call_module
                           ? model_.modules()[model_.modules().find(node_->target)].type
                           : std::string(node_->target);
  return instruction;
}

Operand Compiler::result_of(Instruction& instruction) {
  instruction.result = new_slot();
  std::vector<Operand> items = {Operand::of_slot(instruction.result)};
  for (std::uint32_t i = 1; i < instruction.results; ++i)
    items.push_back(Operand::of_slot(new_slot()));
  return items.size() == 1 ? items[0] : Operand::nest(Operand::Form::tuple, std::move(items));
}

Operand Compiler::call(std::string_view target, const std::vector<Operand>& args,
                       const NamedOperands& kwargs) {
  const book::Target parts = book::parse_target(target);
  policy_.require(parts.space, parts.name, parts.overload_name());
  c10::OperatorHandle op = find_operator(target);
  Instruction& instruction = emit();
  instruction.by_table = policy_.is_by_table(parts.space, parts.name);
  bind_operator(instruction, op, args, kwargs);
  instruction.results = std::max<std::uint32_t>(1, op.schema().returns().size());
  return result_of(instruction);
}

Operand Compiler::call_native(Native native, std::vector<Operand> args) {
  Instruction& instruction = emit();
  instruction.native = native;
  instruction.args = std::move(args);
  return result_of(instruction);
}

Operand Compiler::call_late(Bind bind, std::string name, std::vector<Operand> args,
                            NamedOperands kwargs) {
  Instruction& instruction = emit();
  instruction.bind = bind;
  instruction.name = std::move(name);
  instruction.by_table = policy_.is_by_table("aten", instruction.name);
  instruction.args = std::move(args);
  instruction.kwargs = std::move(kwargs);
  return result_of(instruction);
}

Operand Compiler::call_overloaded(std::string name, std::vector<Operand> args,
                                  NamedOperands kwargs) {
  policy_.require("aten", name, std::nullopt);
  if (book::overloads(name).empty()) {
    std::string near = book::nearest_operator(name);
    throw Error("no operator aten::" + name +
                (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  return call_late(bind_overloaded, std::move(name), std::move(args), std::move(kwargs));
}

Operand Compiler::state(std::string_view name) {
  auto [it, is_new] = state_slots_.try_emplace(std::string(name), 0);
  if (is_new) {
    StateId id = model_.state().find(name);
    if (!id) throw Error("the model has no state entry '" + std::string(name) + "'");
    it->second = new_slot();
    require_content(model_.state().tensor(id));
    // The tensor is shared with the model; own_state.cpp copies those that a run may write.
    program_.slots[it->second] = at::Tensor(model_.state().tensor(id));
    program_.state_slots.push_back(it->second);
  }
  return Operand::of_slot(it->second, OperandKind::tensor);
}

Operand Compiler::constant(const Arg& arg) { return convert_arg(arg, nullptr); }
Operand Compiler::operand(const Arg& arg) const { return convert_arg(arg, &values_); }

std::vector<Operand> Compiler::operands(const Args& args) const {
  std::vector<Operand> out;
  for (const Arg& a : args) out.push_back(operand(a));
  return out;
}

NamedOperands Compiler::operands(const Kwargs& kwargs) const {
  NamedOperands out;
  for (const auto& [name, a] : kwargs) out.emplace_back(name, operand(a));
  return out;
}

// ---- nodes -------------------------------------------------------------------------------------

namespace {

// getitem of a known tuple by a known position: no instruction at all.
const Operand* known_item(const std::vector<Operand>& args) {
  if (args.size() != 2 || args[0].form != Operand::Form::tuple) return nullptr;
  if (args[1].form != Operand::Form::constant || !args[1].constant.isInt()) return nullptr;
  auto size = static_cast<std::int64_t>(args[0].items.size());
  std::int64_t i = args[1].constant.toInt();
  if (i < 0) i += size;
  return i >= 0 && i < size ? &args[0].items[static_cast<std::size_t>(i)] : nullptr;
}

// What getattr yields, where IValue alone would not tell.
OperandKind attribute_kind(const std::vector<Operand>& args) {
  if (args.size() < 2 || args[1].kind != OperandKind::string) return OperandKind::unknown;
  const std::string& name = args[1].constant.toStringRef();
  return name == "dtype"    ? OperandKind::dtype
         : name == "layout" ? OperandKind::layout
                            : OperandKind::unknown;
}

}  // namespace

// A region without gradients or under autocast runs where it stands: its nodes become instructions
// of this program. Branches and loops are programs of their own.
Operand Compiler::compile_higher_order(const Node& node) {
  using Construct = book::HigherOrder::Construct;
  const auto call = book::higher_order(node);
  if (!call) throw Error("the executor does not know this higher-order operator");
  if (call->kind == Construct::wrap) {
    const Subgraph body = read_subgraph(node.args[call->subgraphs[0]]);
    const auto inputs = operands(call->fixed);
    auto autocast = std::exchange(autocast_, call->autocast ? call->autocast : autocast_);
    auto scope = std::exchange(scope_, scope_ + node.name + "/");
    Operand result = compile_region(body.model, inputs);
    autocast_ = autocast;
    scope_ = std::move(scope);
    return body.single && result.items.size() == 1 ? result.items[0] : result;
  }
  auto flow = std::make_shared<ControlFlow>();
  flow->kind = call->kind;
  for (std::size_t at : call->subgraphs) {
    const Subgraph body = read_subgraph(node.args[at]);
    Compiler compiler(body.model, policy_);
    compiler.autocast_ = autocast_;
    compiler.scope_ = scope_ + node.name + "/" + body.name + "/";
    Program program = compiler.compile();
    if (body.single && program.output.items.size() == 1)
      program.output = Operand(program.output.items[0]);
    flow->bodies.push_back({std::move(program), {}, body.single});
  }
  const auto tuple = [&](const Args& args) {
    return Operand::nest(Operand::Form::tuple, operands(args));
  };
  Instruction& instruction = emit();
  instruction.control_flow = std::move(flow);
  instruction.args = {call->kind == Construct::cond ? operand(node.args[0]) : Operand(),
                      tuple(call->carried), tuple(call->sliced), tuple(call->fixed)};
  return result_of(instruction);
}

Operand Compiler::compile_region(const Model& body, const std::vector<Operand>& inputs) {
  auto outer_values = std::exchange(values_, {});
  const Node* outer_node = node_;
  Operand result;
  std::size_t next = 0;
  for (NodeId id : body.graph()) {
    const Node& node = body.graph()[id];
    node_ = &node;
    if (node.op == Opcode::placeholder) {
      if (next == inputs.size()) throw Error("a subgraph takes more inputs than it is given");
      values_[id] = inputs[next++];
    } else if (node.op == Opcode::output) {
      result = operand(node.args[0]);
    } else {
      values_[id] = compile_node(id, node);
    }
  }
  values_ = std::move(outer_values);
  node_ = outer_node;
  return result;
}

Operand Compiler::compile_function(const Node& node) {
  using TargetKind = book::Target::Kind;
  if (book::is_higher_order(node)) return compile_higher_order(node);
  const book::Target target = book::parse_target(node.target);
  auto args = operands(node.args);
  auto kwargs = operands(node.kwargs);
  // Before operators: torch.sym_int and math.floor are functions of Python, not of the dispatcher.
  if (const PythonFunction* f = find_builtin(target)) {
    for (auto& [name, value] : kwargs) args.push_back(std::move(value));
    OperandKind kind = target.name == "getattr" ? attribute_kind(args) : OperandKind::unknown;
    Operand result = call_native(f->native, std::move(args));
    result.kind = kind;
    return result;
  }
  if (target.kind == TargetKind::python && target.space == "operator") {
    const PythonFunction* f = find_operator_function(target.name);
    if (!f) throw Error("the executor does not know Python's operator." + std::string(target.name));
    if (const Operand* item = target.name == "getitem" ? known_item(args) : nullptr) return *item;
    if (f->native) return call_native(f->native, std::move(args));
    return call_late(f->bind, std::string(target.name), std::move(args), {});
  }
  if (target.kind == TargetKind::torch || target.kind == TargetKind::functional)
    return compile_torch_function(target, std::move(args), std::move(kwargs));
  // Before the operator itself, which a process without transformers does not have.
  if (auto lowered = lower_grouped_mm(*this, node.target, args, kwargs)) return *lowered;
  if (target.is_op() || target.kind == TargetKind::packet) return call(node.target, args, kwargs);
  throw Error(
      "the executor does not know this function; it runs operators of the dispatcher "
      "(\"aten.add.Tensor\"), torch.*, torch.nn.functional.*, operator.* and math.*");
}

Operand Compiler::compile_torch_function(const book::Target& target, std::vector<Operand> args,
                                         NamedOperands kwargs) {
  if (target.kind == book::Target::Kind::functional) {
    if (auto lowered = lower_functional(*this, target.name, args, kwargs)) return *lowered;
  }
  if (target.space == "torch.Tensor") {
    if (const PythonFunction* f = find_method(target.name); f && f->native) {
      return call_native(f->native, std::move(args));
    }
  }
  return call_overloaded(book::operator_of(target), std::move(args), std::move(kwargs));
}

Operand Compiler::compile_method(const Node& node) {
  auto args = operands(node.args);
  auto kwargs = operands(node.kwargs);
  if (const PythonFunction* f = find_method(node.target)) {
    if (f->bind) return call_late(f->bind, node.target, std::move(args), std::move(kwargs));
    for (auto& [name, value] : kwargs) args.push_back(std::move(value));
    return call_native(f->native, std::move(args));
  }
  if (args.empty()) throw Error("a method expects an object to be called on");
  if (auto dtype = book::dtype_of_cast_method(node.target)) {
    return call("aten.to.dtype", {args[0], Operand(IValue(*dtype), OperandKind::dtype)}, kwargs);
  }
  // x.cpu() and x.cuda() change the device and keep the dtype.
  if (node.target == "cpu" || node.target == "cuda") {
    Operand device(IValue(c10::Device(node.target)), OperandKind::device);
    return call("aten.to.dtype_layout", {args[0]}, {{"device", device}});
  }
  if (node.target == "type" && args.size() > 1) {
    return call("aten.to.dtype", {args[0], args[1]});
  }
  return call_overloaded(node.target, std::move(args), std::move(kwargs));
}

Operand Compiler::compile_module(const Node& node) {
  ModuleId id = model_.modules().find(node.target);
  if (!id) throw Error("the model has no module '" + node.target + "'");
  return lower_layer(*this, model_.modules()[id], operands(node.args), operands(node.kwargs));
}

Operand Compiler::user_input(const Node& node) {
  Slot slot = new_slot();
  program_.user_inputs.push_back({node.name, slot});
  return Operand::of_slot(slot);
}

Operand Compiler::compile_node(NodeId, const Node& node) {
  switch (node.op) {
    case Opcode::placeholder:
      return node.state.empty() ? user_input(node) : state(node.state);
    case Opcode::get_attr:
      return state(bound_state(node));
    case Opcode::call_function:
      return compile_function(node);
    case Opcode::call_method:
      return compile_method(node);
    case Opcode::call_module:
      return compile_module(node);
    case Opcode::output:
      program_.output = node.args.empty() ? Operand() : operand(node.args[0]);
      return {};
  }
  REFX_CHECK(false, "unknown opcode");
}

void Compiler::compile_mutations() {
  for (const Mutation& m : model_.mutations()) {
    if (model_.state().find(m.target)) {
      program_.mutations.push_back({m.output, state(m.target).slot});
      continue;
    }
    NodeId placeholder = model_.graph().find(m.target);
    if (!placeholder || model_.graph()[placeholder].op != Opcode::placeholder) {
      throw Error("output " + std::to_string(m.output) + " is to be written into '" + m.target +
                  "', which is neither a state entry nor an input");
    }
    program_.mutations.push_back({m.output, values_.at(placeholder).slot});
  }
}

Program Compiler::compile() {
  for (NodeId id : model_.graph()) {
    const Node& node = model_.graph()[id];
    node_ = &node;
    try {
      values_[id] = compile_node(id, node);
    } catch (const HintedError& e) {
      throw HintedError(where(node) + e.problem(), e.hint());
    } catch (const Error& e) {
      throw Error(where(node) + e.what());
    } catch (const c10::Error& e) {
      throw Error(where(node) + first_line(e.what_without_backtrace()));
    }
  }
  model_.graph().output();
  compile_mutations();
  find_own_state(model_, state_slots_, program_);
  find_last_uses(program_);
  for (Slot s = 0; s < program_.slots.size(); ++s) {
    if (program_.slots[s].isNone()) program_.transient.push_back(s);
  }
  program_.revision = model_.revision();
  return std::move(program_);
}

}  // namespace refx::exec
