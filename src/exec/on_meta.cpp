// SPDX-License-Identifier: Apache-2.0

#include "exec/on_meta.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "book/call.h"
#include "ir/map_arg.h"
#include "refx/builder.h"
#include "refx/error.h"

namespace refx::exec {

IsolatedCall isolate_call(Node call) {
  Builder builder;
  std::vector<NodeId> inputs;
  std::unordered_map<NodeId, NodeId> made;
  map_inputs(call, [&](NodeId input) {
    auto [it, is_new] = made.try_emplace(input);
    if (is_new) {
      inputs.push_back(input);
      it->second = builder.input("input_" + std::to_string(inputs.size()));
    }
    return it->second;
  });
  const NodeId result = call.op == Opcode::call_method
                            ? builder.method(call.target, call.args, call.kwargs)
                            : builder.call(call.target, call.args, call.kwargs);
  return {std::move(inputs), Executor(builder.build(result))};
}

Node with_meta_device(const Model& model, const Node& call) {
  const c10::Device meta(at::kMeta);
  Node changed = call;
  for (Arg& arg : changed.args)
    if (arg.is<c10::Device>()) {
      arg = meta;
      return changed;
    }
  if (!book::Call(model, call).takes("device")) return changed;
  // A factory such as arange() has the device as an option, which may be left out.
  std::erase_if(changed.kwargs, [](const auto& kwarg) { return kwarg.first == "device"; });
  changed.kwargs.emplace_back("device", meta);
  return changed;
}

c10::IValue meta_tensor(const TensorType& type) {
  auto numbers = [](const std::vector<Dim>& dims) {
    std::vector<std::int64_t> out;
    for (const Dim& dim : dims) out.push_back(dim.value);
    return out;
  };
  const auto options = at::TensorOptions(type.dtype).device(at::kMeta);
  if (type.strides.empty()) return at::empty(numbers(type.sizes), options);
  return at::empty_strided(numbers(type.sizes), numbers(type.strides), options);
}

c10::IValue run_on_meta(IsolatedCall& call, const std::vector<c10::IValue>& inputs) {
  call.executor.use_plans(false);  // a plan looks at values, and there are none
  return call.executor.run(inputs);
}

// ---- symbolic sizes ----------------------------------------------------------------------------

namespace {

// Sizes as numbers: each symbol is a prime of its own, so that the factors of a size that an
// operator returns tell of which symbols it is the product.
class Numbers {
 public:
  explicit Numbers(std::initializer_list<std::int64_t> primes) : primes_(primes) {}

  // Throws where a product is too large, or there are too many symbols.
  std::int64_t of(const Dim& dim) {
    if (dim.known()) return dim.value;
    std::int64_t product = 1;
    for (const Dim& factor : factors_of(dim))
      if (__builtin_mul_overflow(product, number(factor), &product))
        throw Error("a size is too large");
    return product;
  }

  Dim size(std::int64_t number) const {
    std::vector<Dim> factors;
    for (std::size_t i = 0; number > 0 && i < symbols_.size(); ++i)
      for (; number % primes_[i] == 0; number /= primes_[i]) factors.push_back(symbols_[i]);
    // In the order in which sympy prints them; a tensor's first stride is the product of its other
    // sizes.
    std::sort(factors.begin(), factors.end(),
              [](const Dim& a, const Dim& b) { return a.expr > b.expr; });
    factors.insert(factors.begin(), {1, number});
    return contiguous_strides(factors)[0];
  }

 private:
  // Of 2*s0*(s1 + 1) all three; a sum, and whatever else, is one.
  static std::vector<Dim> factors_of(const Dim& dim) {
    std::vector<Dim> factors;
    int depth = 0;
    std::size_t start = 0;
    for (std::size_t i = 0; i <= dim.expr.size(); ++i) {
      const char c = i < dim.expr.size() ? dim.expr[i] : '*';
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth != 0) continue;
      if (c == ' ' || c == '+' || c == '-' || c == '/') return {dim};
      if (c != '*') continue;
      std::string_view part = std::string_view(dim.expr).substr(start, i - start);
      start = i + 1;
      if (part.empty()) return {dim};  // a power
      if (part == dim.expr) return {dim};
      if (part.starts_with('(')) {
        part = part.substr(1, part.size() - 2);
        const auto inner = factors_of({std::string(part), -1});
        factors.insert(factors.end(), inner.begin(), inner.end());
        continue;
      }
      std::int64_t number = 0;
      const char* end = part.data() + part.size();
      const bool is_number = std::from_chars(part.data(), end, number).ptr == end;
      factors.push_back(is_number ? Dim(number) : Dim(std::string(part), -1));
    }
    return factors;
  }

  std::int64_t number(const Dim& factor) {
    if (factor.known()) return factor.value;
    auto it = std::find_if(symbols_.begin(), symbols_.end(),
                           [&](const Dim& other) { return other.expr == factor.expr; });
    if (it == symbols_.end()) it = symbols_.insert(it, factor);
    if (it->value < 0) *it = factor;  // of a product's factors no hint is known
    return primes_.at(static_cast<std::size_t>(it - symbols_.begin()));
  }

  std::vector<std::int64_t> primes_;
  std::vector<Dim> symbols_;
};

}  // namespace

TypePtr type_on_meta(const Node& call, const TypeOfNode& type_of) try {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  IsolatedCall isolated = isolate_call(call);
  std::vector<TypePtr> types;
  for (NodeId input : isolated.inputs) {
    types.push_back(type_of(input));
    if (!types.back()) return nullptr;
  }
  auto result_with = [&](Numbers& numbers) {
    std::vector<c10::IValue> values;
    for (const TypePtr& type : types) {
      TensorType concrete;
      concrete.dtype = type->dtype;
      for (const Dim& dim : type->sizes) concrete.sizes.emplace_back(numbers.of(dim));
      values.push_back(meta_tensor(concrete));
    }
    return run_on_meta(isolated, values).toTensor();
  };
  // Two runs with different primes: a size that differs between them depends on the symbols, and
  // has to be the same product of symbols in both. One run alone could take a number of the model
  // for a product, and a sum of symbols that happens to have such factors.
  Numbers some({10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079});
  Numbers others({20011, 20021, 20023, 20029, 20047, 20051, 20063, 20071});
  const at::Tensor one = result_with(some), other = result_with(others);
  if (one.dim() != other.dim()) return nullptr;
  auto type = std::make_shared<TensorType>(*refx::type_of(one));
  type->strides.clear();
  type->device = types.empty() ? c10::Device(at::kCPU) : types.back()->device;
  for (std::int64_t i = 0; i < one.dim(); ++i) {
    if (one.size(i) == other.size(i)) continue;  // whatever the symbols are
    const Dim dim = some.size(one.size(i));
    if (dim != others.size(other.size(i))) return nullptr;  // no product of symbols
    type->sizes[static_cast<std::size_t>(i)] = dim;
  }
  return type;
} catch (const std::bad_alloc&) {  // says nothing about the arguments
  throw;
} catch (const std::exception&) {
  return nullptr;  // the operator does not take such arguments
}

}  // namespace refx::exec
