// Random models under random sequences of rewrites and reversals. Every case is made from one seed,
// which a failure prints; REFX_SEED=<seed> runs that case alone, REFX_CASES=<n> sets how many.

#include <algorithm>
#include <cstdlib>
#include <random>

#include "kit.h"
#include "writer.h"

namespace refx::testing {
namespace {

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
    const std::size_t back = chance(3) ? random_() % live_.size()
                                       : random_() % std::min<std::size_t>(live_.size(), 2);
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
      case 2: return linears(x);
      case 3:
      case 4: return normed(x);
      case 5: return push(writer_.divide(x, pick<Arg>({2, 7, 49, 0.1, -3.0, 8.0, 0, 1e300, 1e-300})));
      case 6: return push(writer_.call(pick<std::string>({"relu", "tanh", "sigmoid"}), {x}));
      case 7: return in_place(x);
      case 8: return view(x);
      default: return push(writer_.call("add", {x, x}, "Tensor"));
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
      const std::int64_t in = writer_.value(x).size(1), groups = grouped ? pick<std::int64_t>({2, in}) : 1;
      if (in % groups) return;
      push(writer_.conv(x, "conv" + std::to_string(live_.size()), 2 * groups,
                        {.groups = groups, .stride = pick<std::int64_t>({1, 1, 2}),
                         .transposed = transposed, .bias = !chance(3)}));
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
      case 0: return push(writer_.call("view", {x, List{{-1, v.size(-1)}}}));
      case 1: return push(writer_.call("view", {x, List{{v.size(0), -1}}}));
      default: return push(writer_.call("flatten", {x, 1}, "using_ints"));
    }
  }

  std::mt19937_64 random_;
  Writer writer_;
  std::vector<NodeId> live_;
  std::vector<std::string> layers_;
  std::unordered_map<std::string, Sizes> shapes_;
};

// Rewrites and reverses at random; the results must never change and the end must be the start.
void check(std::uint64_t seed) {
  const Model original = RandomModel(seed).make();
  const std::string start = snapshot(original);
  const auto inputs = random_inputs(original, seed);
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15);
  Model model = original;
  for (int i = 0; i < 6; ++i) {
    if (random() % 3 == 0 && !model.history().empty()) {
      const auto live = model.history().ids();
      const auto policy = random() % 2 ? Dependents::reapply : Dependents::cascade;
      reverse(model, live[random() % live.size()], {.dependents = policy, .discard_changes = false});
      if (random() % 4 == 0) redo(model);
    } else {
      (*registry()[random() % registry().size()])(model);
    }
    validate(model);
  }
  expect_same_results(original, model, inputs);
  while (!model.history().empty()) {
    const auto live = model.history().ids();
    const auto policy = random() % 2 ? Dependents::reapply : Dependents::cascade;
    reverse(model, live[random() % live.size()], {.dependents = policy, .discard_changes = false});
    validate(model);
  }
  EXPECT_EQ(snapshot(model), start);
}

void check_all(std::uint64_t first, std::uint64_t count) {
  if (const char* seed = std::getenv("REFX_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("REFX_SEED=" + std::to_string(seed));
    try {
      check(seed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << print(RandomModel(seed).make());
    }
    if (::testing::Test::HasFailure()) return;
  }
}

std::uint64_t cases() {
  const char* text = std::getenv("REFX_CASES");
  return text ? std::strtoull(text, nullptr, 10) : 4000;
}

// Four parts, so that they can run side by side.
TEST(Property, RandomModelsFirstQuarter) { check_all(0, cases() / 4); }
TEST(Property, RandomModelsSecondQuarter) { check_all(cases() / 4, cases() / 4); }
TEST(Property, RandomModelsThirdQuarter) { check_all(cases() / 2, cases() / 4); }
TEST(Property, RandomModelsLastQuarter) { check_all(cases() * 3 / 4, cases() / 4); }

// The generator must keep reaching every transformation, or the property says nothing.
TEST(Property, RandomModelsReachEveryTransformation) {
  for (const auto& transformation : registry()) {
    std::size_t sites = 0, refusals = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const Findings findings = transformation->find(RandomModel(seed).make());
      sites += findings.sites.size();
      refusals += findings.refusals.size();
    }
    EXPECT_GT(sites, 10u) << transformation->name();
    EXPECT_GT(refusals, 10u) << transformation->name();
  }
}

}  // namespace
}  // namespace refx::testing
