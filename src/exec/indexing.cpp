// SPDX-License-Identifier: Apache-2.0

#include "exec/indexing.h"

#include <ATen/TensorIndexing.h>
#include <ATen/ops/tensor.h>

#include "refx/error.h"
#include "util/limits.h"

namespace refx::exec {
namespace {

using at::indexing::TensorIndex;
using c10::IValue;

std::int64_t to_integer(const IValue& v) {
  if (v.isTensor()) return v.toTensor().item().toLong();
  if (!v.isInt()) throw Error("a slice expects integers, got " + v.tagKind());
  return v.toInt();
}

std::optional<c10::SymInt> bound(const IValue& v) {
  if (v.isNone()) return std::nullopt;
  return c10::SymInt(to_integer(v));
}

at::indexing::Slice to_slice(const Operand& operand, const NativeCall& call) {
  return {bound(call.value(operand.items[0])), bound(call.value(operand.items[1])),
          bound(call.value(operand.items[2]))};
}

at::Tensor index_tensor(const IValue& list) {
  std::vector<std::int64_t> numbers;
  for (const IValue& v :
       list.isTuple() ? list.toTupleRef().elements().vec() : list.toListRef().vec()) {
    if (!v.isInt()) throw Error("an index list may hold integers only, got " + v.tagKind());
    numbers.push_back(v.toInt());
  }
  return at::tensor(numbers, at::kLong);
}

TensorIndex to_index(const Operand& operand, const NativeCall& call) {
  if (operand.form == Operand::Form::slice) return to_slice(operand, call);
  if (operand.form == Operand::Form::ellipsis) return at::indexing::Ellipsis;
  IValue v = call.value(operand);
  if (v.isNone()) return at::indexing::None;
  // A bool is a mask, and not the index 0 or 1.
  if (v.isBool()) return v.toBool();
  if (v.isInt()) return v.toInt();
  if (v.isTensor()) return v.toTensor();
  if (v.isList() || v.isTuple()) return index_tensor(v);
  throw Error("cannot index a tensor with " + v.tagKind());
}

std::vector<TensorIndex> indices(const Operand& operand, const NativeCall& call) {
  std::vector<TensorIndex> out;
  if (operand.form == Operand::Form::tuple) {
    if (operand.items.size() > limits::kIndexParts)
      throw Error("an index has " + std::to_string(operand.items.size()) + " parts, and " +
                  std::to_string(limits::kIndexParts) + " are the most");
    for (const Operand& item : operand.items) out.push_back(to_index(item, call));
  } else {
    out.push_back(to_index(operand, call));
  }
  return out;
}

std::vector<IValue> items_of(const IValue& sequence) {
  if (sequence.isTuple()) return sequence.toTupleRef().elements().vec();
  return sequence.toListRef().vec();
}

// list[start:stop:step], with Python's clamping.
std::vector<IValue> slice_of(const std::vector<IValue>& items, const Operand& s,
                             const NativeCall& call) {
  auto size = static_cast<std::int64_t>(items.size());
  IValue step_value = call.value(s.items[2]);
  std::int64_t step = step_value.isNone() ? 1 : to_integer(step_value);
  if (step == 0) throw Error("slice step cannot be zero");
  step = std::clamp(step, -size - 1, size + 1);  // one of them leads out of the list already
  auto clamp = [&](const IValue& v, std::int64_t otherwise) {
    if (v.isNone()) return otherwise;
    std::int64_t i = to_integer(v);
    if (i < 0) i += size;
    return step > 0 ? std::clamp<std::int64_t>(i, 0, size)
                    : std::clamp<std::int64_t>(i, -1, size - 1);
  };
  std::int64_t start = clamp(call.value(s.items[0]), step > 0 ? 0 : size - 1);
  std::int64_t stop = clamp(call.value(s.items[1]), step > 0 ? size : -1);
  std::vector<IValue> out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    out.push_back(items[static_cast<std::size_t>(i)]);
  }
  return out;
}

IValue sequence_item(const IValue& sequence, const Operand& index, const NativeCall& call) {
  if (index.form == Operand::Form::slice) {
    return c10::ivalue::Tuple::create(slice_of(items_of(sequence), index, call));
  }
  IValue at = call.value(index);
  if (!at.isInt())
    throw Error("a tuple or list is indexed by an integer or a slice, got " + at.tagKind());
  auto items = items_of(sequence);
  auto size = static_cast<std::int64_t>(items.size());
  std::int64_t i = at.toInt() < 0 ? at.toInt() + size : at.toInt();
  if (i < 0 || i >= size) {
    throw Error("index " + std::to_string(at.toInt()) + " is out of range for " +
                std::to_string(size) + " elements");
  }
  return items[static_cast<std::size_t>(i)];
}

}  // namespace

IValue getitem(const NativeCall& call) {
  IValue base = call[0];
  const Operand& index = call.operand(1);
  if (base.isTensor()) return base.toTensor().index(indices(index, call));
  if (base.isList() || base.isTuple()) return sequence_item(base, index, call);
  if (base.isGenericDict()) {
    const auto dict = base.toGenericDict();
    const auto found = dict.find(call.value(index));
    if (found == dict.end()) throw Error("the dict has no such key");
    return found->value();
  }
  throw Error("operator.getitem expects a tensor, tuple, list or dict, got " + base.tagKind());
}

IValue setitem(const NativeCall& call) {
  at::Tensor base = call.tensor(0);
  IValue value = call[2];
  auto where = indices(call.operand(1), call);
  if (value.isTensor()) {
    base.index_put_(where, value.toTensor());
  } else if (!value.isScalar()) {
    throw Error("operator.setitem writes a tensor or a number, got " + value.tagKind());
  } else {
    base.index_put_(where, value.toScalar());
  }
  return {};
}

}  // namespace refx::exec
