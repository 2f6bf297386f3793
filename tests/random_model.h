#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "kit.h"
#include "writer.h"

namespace refx::testing {

// A model made from one seed: linears, convolutions and batch norms in a row and side by side, with
// divisions, views and in-place operators between them.
class RandomModel {
 public:
  explicit RandomModel(std::uint64_t seed)
      : random_(seed),
        writer_(pick({Spelling::aten, Spelling::functional, Spelling::module}),
                pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}), seed) {
    writer_.set_requires_grad(chance(4));
  }

  Model make() {
    const bool images = chance(3);
    live_.push_back(images ? writer_.input({2, 4, 5, 5})
                           : writer_.input(chance(2) ? sizes({3, 8}) : sizes({2, 3, 8})));
    const int count = 3 + static_cast<int>(random_() % 14);
    for (int i = 0; i < count; ++i) add();
    Tuple outputs;
    for (std::size_t i = 0; i + 1 < live_.size(); ++i)
      if (chance(6)) outputs.items.emplace_back(live_[i]);
    outputs.items.emplace_back(live_.back());
    return writer_.build(outputs);
  }

 private:
  using Sizes = std::vector<std::int64_t>;
  static Sizes sizes(std::initializer_list<std::int64_t> list) { return list; }
  bool chance(unsigned n) { return random_() % n == 0; }
  template <class T>
  T pick(std::initializer_list<T> options) {
    return options.begin()[random_() % options.size()];
  }
  // Mostly a recent value, so that chains grow; sometimes any, so that inputs are shared.
  NodeId value() {
    const std::size_t back =
        chance(3) ? random_() % live_.size() : random_() % std::min<std::size_t>(live_.size(), 2);
    return live_[live_.size() - 1 - back];
  }
  std::string path() {
    if (!layers_.empty() && chance(15)) return layers_[random_() % layers_.size()];
    return std::string(chance(2) ? "block." : "") + "l" + std::to_string(live_.size());
  }

  void add() {
    const NodeId x = value();
    const at::Tensor& v = writer_.value(x);
    if (!at::isFloatingType(v.scalar_type()) || v.dim() == 0) return;
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
        return linears(x);
      case 3:
      case 4:
        return normed(x);
      case 5:
        return push(writer_.divide(x, pick<Arg>({2, 7, 49, 0.1, -3.0, 8.0, 0, 1e300, 1e-300})));
      case 6:
        return push(writer_.call(pick<std::string>({"relu", "tanh", "sigmoid"}), {x}));
      case 7:
        return in_place(x);
      case 8:
        return view(x);
      default:
        return push(writer_.call("add", {x, x}, "Tensor"));
    }
  }

  void push(NodeId id) { live_.push_back(id); }

  void linears(NodeId x) {
    const int count = 1 + static_cast<int>(random_() % 4);
    for (int i = 0; i < count; ++i) {
      const std::string name = path();
      const auto known = shapes_.find(name);
      const Sizes shape{writer_.value(x).size(-1), pick<std::int64_t>({4, 8, 6})};
      if (known != shapes_.end() && known->second[0] != shape[0]) continue;
      const bool bias = known == shapes_.end() ? !chance(3) : known->second[2] != 0;
      const std::int64_t out = known == shapes_.end() ? shape[1] : known->second[1];
      const std::string fresh = known == shapes_.end() ? name + "_" + std::to_string(i) : name;
      push(writer_.linear(x, fresh, out, bias));
      shapes_[fresh] = {shape[0], out, bias};
      layers_.push_back(fresh);
      if (chance(4)) normed_on(live_.back());
    }
  }

  void normed(NodeId x) {
    if (writer_.value(x).dim() == 4) {
      const bool transposed = chance(4), grouped = chance(2);
      const std::int64_t in = writer_.value(x).size(1),
                         groups = grouped ? pick<std::int64_t>({2, in}) : 1;
      if (in % groups) return;
      push(writer_.conv(x, "conv" + std::to_string(live_.size()), 2 * groups,
                        {.groups = groups,
                         .stride = pick<std::int64_t>({1, 1, 2}),
                         .transposed = transposed,
                         .bias = !chance(3)}));
    }
    normed_on(chance(6) ? x : live_.back());
  }

  void normed_on(NodeId x) {
    const auto dim = writer_.value(x).dim();
    if (dim < 2 || dim > 4) return;
    const bool track = !chance(8);
    push(writer_.norm(x, "bn" + std::to_string(live_.size()),
                      {.affine = !chance(4), .training = chance(8), .track = track}));
  }

  void in_place(NodeId x) {
    // Weights and inputs are left alone: the model must give the same result twice.
    const NodeId copy = writer_.call("mul", {x, 1.5}, "Tensor");
    push(copy);
    if (chance(2)) linears(copy);
    push(writer_.call(pick<std::string>({"relu_", "tanh_", "neg_"}), {copy}));
    if (chance(2)) linears(copy);
  }

  void view(NodeId x) {
    const at::Tensor& v = writer_.value(x);
    if (!v.is_contiguous() || chance(3)) {
      if (v.dim() >= 2) push(writer_.call("transpose", {x, 0, 1}, "int"));
      return;
    }
    switch (random_() % 3) {
      case 0:
        return push(writer_.call("view", {x, List{{-1, v.size(-1)}}}));
      case 1:
        return push(writer_.call("view", {x, List{{v.size(0), -1}}}));
      default:
        return push(writer_.call("flatten", {x, 1}, "using_ints"));
    }
  }

  std::mt19937_64 random_;
  Writer writer_;
  std::vector<NodeId> live_;
  std::vector<std::string> layers_;
  std::unordered_map<std::string, Sizes> shapes_;
};

}  // namespace refx::testing
