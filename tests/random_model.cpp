// SPDX-License-Identifier: Apache-2.0

#include "random_model.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <unordered_map>

#include "writer.h"

namespace refx::testing {

namespace {

using Sizes = std::vector<std::int64_t>;

// Whether a number says yes, which one in n does.
bool one_in(int n, int number) { return number % n == n - 1; }

template <class T>
T pick(std::initializer_list<T> options, int number) {
  return options.begin()[static_cast<std::size_t>(number) % options.size()];
}

class Interpreter {
 public:
  explicit Interpreter(const Recipe& recipe)
      : recipe_(recipe),
        writer_(pick({Spelling::aten, Spelling::functional, Spelling::module}, recipe.spelling),
                pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}, recipe.dtype),
                recipe.seed) {
    writer_.set_requires_grad(one_in(4, recipe.grad));
  }

  Model make() {
    push(writer_.input(pick<Sizes>(
        {{3, 8}, {3, 8}, {2, 3, 8}, {2, 3, 8}, {2, 4, 5, 5}, {2, 4, 5, 5}, {2, 4, 3, 3, 3}},
        recipe_.input)));
    std::vector<NodeId> outputs;
    for (const Instruction& i : recipe_.instructions) {
      const NodeId before = live_.back();
      add(i);
      if (one_in(6, i.output) && live_.back() != before) outputs.push_back(live_.back());
    }
    if (outputs.empty() || outputs.back() != live_.back()) outputs.push_back(live_.back());
    return writer_.build(Tuple{Args(outputs.begin(), outputs.end())});
  }

 private:
  void push(NodeId id) { live_.push_back(id); }

  // Mostly a recent value, so that chains grow; sometimes any, so that inputs are shared.
  NodeId value(int number) const {
    const std::size_t reach =
        one_in(3, number) ? live_.size() : std::min<std::size_t>(live_.size(), 2);
    return live_[live_.size() - 1 - static_cast<std::size_t>(number) / 3 % reach];
  }

  void add(const Instruction& i) {
    const NodeId x = value(i.from);
    const at::Tensor& v = writer_.value(x);
    if (!at::isFloatingType(v.scalar_type()) || v.dim() == 0) return;
    // Of what is out of range they leave the sign, which rounding turns.
    const bool saturates = i.kind % 12 == 0 || i.kind % 12 == 7;
    if (saturates && !at::isfinite(v.to(at::kFloat)).all().item<bool>()) return;
    switch (i.kind % 12) {
      case 0:
        return push(writer_.call(pick<std::string>({"relu", "tanh", "sigmoid"}, i.a), {x}));
      case 1:
      case 2:
      case 3:
        return linears(x, i);
      case 4:
      case 5:
        return normed(x, i);
      case 6:
        return push(
            writer_.divide(x, pick<Arg>({2, 7, 49, 0.1, -3.0, 8.0, 0, 1e300, 1e-300}, i.a)));
      case 7:
        return in_place(x, i);
      case 8:
        return view(x, i);
      case 9:
        return idle(x, i);
      case 10:
        return scaled(x, i);
      default:
        if (one_in(2, i.a)) return push(one_in(2, i.b) ? writer_.branch(x) : writer_.region(x));
        return push(writer_.call("add", {x, x}, "Tensor"));
    }
  }

  void linears(NodeId x, const Instruction& i) {
    for (int n = 0; n <= i.count % 4; ++n) {
      const bool again = one_in(15, i.b + n) && !layers_.empty();
      const std::string name =
          again ? layers_[static_cast<std::size_t>(i.b) / 15 % layers_.size()]
                : (one_in(2, i.c + n) ? "block.l" : "l") + std::to_string(live_.size());
      linear(x, name, pick<std::int64_t>({4, 8, 6}, i.a + n), !one_in(3, i.a / 3 + n));
      if (one_in(4, i.d + n)) normed_on(live_.back(), i.e);
    }
  }

  // A layer of this name, or the one that has it, if it fits.
  void linear(NodeId x, const std::string& name, std::int64_t out, bool bias) {
    const std::int64_t in = writer_.value(x).size(-1);
    const auto [known, fresh] = shapes_.try_emplace(name, Sizes{in, out, bias});
    if (known->second[0] != in) return;
    push(writer_.linear(x, name, known->second[1], known->second[2] != 0));
    if (fresh) layers_.push_back(name);
  }

  void normed(NodeId x, const Instruction& i) {
    const std::int64_t dim = writer_.value(x).dim();
    if (dim == 4 || dim == 5 || (dim == 3 && one_in(2, i.e / 2))) {
      const std::int64_t in = writer_.value(x).size(1),
                         groups = one_in(2, i.b) ? pick<std::int64_t>({2, in}, i.b / 2) : 1;
      if (in % groups) return;
      push(writer_.conv(x, "conv" + std::to_string(live_.size()), 2 * groups,
                        {.groups = groups,
                         .stride = pick<std::int64_t>({1, 1, 2}, i.c),
                         .transposed = one_in(dim == 4 ? 4 : 2, i.a),
                         .bias = !one_in(3, i.d)}));
    }
    normed_on(one_in(6, i.count) ? x : live_.back(), i.e);
  }

  void normed_on(NodeId x, int number) {
    const auto dim = writer_.value(x).dim();
    if (dim < 2 || dim > 5) return;
    push(writer_.norm(x, "bn" + std::to_string(live_.size()),
                      {.affine = !one_in(4, number),
                       .training = one_in(8, number / 4),
                       .track = !one_in(8, number / 32)}));
  }

  void in_place(NodeId x, const Instruction& i) {
    // Weights and inputs are left alone: the model must give the same result twice.
    const NodeId copy = writer_.call("mul", {x, 1.5}, "Tensor");
    push(copy);
    if (one_in(2, i.a)) push(writer_.call("mul", {x, 1.5}, "Tensor"));
    if (one_in(2, i.d)) linears(copy, i);
    push(writer_.call(pick<std::string>({"relu_", "tanh_", "neg_"}, i.e), {copy}));
    if (one_in(2, i.c)) linears(copy, i);
  }

  void view(NodeId x, const Instruction& i) {
    const at::Tensor& v = writer_.value(x);
    if (!v.is_contiguous() || one_in(3, i.a)) {
      if (v.dim() >= 2) push(writer_.call("transpose", {x, 0, 1}, "int"));
      return;
    }
    switch (i.b % 3) {
      case 0:
        return push(writer_.call("view", {x, List{{-1, v.size(-1)}}}));
      case 1:
        return push(writer_.call("view", {x, List{{v.size(0), -1}}}));
      default:
        return push(writer_.call("flatten", {x, 1}, "using_ints"));
    }
  }

  // Hands x on.
  void idle(NodeId x, const Instruction& i) {
    switch (i.a % 4) {
      case 0:
        return push(writer_.call("dropout", {x, 0.1, false}));
      case 1:
        return push(writer_.call("clone", {x}));
      case 2:
        return push(writer_.call("mul", {x, 1}, "Tensor"));
      default:
        return push(writer_.call("reshape", {x, List{Args(writer_.value(x).sizes().begin(),
                                                          writer_.value(x).sizes().end())}}));
    }
  }

  // By what depends on a stored tensor alone.
  void scaled(NodeId x, const Instruction& i) {
    const at::Tensor scale = writer_.random({writer_.value(x).size(-1)});
    scale.set_requires_grad(one_in(3, i.a));
    const NodeId stored = writer_.buffer("scale" + std::to_string(live_.size()), scale);
    NodeId factor = writer_.call("tanh", {stored});
    if (one_in(2, i.b)) factor = writer_.call("mul", {factor, factor}, "Tensor");
    push(writer_.call("mul", {x, factor}, "Tensor"));
  }

  const Recipe& recipe_;
  Writer writer_;
  std::vector<NodeId> live_;
  std::vector<std::string> layers_;
  std::unordered_map<std::string, Sizes> shapes_;  // in, out and whether it has a bias
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Recipe& recipe) {
  out << "spelling " << recipe.spelling << ", dtype " << recipe.dtype << ", grad " << recipe.grad
      << ", input " << recipe.input << ", seed " << recipe.seed;
  for (const Instruction& i : recipe.instructions) {
    out << "\n ";
    for (const int number : {i.kind, i.from, i.count, i.a, i.b, i.c, i.d, i.e, i.output})
      out << ' ' << number;
  }
  return out;
}

rc::Gen<Recipe> any_recipe() {
  using rc::gen::set;
  const auto n = any_number();
  const auto instruction = rc::gen::build<Instruction>(
      set(&Instruction::kind, n), set(&Instruction::from, n), set(&Instruction::count, n),
      set(&Instruction::a, n), set(&Instruction::b, n), set(&Instruction::c, n),
      set(&Instruction::d, n), set(&Instruction::e, n), set(&Instruction::output, n));
  return rc::gen::build<Recipe>(
      set(&Recipe::instructions, up_to(18, instruction)), set(&Recipe::spelling, n),
      set(&Recipe::dtype, n), set(&Recipe::grad, n), set(&Recipe::input, n), set(&Recipe::seed, n));
}

Model make_model(const Recipe& recipe) { return Interpreter(recipe).make(); }

}  // namespace refx::testing
