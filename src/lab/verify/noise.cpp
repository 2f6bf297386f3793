// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include <array>
#include <functional>

#include "book/facts.h"
#include "lab/verify/in_double.h"
#include "refx/error.h"

namespace refx {

namespace {

using c10::IValue;
using exec::Instruction;
using exec::Program;

bool is_floating(const at::Tensor& t) {
  return t.defined() && (t.is_floating_point() || t.is_complex());
}
bool is_plain(const at::Tensor& t) { return t.defined() && t.layout() == c10::kStrided; }

// Applies `f` to every tensor and number in a value, at any depth.
IValue map_leaves(const IValue& value, const std::function<IValue(const IValue&)>& f) {
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : value.toTupleRef().elements()) items.push_back(map_leaves(item, f));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> items;
    for (const IValue& item : value.toListRef()) items.push_back(f(item).toTensor());
    return items;
  }
  return f(value);
}

void for_each_leaf(const Instruction& i, const exec::Values& slots,
                   const std::function<void(const IValue&)>& f) {
  for (std::uint32_t k = 0; k < i.results; ++k)
    map_leaves(slots[i.result + k], [&](const IValue& leaf) {
      f(leaf);
      return leaf;
    });
}

void replace_leaves(const Instruction& i, exec::Values& slots,
                    const std::function<IValue(const IValue&)>& f) {
  for (std::uint32_t k = 0; k < i.results; ++k)
    slots[i.result + k] = map_leaves(slots[i.result + k], f);
}

bool reads_floating(const Instruction& i, const exec::Values& slots) {
  bool found = false;
  exec::for_each_read(i, [&](exec::Slot s) {
    map_leaves(slots[s], [&](const IValue& leaf) {
      found |= leaf.isDouble() || (leaf.isTensor() && is_floating(leaf.toTensor()));
      return leaf;
    });
  });
  return found;
}

// Operators with floating-point results that are discontinuous, such as floor and remainder.
// Division is one of them only with a rounding mode.
bool is_discontinuous(const Instruction& i) {
  if (!i.op) return false;
  std::string_view name = i.op->operator_name().name;
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  if (book::aten_name(name).starts_with("div"))
    return i.op->operator_name().overload_name.find("mode") != std::string::npos;
  return book::has(name, book::kJumps);
}

bool is_decision(const Instruction& i, const IValue& leaf) {
  if (leaf.isTensor()) {
    const at::Tensor& t = leaf.toTensor();
    return is_plain(t) && (!is_floating(t) || is_discontinuous(i));
  }
  return leaf.isInt() || leaf.isBool();
}

bool same(const IValue& a, const IValue& b) {
  if (!a.isTensor() || !b.isTensor()) return a == b;
  return a.toTensor().sizes() == b.toTensor().sizes() && at::equal(a.toTensor(), b.toTensor());
}

Trace::CallRecord& call_of(Trace& trace, const std::string& node, std::size_t number) {
  std::vector<Trace::CallRecord>& calls = trace.calls[node];
  if (calls.size() <= number) calls.resize(number + 1);
  return calls[number];
}

// The dtype in which a result is exact if it does not change when it is rounded to it. For fp64
// results that is fp32: the test for fp64 itself would call every number exact.
c10::ScalarType exact_dtype(c10::ScalarType dtype) {
  if (dtype == at::kDouble) return at::kFloat;
  if (dtype == at::kComplexDouble) return at::kComplexFloat;
  return dtype;
}

}  // namespace

void DtypeRecorder::after(std::size_t at, Program& program) {
  const Instruction& i = program.code[at];
  Trace::CallRecord& call = call_of(trace_, i.node, numbers_.next(i.node));
  call.dtypes.clear();
  for_each_leaf(i, program.slots, [&](const IValue& leaf) {
    if (leaf.isTensor()) call.dtypes.push_back(leaf.toTensor().scalar_type());
  });
}

// What is computed from integers alone is the same in every run and needs no record.
void DecisionRecorder::before(std::size_t at, const Program& program) {
  floating_ = reads_floating(program.code[at], program.slots);
}

void DecisionRecorder::after(std::size_t at, Program& program) {
  const Instruction& i = program.code[at];
  const std::size_t number = numbers_.next(i.node);
  if (!floating_) return;
  Trace::CallRecord& call = call_of(trace_, i.node, number);
  for_each_leaf(i, program.slots, [&](const IValue& leaf) {
    if (is_decision(i, leaf))
      call.decisions.push_back(leaf.isTensor() ? IValue(leaf.toTensor().clone()) : leaf);
  });
}

RoundingNoise::RoundingNoise(const Trace& trace, const Options& options)
    : trace_(trace), options_(options), generator_(at::detail::createCPUGenerator(options.seed)) {}

// Remembers the storages of the operands: a result that shares one of them is a view, and a view
// does not round.
void RoundingNoise::before(std::size_t at, const Program& program) {
  const Instruction& i = program.code[at];
  floating_ = reads_floating(i, program.slots);
  operands_.clear();
  exec::for_each_read(i, [&](exec::Slot s) {
    map_leaves(program.slots[s], [&](const IValue& leaf) {
      if (leaf.isTensor() && is_plain(leaf.toTensor()))
        operands_.insert(leaf.toTensor().storage().unsafeGetStorageImpl());
      return leaf;
    });
  });
}

bool RoundingNoise::is_operand(const at::Tensor& value) const {
  return operands_.count(value.storage().unsafeGetStorageImpl()) != 0;
}

at::Tensor RoundingNoise::disturbed(const at::Tensor& value, c10::ScalarType dtype, bool written) {
  if (!is_plain(value) || !is_floating(value) || value.numel() == 0) return value;
  if (is_operand(value) && !written) return value;  // a view, or the operand itself
  const c10::ScalarType own = options_.in_fp64 ? value.scalar_type() : dtype;
  // A number that its dtype represents exactly is not rounded: masks, counters and small integers
  // must not change. This holds for each element by itself.
  const at::Tensor exact = value.to(exact_dtype(own)).to(value.scalar_type()) == value;
  at::Tensor factors = random_factors(value, options_.roundings * rounding(own), generator_);
  factors.masked_fill_(exact, 1);
  return written ? value.mul_(factors) : value * factors;
}

void RoundingNoise::after(std::size_t at, Program& program) {
  const Instruction& i = program.code[at];
  const std::size_t number = numbers_.next(i.node);
  if (!floating_) return;
  const auto calls = trace_.calls.find(i.node);
  // Dtypes and decisions are matched by node and call. A run that calls other nodes, for example
  // because another branch was taken, cannot be matched.
  if (calls == trace_.calls.end() || calls->second.size() <= number)
    throw Error("it runs other operators in fp64");
  const auto& [dtypes, decisions] = calls->second[number];
  std::size_t tensor = 0, decision = 0;
  replace_leaves(i, program.slots, [&](const IValue& leaf) -> IValue {
    const std::size_t position = leaf.isTensor() ? tensor++ : 0;
    if (is_decision(i, leaf)) {
      if (decision >= decisions.size()) return leaf;
      const IValue& before = decisions[decision++];
      if (same(leaf, before)) return leaf;
      // With noise this decision is another one. Held, the run continues with the recorded one: its
      // effect is then that of rounding alone.
      flipped_.insert(i.node);
      if (options_.decisions == Decisions::free) return leaf;
      if (!leaf.isTensor()) return before;
      // An operator that writes in place returns its operand: other nodes read the same memory.
      if (i.writes && leaf.toTensor().sizes() == before.toTensor().sizes())
        return leaf.toTensor().copy_(before.toTensor());
      return before.toTensor().clone();
    }
    if (!leaf.isTensor() || position >= dtypes.size()) return leaf;
    return disturbed(leaf.toTensor(), dtypes[position], i.writes);
  });
}

at::Tensor planted(const at::Tensor& value, double part, at::Generator& generator) {
  if (!is_plain(value) || !is_floating(value)) return value;
  // Signs are random: an error with the same sign everywhere could cancel, for example in a softmax
  // or a normalization.
  const at::Tensor up = random_factors(value, 1, generator) > 1;
  return value * up.to(at::kDouble).mul_(2 * part).add_(1 - part).to(value.device());
}

Planted::Planted(std::set<std::string> nodes, double part, std::uint64_t seed)
    : nodes_(std::move(nodes)), part_(part), generator_(at::detail::createCPUGenerator(seed)) {}

void Planted::after(std::size_t at, Program& program) {
  const Instruction& i = program.code[at];
  // One node may be several instructions; its value is that of the last one.
  const bool last = at + 1 == program.code.size() || program.code[at + 1].node != i.node;
  if (!last || !nodes_.count(i.node)) return;
  replace_leaves(i, program.slots, [&](const IValue& leaf) -> IValue {
    return leaf.isTensor() ? IValue(planted(leaf.toTensor(), part_, generator_)) : leaf;
  });
}

}  // namespace refx
