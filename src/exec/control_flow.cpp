// SPDX-License-Identifier: Apache-2.0

#include "exec/control_flow.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include "refx/error.h"

namespace refx::exec {
namespace {

using c10::IValue;

enum Operands : std::size_t { kCondition, kCarried, kSliced, kFixed };

Values values_of(const NativeCall& call, std::size_t operand) {
  Values out;
  for (const Operand& item : call.operand(operand).items) out.push_back(call.value(item));
  return out;
}

Values run_body(ControlFlow::Body& body, const Values& inputs) {
  IValue result = run_program(body.program, body.stack, inputs);
  if (body.single) return {std::move(result)};
  return result.toTupleRef().elements().vec();
}

bool is_true(const IValue& value) {
  if (value.isBool()) return value.toBool();
  if (value.isTensor()) return value.toTensor().item().toBool();
  throw Error("a condition expects a boolean or a tensor of one, got " + value.tagKind());
}

Values joined(const Values& a, const Values& b, const Values& c = {}) {
  Values out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

Values run_cond(ControlFlow& flow, const NativeCall& call) {
  const bool condition = is_true(call[kCondition]);
  // The first subgraph is that of a true condition.
  return run_body(flow.bodies[condition ? 0 : 1], values_of(call, kFixed));
}

Values run_while(ControlFlow& flow, const NativeCall& call) {
  Values carried = values_of(call, kCarried);
  const Values fixed = values_of(call, kFixed);
  bool ran = false;
  while (is_true(run_body(flow.bodies[0], joined(carried, fixed)).at(0))) {
    Values next = run_body(flow.bodies[1], joined(carried, fixed));
    if (next.size() != carried.size())
      throw Error("the body of a while_loop returns " + std::to_string(next.size()) +
                  " values instead of " + std::to_string(carried.size()));
    carried = std::move(next);
    ran = true;
  }
  if (!ran)  // as torch does: a result never shares memory with an operand
    for (IValue& value : carried)
      if (value.isTensor()) value = value.toTensor().clone();
  return carried;
}

// The k-th slice of each tensor, along its first dimension.
Values slices(const Values& tensors, std::int64_t k) {
  Values out;
  for (const IValue& value : tensors) out.emplace_back(value.toTensor().select(0, k));
  return out;
}

std::int64_t length_of(const Values& sliced) {
  if (sliced.empty()) throw Error("scan and map need at least one tensor to iterate over");
  for (const IValue& value : sliced)
    if (!value.isTensor() || value.toTensor().dim() == 0 ||
        value.toTensor().size(0) != sliced[0].toTensor().size(0))
      throw Error("the tensors that scan and map iterate over must have the same first size");
  return sliced[0].toTensor().size(0);
}

// Stacks the results of all calls, one by one.
class Stacked {
 public:
  void add(const Values& results, std::size_t from) {
    parts_.resize(results.size() - std::min(from, results.size()));
    for (std::size_t i = 0; i < parts_.size(); ++i)
      parts_[i].push_back(results[from + i].toTensor());
  }
  Values take() const {
    Values out;
    for (const std::vector<at::Tensor>& part : parts_) out.emplace_back(at::stack(part));
    return out;
  }

 private:
  std::vector<std::vector<at::Tensor>> parts_;
};

Values run_scan(ControlFlow& flow, const NativeCall& call) {
  Values carried = values_of(call, kCarried);
  const Values sliced = values_of(call, kSliced), fixed = values_of(call, kFixed);
  const std::size_t count = carried.size();
  const std::int64_t length = length_of(sliced);
  Stacked stacked;
  for (std::int64_t k = 0; k < length; ++k) {
    Values results = run_body(flow.bodies[0], joined(carried, slices(sliced, k), fixed));
    if (results.size() < count) throw Error("the body of a scan returns too few values");
    stacked.add(results, count);
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return joined(carried, stacked.take());
}

Values run_map(ControlFlow& flow, const NativeCall& call) {
  const Values sliced = values_of(call, kSliced), fixed = values_of(call, kFixed);
  const std::int64_t length = length_of(sliced);
  Stacked stacked;
  for (std::int64_t k = 0; k < length; ++k)
    stacked.add(run_body(flow.bodies[0], joined(slices(sliced, k), fixed)), 0);
  return stacked.take();
}

Values run_kind(ControlFlow& flow, const NativeCall& call) {
  using Construct = book::HigherOrder::Construct;
  switch (flow.kind) {
    case Construct::cond:
      return run_cond(flow, call);
    case Construct::while_loop:
      return run_while(flow, call);
    case Construct::scan:
      return run_scan(flow, call);
    case Construct::map:
      return run_map(flow, call);
    case Construct::wrap:
      break;
  }
  REFX_CHECK(false, "a region is compiled where it stands");
}

}  // namespace

IValue run_control_flow(ControlFlow& flow, const NativeCall& call) {
  Values results = run_kind(flow, call);
  // The first subgraph of a while_loop is its condition; the last one computes results everywhere.
  if (flow.bodies.back().single && results.size() == 1) return results[0];
  return c10::ivalue::Tuple::create(std::move(results));
}

Program separate_copy(const Program& program) {
  Program copy = program;
  for (Instruction& i : copy.code) {
    if (!i.control_flow) continue;
    // A program has slots of its own, and instructions share theirs by pointer otherwise.
    i.control_flow = std::make_shared<ControlFlow>(*i.control_flow);
    for (ControlFlow::Body& body : i.control_flow->bodies)
      body.program = separate_copy(body.program);
  }
  return copy;
}

}  // namespace refx::exec
