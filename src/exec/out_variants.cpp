// SPDX-License-Identifier: Apache-2.0

#include "exec/out_variants.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "book/facts.h"
#include "exec/resolve.h"

namespace refx::exec {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::OperatorHandle;

c10::DispatchKey backend_of(const at::Tensor& t) {
  return c10::computeDispatchKey({}, {}, t.device());
}

std::vector<const Argument*> plain_arguments(const FunctionSchema& schema) {
  std::vector<const Argument*> out;
  for (const Argument& a : schema.arguments()) {
    if (!a.is_out()) out.push_back(&a);
  }
  return out;
}

bool is_kind(const Argument& a, c10::TypeKind kind) { return a.real_type()->kind() == kind; }

// The same arguments, up to a number where the out variant has only a tensor.
bool same_arguments(const std::vector<const Argument*>& a, const std::vector<const Argument*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto* x, auto* y) {
    bool wrapped = is_kind(*x, c10::TypeKind::NumberType) && is_kind(*y, c10::TypeKind::TensorType);
    return x->name() == y->name() && (wrapped || *x->real_type() == *y->real_type());
  });
}

// The out variants that torch generates for operators without one compute a new tensor and copy it;
// they are composite, so a kernel for the backend tells the real ones.
std::optional<OperatorHandle> real_out_variant(const OperatorHandle& op, c10::DispatchKey backend) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static const auto names = [&] {
    std::map<std::string, std::vector<c10::OperatorName>> all;
    for (auto& n : dispatcher.getAllOpNames()) all[n.name].push_back(n);
    return all;
  }();
  // An out variant has the arguments of the operator in their order, and one more for each result.
  auto wanted = plain_arguments(op.schema());
  auto it = names.find(op.operator_name().name);
  if (it == names.end()) return std::nullopt;
  for (const auto& name : it->second) {
    auto candidate = dispatcher.findSchema(name);
    if (!candidate || !candidate->hasKernelForDispatchKey(backend)) continue;
    const FunctionSchema& schema = candidate->schema();
    auto plain = plain_arguments(schema);
    bool outs = schema.arguments().size() - plain.size() == op.schema().returns().size();
    if (outs && schema.arguments().size() > plain.size() && same_arguments(wanted, plain)) {
      return candidate;
    }
  }
  return std::nullopt;
}

Operand constant(c10::IValue value) { return Operand(std::move(value), OperandKind::other); }

Operand int_list(c10::IntArrayRef values) {
  return constant(c10::IValue(std::vector<std::int64_t>(values.begin(), values.end())));
}

bool is_none(const Input& input) {
  return input.from == Input::From::constant && input.constant.isNone();
}

bool is_aten(const Instruction& i, std::string_view name, std::string_view overload = "*") {
  const auto& op = i.op->operator_name();
  return op.name == name && (overload == "*" || op.overload_name == overload);
}

}  // namespace

Slot OutWriter::new_slot() {
  slots_.emplace_back();
  return static_cast<Slot>(slots_.size() - 1);
}

std::optional<Slot> OutWriter::tensor_slot(const Instruction& i, std::size_t input) const {
  const Input& in = i.inputs[input];
  bool is_tensor = in.from == Input::From::slot && slots_[in.slot].isTensor();
  return is_tensor ? std::optional(in.slot) : std::nullopt;
}

Instruction& OutWriter::emit(OutCode& out, const Instruction& i, const char* target,
                             const std::vector<Operand>& args) {
  Instruction& made = out.code.emplace_back();
  made.node = i.node;
  made.target = i.target;
  bind_operator(made, find_operator(target), args, {});
  made.writes = false;  // into memory of ours, which nobody watches
  made.results = 0;
  return made;
}

// A view, also taken now, so that the code after it can look at the result.
Slot OutWriter::view(OutCode& out, const Instruction& i, const char* target, Slot of,
                     std::vector<Operand> args) {
  args.insert(args.begin(), Operand::of_slot(of));
  Instruction& made = emit(out, i, target, args);
  made.result = new_slot();
  made.results = 1;
  Stack stack;
  execute(made, slots_, stack);
  return made.result;
}

OutCode OutWriter::write(const Instruction& i) {
  if (!i.op || i.op->schema().is_mutable() ||
      book::has(i.op->operator_name().name, book::kWritesSilently))
    return {};
  // These are composite operators, which have no out variant of their own: each function emits the
  // calls that the operator itself makes, so that the bits stay the same.
  if (is_aten(i, "aten::linear")) return linear(i);
  if (is_aten(i, "aten::matmul", "")) return matmul(i);
  if (is_aten(i, "aten::softmax", "int")) return softmax(i, "aten._softmax.out");
  if (is_aten(i, "aten::log_softmax", "int")) return softmax(i, "aten._log_softmax.out");
  if (is_aten(i, "aten::embedding")) return embedding(i);
  if (is_aten(i, "aten::rms_norm")) return rms_norm(i);
  for (const char* name : {"aten::clone", "aten::contiguous", "aten::reshape", "aten::to",
                           "aten::_to_copy", "aten::flatten", "aten::type_as"}) {
    if (is_aten(i, name)) return copy(i);
  }
  return generic(i);
}

OutCode OutWriter::generic(const Instruction& i) {
  OutCode out;
  auto backend = backend_of(tensor(i.result));
  auto op = real_out_variant(*i.op, backend);
  // relu has no out variant; its kernel is clamp_min with 0.
  if (!op && is_aten(i, "aten::relu")) {
    emit(out, i, "aten.clamp_min.out",
         {Operand::of_slot(i.inputs[0].slot), 0, Operand::of_slot(i.result)});
    return out;
  }
  if (!op) return {};
  Instruction& made = out.code.emplace_back(i);
  // The overload is fixed now: a plan is made for inputs of these kinds.
  made.bind = nullptr;
  made.args.clear();
  made.kwargs.clear();
  made.op = *op;
  made.results = 0;
  made.writes = false;
  made.last_uses.clear();
  made.release.clear();
  const auto& arguments = op->schema().arguments();
  std::vector<Input> inputs;
  std::size_t plain = 0, results = 0;
  for (const Argument& a : arguments) {
    Input input;
    if (a.is_out()) {
      input.from = Input::From::slot;
      input.slot = i.result + static_cast<Slot>(results++);
    } else {
      input = made.inputs[plain++];
      // The planner runs both calls on the same inputs, so neither may take them.
      input.take = false;
      bool number = input.from == Input::From::constant && input.constant.isScalar();
      if (number && is_kind(a, c10::TypeKind::TensorType)) {
        input.constant = at::native::wrapped_scalar_tensor(input.constant.toScalar());
      }
    }
    input.argument = &a;
    input.want = want_of(a);
    inputs.push_back(std::move(input));
  }
  made.inputs = std::move(inputs);
  return out;
}

// at::linear flattens a contiguous input and calls addmm, or mm without a bias.
OutCode OutWriter::linear(const Instruction& i) {
  OutCode out;
  auto x = tensor_slot(i, 0), w = tensor_slot(i, 1);
  if (!x || !w || tensor(*x).dim() < 2 || tensor(*w).dim() != 2) return {};
  // For other strides at::linear makes other calls.
  if (!tensor(*x).is_contiguous() || !tensor(i.result).is_contiguous()) return {};
  Slot wt = view(out, i, "aten.t.default", *w, {});
  Slot rows = *x, result = i.result;
  if (tensor(*x).dim() > 2) {
    rows = view(out, i, "aten.view.default", *x, {int_list({-1, tensor(*x).size(-1)})});
    result =
        view(out, i, "aten.view.default", i.result, {int_list({-1, tensor(i.result).size(-1)})});
  }
  auto slot = [](Slot s) { return Operand::of_slot(s); };
  if (is_none(i.inputs[2])) {
    emit(out, i, "aten.mm.out", {slot(rows), slot(wt), slot(result)});
  } else {
    auto bias = tensor_slot(i, 2);
    if (!bias) return {};
    emit(out, i, "aten.addmm.out", {slot(*bias), slot(rows), slot(wt), 1, 1, slot(result)});
  }
  return out;
}

// The operand of a batched product with its batch dimensions made one; a copy where no view can.
Slot OutWriter::as_batch(OutCode& out, const Instruction& i, Slot of) {
  at::Tensor x = tensor(of);
  if (x.dim() == 3) return of;
  std::vector<std::int64_t> shape = {-1, x.size(-2), x.size(-1)};
  at::Tensor batch = x.reshape(shape);
  if (batch.is_alias_of(x)) return view(out, i, "aten.reshape.default", of, {int_list(shape)});
  Slot scratch = new_slot();
  slots_[scratch] = at::empty_like(x, at::MemoryFormat::Contiguous);
  out.scratch.push_back(scratch);
  emit(out, i, "aten.copy_.default", {Operand::of_slot(scratch), Operand::of_slot(of)});
  return view(out, i, "aten.view.default", scratch, {int_list(shape)});
}

OutCode OutWriter::matmul(const Instruction& i) {
  OutCode out;
  auto a = tensor_slot(i, 0), b = tensor_slot(i, 1);
  if (!a || !b || !tensor(i.result).is_contiguous()) return {};
  auto slot = [](Slot s) { return Operand::of_slot(s); };
  std::int64_t dims = tensor(*a).dim();
  // at::matmul calls mm for two matrices, and bmm for two batches of the same sizes. It folds or
  // expands all other batches, and is left alone there.
  if (dims == 2 && tensor(*b).dim() == 2) {
    emit(out, i, "aten.mm.out", {slot(*a), slot(*b), slot(i.result)});
    return out;
  }
  bool same_batch = dims >= 3 && tensor(*b).dim() == dims &&
                    tensor(*a).sizes().slice(0, dims - 2) == tensor(*b).sizes().slice(0, dims - 2);
  if (!same_batch) return {};
  Slot left = as_batch(out, i, *a), right = as_batch(out, i, *b),
       result = as_batch(out, i, i.result);
  emit(out, i, "aten.bmm.out", {slot(left), slot(right), slot(result)});
  return out;
}

OutCode OutWriter::softmax(const Instruction& i, const char* target) {
  OutCode out;
  auto x = tensor_slot(i, 0);
  if (!x || i.inputs[1].from != Input::From::constant || !is_none(i.inputs[2])) return {};
  emit(out, i, target,
       {Operand::of_slot(*x), i.inputs[1].constant.toInt(), false, Operand::of_slot(i.result)});
  return out;
}

OutCode OutWriter::embedding(const Instruction& i) {
  OutCode out;
  auto weight = tensor_slot(i, 0), indices = tensor_slot(i, 1);
  if (!weight || !indices || !tensor(*indices).is_contiguous()) return {};
  // at::embedding is an index_select of the rows, with the indices flattened.
  if (!tensor(i.result).is_contiguous()) return {};
  Slot flat = *indices, result = i.result;
  if (tensor(*indices).dim() != 1) {
    flat = view(out, i, "aten.view.default", *indices, {int_list({-1})});
    result =
        view(out, i, "aten.view.default", i.result, {int_list({-1, tensor(i.result).size(-1)})});
  }
  emit(out, i, "aten.index_select.out",
       {Operand::of_slot(*weight), 0, Operand::of_slot(flat), Operand::of_slot(result)});
  return out;
}

// On a CPU at::rms_norm is composite: these calls, each with new memory. Types narrower than
// float32 are computed in it.
OutCode OutWriter::rms_norm(const Instruction& i) {
  OutCode out;
  const auto x = tensor_slot(i, 0);
  const auto w = tensor_slot(i, 2);
  if (!x || !tensor(*x).is_cpu() || i.inputs[1].from != Input::From::constant ||
      (!w && !is_none(i.inputs[2])) || i.inputs[3].from != Input::From::constant ||
      !i.inputs[3].constant.isDouble())
    return {};
  const auto& shape = i.inputs[1].constant;
  if (!shape.isIntList() || shape.toIntList().size() != 1 || !tensor(*x).is_contiguous()) return {};
  const at::ScalarType dtype = tensor(*x).scalar_type();
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  auto scratch = [&](at::Tensor like) {
    const Slot slot = new_slot();
    slots_[slot] = std::move(like);
    out.scratch.push_back(slot);
    return slot;
  };
  auto slot = [](Slot s) { return Operand::of_slot(s); };
  const at::TensorOptions wide = tensor(*x).options().dtype(narrow ? at::kFloat : dtype);
  std::vector<std::int64_t> sizes = tensor(*x).sizes().vec();
  // Without a wider type the squares can be computed in the result itself, which the last product
  // overwrites.
  const Slot squares = narrow ? scratch(at::empty(sizes, wide)) : i.result;
  sizes.back() = 1;
  const Slot mean = scratch(at::empty(sizes, wide));
  Slot rows = *x;
  if (narrow) {
    rows = scratch(at::empty(tensor(*x).sizes(), wide));
    emit(out, i, "aten.copy_.default", {slot(rows), slot(*x)});
  }
  emit(out, i, "aten.pow.Tensor_Scalar_out", {slot(rows), 2, slot(squares)});
  emit(out, i, "aten.mean.out", {slot(squares), int_list({-1}), true, Operand(), slot(mean)});
  emit(out, i, "aten.add_.Scalar", {slot(mean), i.inputs[3].constant.toDouble()});
  emit(out, i, "aten.rsqrt.out", {slot(mean), slot(mean)});
  emit(out, i, "aten.mul.out", {slot(rows), slot(mean), slot(squares)});
  if (w) emit(out, i, "aten.mul.out", {slot(squares), slot(*w), slot(squares)});
  if (narrow) emit(out, i, "aten.copy_.default", {slot(i.result), slot(squares)});
  return out;
}

// clone, and what else turned out to be a copy.
OutCode OutWriter::copy(const Instruction& i) {
  OutCode out;
  auto x = tensor_slot(i, 0);
  if (!x) return {};
  Slot result = i.result;
  if (tensor(*x).sizes() != tensor(result).sizes()) {
    if (!tensor(result).is_contiguous()) return {};
    result = view(out, i, "aten.view.default", result, {int_list(tensor(*x).sizes())});
  }
  emit(out, i, "aten.copy_.default", {Operand::of_slot(result), Operand::of_slot(*x)});
  return out;
}

}  // namespace refx::exec
