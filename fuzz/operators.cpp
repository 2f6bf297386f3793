// SPDX-License-Identifier: Apache-2.0

// refx's own implementations of Python's operators, on numbers, tuples and shapes of every kind.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <cstring>

#include "refx/builder.h"
#include "refx/executor.h"
#include "target.h"

namespace refx::fuzz {

namespace {

// Choices made by the input; when it ends, always the first alternative.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }

  template <class T>
  T value() {
    T out = {};
    const std::size_t size = std::min(sizeof out, bytes_.size());
    std::memcpy(&out, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return out;
  }
  std::size_t below(std::size_t limit) { return value<std::uint8_t>() % limit; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::string_view bytes_;
};

class Graph {
 public:
  explicit Graph(std::string_view bytes) : choices_(bytes) {
    values_.push_back(builder_.input("x"));
  }

  Model build() {
    while (!choices_.empty() && values_.size() < 40) values_.push_back(call());
    return builder_.build(values_.back());
  }

 private:
  NodeId call() {
    static const std::vector<const char*> functions = {"operator.add",
                                                       "operator.sub",
                                                       "operator.mul",
                                                       "operator.truediv",
                                                       "operator.floordiv",
                                                       "operator.mod",
                                                       "operator.pow",
                                                       "operator.matmul",
                                                       "operator.eq",
                                                       "operator.ne",
                                                       "operator.lt",
                                                       "operator.le",
                                                       "operator.gt",
                                                       "operator.ge",
                                                       "operator.and_",
                                                       "operator.or_",
                                                       "operator.xor",
                                                       "operator.lshift",
                                                       "operator.rshift",
                                                       "operator.neg",
                                                       "operator.abs",
                                                       "operator.invert",
                                                       "operator.iadd",
                                                       "operator.isub",
                                                       "operator.imul",
                                                       "operator.itruediv",
                                                       "operator.ifloordiv",
                                                       "operator.imod",
                                                       "operator.ipow",
                                                       "operator.getitem",
                                                       "operator.setitem",
                                                       "operator.not_",
                                                       "operator.truth",
                                                       "operator.pos",
                                                       "operator.index",
                                                       "operator.is_",
                                                       "operator.is_not",
                                                       "operator.contains",
                                                       "getattr",
                                                       "len",
                                                       "int",
                                                       "float",
                                                       "bool",
                                                       "max",
                                                       "min",
                                                       "sum",
                                                       "abs",
                                                       "round",
                                                       "tuple",
                                                       "list",
                                                       "math.floor",
                                                       "math.ceil",
                                                       "math.trunc",
                                                       "math.sqrt",
                                                       "math.exp",
                                                       "math.log",
                                                       "math.log2",
                                                       "math.sin",
                                                       "math.cos",
                                                       "math.pow",
                                                       "torch.sym_int",
                                                       "torch.sym_float",
                                                       "torch.sym_max",
                                                       "torch.sym_min",
                                                       "torch.sym_sum",
                                                       "torch.sym_not",
                                                       "torch.sym_ite",
                                                       "torch.sym_sqrt",
                                                       "torch.numel"};
    static const std::vector<const char*> methods = {"size",         "stride",      "dim", "numel",
                                                     "element_size", "__getitem__", "to"};
    Args args;
    for (std::size_t n = choices_.below(4); n > 0; --n) args.push_back(arg(0));
    if (choices_.below(8) == 7) return builder_.method(choices_.of(methods), std::move(args));
    return builder_.call(choices_.of(functions), std::move(args));
  }

  Args several(int depth) {
    Args out;
    for (std::size_t n = choices_.below(5); n > 0; --n) out.push_back(arg(depth + 1));
    return out;
  }

  Arg arg(int depth) {
    static const std::vector<std::int64_t> numbers = {
        0, 1, -1, 2, 3, INT32_MAX, INT32_MIN, 62, 63, 64, 1000, INT64_MAX, INT64_MIN};
    static const std::vector<std::string> words = {
        "shape", "dtype", "device", "T", "values", "indices", "ndim", "cpu", "cuda:7", "", "data"};
    switch (choices_.below(depth < 4 ? 13 : 10)) {
      case 0:
        return choices_.value<std::int64_t>();
      case 1:
        return choices_.of(numbers);
      case 2:
        return choices_.value<double>();
      case 3:
        return choices_.below(2) == 1;
      case 4:
        return choices_.of(words);
      case 5:
        return None{};
      case 6:
        return static_cast<c10::ScalarType>(choices_.below(c10::NumScalarTypes));
      case 7:
        return Ellipsis{};
      case 8:
      case 9:
        return choices_.of(values_);
      case 10:
        return List{several(depth)};
      case 11:
        return Tuple{several(depth)};
      default: {
        Args bounds;
        for (int i = 0; i < 3; ++i) bounds.push_back(arg(4));
        return Slice{std::move(bounds)};
      }
    }
  }

  Choices choices_;
  Builder builder_;
  std::vector<NodeId> values_;
};

}  // namespace

void run_operators(std::string_view bytes) {
  const Model model = Graph(bytes).build();
  Executor executor(model);
  executor.run({at::arange(6, at::kFloat).view({2, 3})});
}

}  // namespace refx::fuzz
