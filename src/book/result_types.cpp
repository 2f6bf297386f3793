// SPDX-License-Identifier: Apache-2.0

#include "book/result_types.h"

#include <ATen/core/TensorBase.h>

#include <algorithm>

#include "book/call.h"
#include "book/facts.h"

namespace refx::book {

namespace {

using Sizes = std::vector<Dim>;

bool is_number(const Arg& arg) { return arg.is<std::int64_t>() || arg.is<double>(); }
bool is_one(const Dim& dim) { return dim.known() && dim.value == 1; }
bool is_zero(const Dim& dim) { return dim.known() && dim.value == 0; }
bool same_sizes(const Sizes& a, const Sizes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_size);
}

std::optional<Sizes> broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes sizes = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    if (is_one(sizes[offset + i]))
      sizes[offset + i] = shorter[i];
    else if (!is_one(shorter[i]) && !same_size(sizes[offset + i], shorter[i]))
      return std::nullopt;
  }
  return sizes;
}

class ResultType {
 public:
  ResultType(std::string_view op, const ArgumentByName& argument, const TypeOfArg& type_of)
      : op_(op), argument_(argument), type_of_(type_of) {}

  TypePtr get() const {
    // One row for each operator whose result has another type than its first argument; the others
    // have the fact kKeepsType in facts.cpp.
    struct Row {
      std::string_view op;
      TypePtr (ResultType::*type)() const;
    };
    static constexpr Row kRows[] = {
        {"add", &ResultType::binary},
        {"sub", &ResultType::binary},
        {"mul", &ResultType::binary},
        {"div", &ResultType::binary},
        {"pow", &ResultType::binary},
        {"maximum", &ResultType::binary},
        {"minimum", &ResultType::binary},
        {"where", &ResultType::where},
        {"to", &ResultType::cast},
        {"matmul", &ResultType::matmul},
        {"_int_mm", &ResultType::int_matmul},
        {"_grouped_mm", &ResultType::grouped_mm},
        {"linear", &ResultType::linear},
        {"transpose", &ResultType::transpose},
        {"t", &ResultType::transpose_matrix},
        {"amax", &ResultType::reduction},
        {"amin", &ResultType::reduction},
        {"unsqueeze", &ResultType::unsqueeze},
        {"reshape", &ResultType::reshape},
        {"scaled_dot_product_attention", &ResultType::attention},
        {"conv1d", &ResultType::convolution<1, false>},
        {"conv2d", &ResultType::convolution<2, false>},
        {"conv3d", &ResultType::convolution<3, false>},
        {"conv_transpose1d", &ResultType::convolution<1, true>},
        {"conv_transpose2d", &ResultType::convolution<2, true>},
        {"conv_transpose3d", &ResultType::convolution<3, true>},
    };
    if (facts_of(op_) & kKeepsType) return like_first();
    const auto* row =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == op_; });
    return row == std::end(kRows) ? nullptr : (this->*row->type)();
  }

 private:
  const Arg* arg(std::string_view name) const { return argument_(name); }
  TypePtr type(std::string_view name) const {
    const Arg* given = arg(name);
    return given && given->is<NodeId>() ? type_of_(*given) : nullptr;
  }

  static TypePtr like(const TensorType& type, Sizes sizes, c10::ScalarType dtype) {
    auto made = std::make_shared<TensorType>();
    made->sizes = std::move(sizes);
    made->dtype = dtype;
    made->device = type.device;
    made->requires_grad = type.requires_grad;
    return made;
  }
  static TypePtr like(const TensorType& type, Sizes sizes) {
    return like(type, std::move(sizes), type.dtype);
  }

  TypePtr like_first() const {
    const TypePtr first = arg("self") ? type("self") : type("input");
    if (!first || !c10::isFloatingType(first->dtype)) return nullptr;
    // clamp_min with a tensor broadcasts to it.
    if (const Arg* least = arg("min"); least && least->is<NodeId>()) return nullptr;
    const Arg* dtype = arg("dtype");
    const auto* to = dtype ? dtype->get<c10::ScalarType>() : nullptr;
    for (const char* name : {"weight", "bias"}) {
      const TypePtr of = type(name);
      const bool fits =
          !of || (of->dtype == first->dtype && of->sizes.size() == 1 && !first->sizes.empty() &&
                  same_size(of->sizes[0], first->sizes.back()));
      if (!fits) return nullptr;
    }
    return like(*first, first->sizes, to ? *to : first->dtype);
  }

  TypePtr binary() const { return elementwise({"self", "other", "exponent"}); }
  TypePtr where() const { return elementwise({"self", "other"}, type("condition")); }

  TypePtr elementwise(std::initializer_list<std::string_view> names,
                      const TypePtr& sizes_from = nullptr) const {
    std::optional<Sizes> sizes = sizes_from ? std::optional(sizes_from->sizes) : std::nullopt;
    std::optional<c10::ScalarType> with_dims, without;  // of tensors
    bool reals = false;
    TypePtr first = sizes_from;
    for (std::string_view name : names) {
      const Arg* given = arg(name);
      if (!given) continue;
      if (!given->is<NodeId>()) {
        if (!is_number(*given)) return nullptr;
        reals = reals || given->is<double>();
        continue;
      }
      const TypePtr of = type_of_(*given);
      if (!of) return nullptr;
      if (!first) first = of;
      if (sizes_from && of->device != first->device && !of->sizes.empty()) return nullptr;
      // torch promotes by category: a tensor without dimensions counts only beside tensors of a
      // lower category, such as a float beside integers.
      auto& dtype = of->sizes.empty() ? without : with_dims;
      dtype = dtype ? c10::promoteTypes(*dtype, of->dtype) : of->dtype;
      sizes = sizes ? broadcast(*sizes, of->sizes) : std::optional(of->sizes);
      if (!sizes) return nullptr;
    }
    if (!first || !sizes) return nullptr;
    c10::ScalarType dtype = with_dims ? *with_dims : without ? *without : c10::ScalarType::Float;
    if (with_dims && without && !c10::isFloatingType(*with_dims) && c10::isFloatingType(*without))
      dtype = *without;
    // Division of integers, and arithmetic of integers with a Python float, give float32.
    if ((reals || op_ == "div") && !c10::isFloatingType(dtype) && !c10::isComplexType(dtype))
      dtype = c10::ScalarType::Float;
    return like(*first, *sizes, dtype);
  }

  TypePtr cast() const {
    const TypePtr self = type("self");
    const Arg* dtype = arg("dtype");
    const auto* to = dtype ? dtype->get<c10::ScalarType>() : nullptr;
    return self && to ? like(*self, self->sizes, *to) : nullptr;
  }

  TypePtr matmul() const { return product("other"); }
  TypePtr int_matmul() const { return product("mat2", at::kInt); }

  TypePtr product(std::string_view other, std::optional<c10::ScalarType> dtype = {}) const {
    const TypePtr a = type("self"), b = type(other);
    if (!a || !b || a->dtype != b->dtype || a->sizes.size() < 2 || b->sizes.size() < 2)
      return nullptr;
    if (!same_size(a->sizes.back(), b->sizes[b->sizes.size() - 2])) return nullptr;
    auto sizes =
        broadcast({a->sizes.begin(), a->sizes.end() - 2}, {b->sizes.begin(), b->sizes.end() - 2});
    if (!sizes) return nullptr;
    sizes->push_back(a->sizes[a->sizes.size() - 2]);
    sizes->push_back(b->sizes.back());
    return like(*a, *sizes, dtype.value_or(a->dtype));
  }

  TypePtr grouped_mm() const {
    const TypePtr x = type("self"), weight = type("mat2"), ends = type("offs");
    if (!ends) return product("mat2");  // as many groups of rows as matrices
    if (!x || !weight || !ends || x->dtype != weight->dtype || x->sizes.size() != 2 ||
        weight->sizes.size() != 3 || !same_size(x->sizes[1], weight->sizes[1]))
      return nullptr;
    return like(*x, {x->sizes[0], weight->sizes[2]});
  }

  TypePtr linear() const {
    const TypePtr x = type("input"), weight = type("weight"), bias = type("bias");
    if (!x || !weight || x->dtype != weight->dtype || x->sizes.empty() ||
        weight->sizes.size() != 2 || !same_size(x->sizes.back(), weight->sizes[1]))
      return nullptr;
    if (bias && (bias->dtype != x->dtype || bias->sizes.size() != 1 ||
                 !same_size(bias->sizes[0], weight->sizes[0])))
      return nullptr;
    Sizes sizes = x->sizes;
    sizes.back() = weight->sizes[0];
    return like(*x, std::move(sizes));
  }

  TypePtr transpose() const {
    const TypePtr self = type("self");
    const Arg *a = arg("dim0"), *b = arg("dim1");
    if (!self || !a || !b) return nullptr;
    const auto first = dimension(*a, self->sizes.size()),
               second = dimension(*b, self->sizes.size());
    if (!first || !second) return nullptr;
    Sizes sizes = self->sizes;
    std::swap(sizes[*first], sizes[*second]);
    return like(*self, std::move(sizes));
  }

  // A dimension as one of so many, from the first on.
  static std::optional<std::size_t> dimension(const Arg& arg, std::size_t rank) {
    const auto* given = arg.get<std::int64_t>();
    const auto count = static_cast<std::int64_t>(rank);
    if (!given || *given < -count || *given >= count) return std::nullopt;
    return static_cast<std::size_t>(*given < 0 ? *given + count : *given);
  }

  TypePtr transpose_matrix() const {
    const TypePtr self = type("self");
    if (!self || self->sizes.size() > 2) return nullptr;
    return like(*self, Sizes(self->sizes.rbegin(), self->sizes.rend()));
  }

  TypePtr reduction() const {
    const TypePtr self = type("self");
    const Arg *over = arg("dim"), *keep = arg("keepdim");
    const List* dims = over ? over->get<List>() : nullptr;
    if (!self || !dims || dims->items.empty()) return nullptr;
    std::vector<bool> reduced(self->sizes.size());
    for (const Arg& item : dims->items) {
      const auto dim = dimension(item, self->sizes.size());
      // A maximum over nothing does not exist: the operator throws.
      if (!dim || is_zero(self->sizes[*dim])) return nullptr;
      reduced[*dim] = true;
    }
    const bool* kept = keep ? keep->get<bool>() : nullptr;
    Sizes sizes;
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      if (!reduced[i])
        sizes.push_back(self->sizes[i]);
      else if (kept && *kept)
        sizes.emplace_back(1);
    }
    return like(*self, std::move(sizes));
  }

  TypePtr unsqueeze() const {
    const TypePtr self = type("self");
    const Arg* at = arg("dim");
    const auto dim = self && at ? dimension(*at, self->sizes.size() + 1) : std::nullopt;
    if (!dim) return nullptr;
    Sizes sizes = self->sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(*dim), Dim(1));
    return like(*self, std::move(sizes));
  }

  // Where all sizes are numbers.
  TypePtr reshape() const {
    const TypePtr self = type("self");
    const Arg* shape = arg("shape");
    const List* list = shape ? shape->get<List>() : nullptr;
    if (!self || !list) return nullptr;
    std::int64_t elements = 1, given = 1;
    for (const Dim& dim : self->sizes)
      if (!dim.known() || is_zero(dim) || __builtin_mul_overflow(elements, dim.value, &elements))
        return nullptr;
    Sizes sizes;
    std::optional<std::size_t> open;
    for (const Arg& item : list->items) {
      const auto* size = item.get<std::int64_t>();
      // A size of 0 makes -1 ambiguous.
      if (!size || *size == 0 || *size < -1 || (*size == -1 && open)) return nullptr;
      if (*size == -1)
        open = sizes.size();
      else if (__builtin_mul_overflow(given, *size, &given))
        return nullptr;
      sizes.emplace_back(*size);
    }
    if (open) sizes[*open] = Dim(elements / given);
    if (elements % given != 0 || (!open && elements != given)) return nullptr;
    return like(*self, std::move(sizes));
  }

  // One number for each of so many dimensions, given one by one or once for all.
  std::vector<std::int64_t> numbers(std::string_view name, std::size_t count) const {
    const Arg* given = arg(name);
    std::vector<std::int64_t> all;
    if (const auto* one = given ? given->get<std::int64_t>() : nullptr) all.assign(count, *one);
    if (const List* list = given ? given->get<List>() : nullptr)
      for (const Arg& item : list->items)
        if (const auto* number = item.get<std::int64_t>()) all.push_back(*number);
    if (all.size() == 1) all.assign(count, all[0]);
    return all;
  }

  template <std::size_t kDims, bool kTransposed>
  TypePtr convolution() const {
    return convolution(kDims, kTransposed);
  }

  TypePtr convolution(std::size_t dims, bool transposed) const {
    const TypePtr x = type("input"), weight = type("weight"), bias = type("bias");
    const Arg* groups = arg("groups");
    const auto* parts = groups ? groups->get<std::int64_t>() : nullptr;
    const auto stride = numbers("stride", dims), padding = numbers("padding", dims),
               dilation = numbers("dilation", dims),
               more =
                   transposed ? numbers("output_padding", dims) : std::vector<std::int64_t>(dims);
    if (!x || !weight || !parts || *parts < 1 || x->dtype != weight->dtype ||
        x->sizes.size() != dims + 2 || weight->sizes.size() != dims + 2 || stride.size() != dims ||
        padding.size() != dims || dilation.size() != dims || more.size() != dims)
      return nullptr;
    const bool all_known = std::all_of(x->sizes.begin() + 1, x->sizes.end(),
                                       [](const Dim& dim) { return dim.known(); });
    const std::int64_t first = weight->sizes[0].value, second = weight->sizes[1].value;
    if (!all_known || x->sizes[1].value % *parts != 0 || first % *parts != 0 ||
        x->sizes[1].value != (transposed ? first : second * *parts))
      return nullptr;
    const Dim channels = transposed ? second * *parts : first;
    if (bias && (bias->dtype != x->dtype || bias->sizes.size() != 1 ||
                 !same_size(bias->sizes[0], channels)))
      return nullptr;
    Sizes sizes{x->sizes[0], channels};
    for (std::size_t i = 0; i < dims; ++i) {
      const std::int64_t size = x->sizes[i + 2].value, kernel = weight->sizes[i + 2].value;
      constexpr std::int64_t kMost = 1 << 30;  // so that products of two do not overflow
      if (stride[i] < 1 || padding[i] < 0 || dilation[i] < 1 || more[i] < 0 ||
          std::max({size, kernel, stride[i], padding[i], dilation[i], more[i]}) > kMost)
        return nullptr;
      // The formulas of torch.nn.Conv2d and ConvTranspose2d.
      const std::int64_t reach = dilation[i] * (kernel - 1);
      const std::int64_t room = transposed
                                    ? (size - 1) * stride[i] - 2 * padding[i] + reach + more[i]
                                    : size + 2 * padding[i] - reach - 1;
      if (room < 0) return nullptr;
      sizes.emplace_back(transposed ? room + 1 : room / stride[i] + 1);
    }
    return like(*x, std::move(sizes));
  }

  // Its kernels want the same leading sizes; key and value may have fewer heads where asked for.
  TypePtr attention() const {
    const TypePtr q = type("query"), k = type("key"), v = type("value"), mask = type("attn_mask");
    if (!q || !k || !v || q->sizes.size() < 3 || k->sizes.size() != q->sizes.size() ||
        v->sizes.size() != q->sizes.size())
      return nullptr;
    if (k->dtype != q->dtype || v->dtype != q->dtype || !c10::isFloatingType(q->dtype))
      return nullptr;
    const std::size_t rank = q->sizes.size();
    const Arg* grouped = arg("enable_gqa");
    const bool groups = grouped && *grouped == Arg(true);
    for (std::size_t i = 0; i + 2 < rank; ++i) {
      if (!same_size(k->sizes[i], v->sizes[i])) return nullptr;
      if (same_size(q->sizes[i], k->sizes[i])) continue;
      // enable_gqa repeats each head of key and value as often as needed.
      const bool heads = groups && i + 3 == rank && q->sizes[i].known() && k->sizes[i].known() &&
                         k->sizes[i].value > 0 && q->sizes[i].value % k->sizes[i].value == 0;
      if (!heads) return nullptr;
    }
    if (!same_size(q->sizes.back(), k->sizes.back()) ||
        !same_size(k->sizes[rank - 2], v->sizes[rank - 2]))
      return nullptr;
    Sizes scores = q->sizes;
    scores.back() = k->sizes[rank - 2];
    if (mask) {
      if (mask->dtype != q->dtype && mask->dtype != c10::ScalarType::Bool) return nullptr;
      if (mask->sizes.size() < 2) return nullptr;
      const auto whole = broadcast(scores, mask->sizes);
      if (!whole || !same_sizes(*whole, scores)) return nullptr;
    }
    Sizes sizes = q->sizes;
    sizes.back() = v->sizes.back();
    return like(*q, std::move(sizes));
  }

  const std::string_view op_;
  const ArgumentByName& argument_;
  const TypeOfArg& type_of_;
};

// ---- along a graph without types ---------------------------------------------------------------

constexpr int kMaxDepth = 64;  // of a chain of untyped nodes; bounds the recursion

bool integer(const Model& model, NodeId id, int depth) {
  if (const auto dtype = known_dtype(model, id))
    return !c10::isFloatingType(*dtype) && !c10::isComplexType(*dtype);
  const Node& node = model.graph()[id];
  // Too deep to tell: "may be" is the safe answer.
  if (depth == kMaxDepth) return true;
  if (node.op == Opcode::placeholder || node.op == Opcode::get_attr) return false;
  const Call call(model, node);
  // x.shape and x.ndim: what else getattr returns is a tensor or unknown.
  if (call.is("getattr")) {
    const Arg* what = argument(node, 1, "name");
    const auto* name = what ? what->get<std::string>() : nullptr;
    return name && (*name == "shape" || *name == "ndim");
  }
  if (call.facts() & kYieldsIntegers) return true;
  if (!(call.facts() & kKeepsIntegers)) return false;
  bool all = true;
  for_each_input(node, [&](NodeId input) { all = all && integer(model, input, depth + 1); });
  return all;
}

// flatten(x, 1) of anything yields two dimensions.
bool flattens_to_matrix(const Call& call) {
  return call.is("flatten") && call.argument("start_dim") == Arg(1) &&
         call.argument("end_dim") == Arg(-1);
}

}  // namespace

TypePtr result_type(std::string_view op, const ArgumentByName& argument, const TypeOfArg& type_of) {
  return ResultType(op, argument, type_of).get();
}

std::optional<c10::ScalarType> known_dtype(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (node.type) return node.type->dtype;
  const Name& name = bound_state(node);
  if (name.empty()) return std::nullopt;
  const StateId state = model.state().find(name);
  return state ? std::optional(model.state().tensor(state).scalar_type()) : std::nullopt;
}

bool may_be_integer(const Model& model, NodeId node) { return integer(model, node, 0); }

std::optional<std::size_t> known_rank(const Model& model, NodeId id) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const Node& node = model.graph()[id];
    if (node.type) return node.type->sizes.size();
    const Call call(model, node);
    if (flattens_to_matrix(call)) return 2;
    const NodeId input = first_input(node);
    if (!input || !(call.facts() & kKeepsRank)) return std::nullopt;
    id = input;
  }
  return std::nullopt;
}

}  // namespace refx::book
