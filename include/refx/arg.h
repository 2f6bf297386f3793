// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "refx/export.h"
#include "refx/id.h"

namespace refx {

// The arguments of nodes, as plain values.

class Arg;
using Args = std::vector<Arg>;
using Kwargs = std::vector<std::pair<std::string, Arg>>;

struct None {
  bool operator==(const None&) const = default;
};
struct Ellipsis {
  bool operator==(const Ellipsis&) const = default;
};
// An integer known only when the model runs, by its expression over the graph's symbols: "2*s0".
struct SymInt {
  std::string expr;
  bool operator==(const SymInt&) const = default;
};
// Something refx does not interpret (a subgraph, a custom object), kept as its source wrote it.
struct Raw {
  std::string text;
  bool operator==(const Raw&) const = default;
};
struct List {
  Args items;
};
struct Tuple {
  Args items;
};
struct Slice {
  Args parts;  // start, stop, step
};
struct Dict {
  std::vector<std::pair<Arg, Arg>> items;
};

// One argument of a node: any value that torch.fx and torch.export allow. A plain value.
class REFX_API Arg {
 public:
  using Storage = std::variant<None, bool, std::int64_t, double, std::complex<double>, std::string,
                               c10::ScalarType, c10::Device, c10::Layout, c10::MemoryFormat, NodeId,
                               SymInt, Ellipsis, Raw, List, Tuple, Slice, Dict>;

  // Defined out of line: copying and destroying eighteen alternatives is a lot of code to inline.
  Arg() = default;
  Arg(const Arg&);
  Arg(Arg&&) noexcept;
  Arg& operator=(const Arg&);
  Arg& operator=(Arg&&) noexcept;
  ~Arg();
  Arg(None) {}
  Arg(bool v) : value_(v) {}
  Arg(int v) : value_(std::int64_t{v}) {}
  Arg(std::int64_t v) : value_(v) {}
  Arg(double v) : value_(v) {}
  Arg(std::complex<double> v) : value_(v) {}
  Arg(const char* v) : value_(std::string(v)) {}
  Arg(std::string v) : value_(std::move(v)) {}
  Arg(c10::ScalarType v) : value_(v) {}
  Arg(c10::Device v) : value_(v) {}
  Arg(c10::Layout v) : value_(v) {}
  Arg(c10::MemoryFormat v) : value_(v) {}
  Arg(NodeId v) : value_(v) {}
  Arg(SymInt v) : value_(std::move(v)) {}
  Arg(Ellipsis v) : value_(v) {}
  Arg(Raw v) : value_(std::move(v)) {}
  Arg(List v) : value_(std::move(v)) {}
  Arg(Tuple v) : value_(std::move(v)) {}
  Arg(Slice v) : value_(std::move(v)) {}
  Arg(Dict v) : value_(std::move(v)) {}

  const Storage& value() const { return value_; }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  // The value if it is a T, else null.
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }

  // Exact: nan equals itself, 0.0 is not -0.0, 7 is not 7.0.
  friend REFX_API bool operator==(const Arg& a, const Arg& b);

 private:
  Storage value_;
};

// Calls f(NodeId) for every reference in the argument, in order, repeats included.
template <class F>
void for_each_node(const Arg& arg, F&& f) {
  if (auto* id = arg.get<NodeId>()) return f(*id);
  auto all = [&](const Args& args) {
    for (const Arg& a : args) for_each_node(a, f);
  };
  if (auto* l = arg.get<List>()) return all(l->items);
  if (auto* t = arg.get<Tuple>()) return all(t->items);
  if (auto* s = arg.get<Slice>()) return all(s->parts);
  if (auto* d = arg.get<Dict>()) {
    for (const auto& [key, value] : d->items) {
      for_each_node(key, f);
      for_each_node(value, f);
    }
  }
}

}  // namespace refx
