// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <bit>

#include "book/enum_names.h"
#include "io/pickle.h"
#include "io/storage_types.h"
#include "refx/error.h"

namespace refx {

namespace {

using c10::IValue;

// Python's pickle protocol 2, without a memo: values are few and small beside their tensors.
class Pickler {
 public:
  Pickle run(const IValue& value) {
    pickle_.bytes = "\x80\x02";
    push(value);
    code('.');
    return std::move(pickle_);
  }

 private:
  void code(char c) { pickle_.bytes += c; }
  template <class T>
  void little(T value) {
    pickle_.bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void push_string(std::string_view text) {
    code('X');
    little(static_cast<std::uint32_t>(text.size()));
    pickle_.bytes += text;
  }
  void push_int(std::int64_t value) {
    pickle_.bytes += "\x8a\x08";
    little(value);
  }
  void push_double(double value) {
    code('G');
    for (int shift = 56; shift >= 0; shift -= 8)
      code(static_cast<char>(std::bit_cast<std::uint64_t>(value) >> shift & 0xff));
  }
  void push_bool(bool value) { code(value ? '\x88' : '\x89'); }
  void push_name(std::string_view module, std::string_view name) {
    pickle_.bytes += fmt::format("c{}\n{}\n", module, name);
  }
  void push_ints(c10::IntArrayRef values) {
    code('(');
    for (std::int64_t value : values) push_int(value);
    code('t');
  }

  template <class Items>
  void push_items(const Items& items) {
    code('(');
    for (const IValue& item : items) push(item);
  }

  void push_dict(const c10::Dict<IValue, IValue>& dict) {
    pickle_.bytes += "}(";
    for (const auto& item : dict) {
      push(item.key());
      push(item.value());
    }
    code('u');
  }

  void push_storage(const at::Tensor& tensor, std::string_view type) {
    code('(');
    push_string("storage");
    const std::size_t dot = type.rfind('.');
    push_name(type.substr(0, dot), type.substr(dot + 1));
    push_string(std::to_string(pickle_.tensors.size()));
    push_string("cpu");
    const bool untyped = type.ends_with("UntypedStorage");
    push_int(untyped ? static_cast<std::int64_t>(tensor.nbytes()) : tensor.numel());
    pickle_.bytes += "tQ";
    pickle_.tensors.push_back(tensor);
  }

  void push_tensor(const at::Tensor& value) {
    if (value.layout() != c10::kStrided || value.is_quantized() || value.is_meta())
      throw Error("a sparse, quantized or meta tensor cannot be written");
    at::Tensor tensor = value.detach().cpu().resolve_conj().resolve_neg();
    // Alone in its storage: a slice of something larger would take all of that along.
    if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
    std::string_view type = "torch.storage.UntypedStorage";
    for (const auto& [name, dtype] : kStorageTypes)
      if (dtype == tensor.scalar_type()) type = name;
    const bool untyped = type.ends_with("UntypedStorage");
    push_name("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    code('(');
    push_storage(tensor, type);
    push_int(0);
    push_ints(tensor.sizes());
    push_ints(tensor.strides());
    push_bool(false);
    push_name("collections", "OrderedDict");
    pickle_.bytes += ")R";
    if (untyped) push_name("torch", names_of(tensor.scalar_type()).full);
    pickle_.bytes += "tR";
  }

  void push(const IValue& value) {
    if (value.isNone()) return code('N');
    if (value.isTensor()) return push_tensor(value.toTensor());
    if (value.isBool()) return push_bool(value.toBool());
    if (value.isInt()) return push_int(value.toInt());
    if (value.isDouble()) return push_double(value.toDouble());
    if (value.isString()) return push_string(value.toStringRef());
    if (value.isTuple()) {
      push_items(value.toTupleRef().elements());
      return code('t');
    }
    if (value.isList()) {
      code(']');
      push_items(value.toListRef());
      return code('e');
    }
    if (value.isGenericDict()) return push_dict(value.toGenericDict());
    if (value.isComplexDouble()) {
      push_name("__builtin__", "complex");
      push_double(value.toComplexDouble().real());
      push_double(value.toComplexDouble().imag());
      pickle_.bytes += "\x86R";
      return;
    }
    if (value.isDevice()) {
      push_name("torch", "device");
      push_string(value.toDevice().str());
      pickle_.bytes += "\x85R";
      return;
    }
    throw Error(fmt::format("a value of kind {} cannot be written", value.tagKind()));
  }

  Pickle pickle_;
};

}  // namespace

Pickle write_pickle(const IValue& value) { return Pickler().run(value); }

}  // namespace refx
