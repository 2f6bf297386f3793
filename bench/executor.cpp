// SPDX-License-Identifier: Apache-2.0

// What the executor costs: a two-layer transformer (51 operators), batch 1, one thread, run three
// ways in turn: refx with planned memory, refx without, and the same operators called from C++.
// The counters are microseconds per forward (minima), and ratios to the calls from C++.
// bench/executor_peers.py compares these with PyTorch's own ways of running the model.

#include "refx/executor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <cmath>

#include "refx/builder.h"

namespace {

using refx::Arg;
using refx::Builder;
using refx::List;
using refx::NodeId;

constexpr std::int64_t kHeads = 4, kLength = 16;

struct Linear {
  at::Tensor weight, bias;
  Linear(std::int64_t in, std::int64_t out)
      : weight(at::randn({out, in}) / std::sqrt(static_cast<double>(in))), bias(at::randn({out})) {}
};

struct Block {
  Linear q, k, v, o, up, down;
  at::Tensor scale1, shift1, scale2, shift2;
  explicit Block(std::int64_t h)
      : q(h, h),
        k(h, h),
        v(h, h),
        o(h, h),
        up(h, 4 * h),
        down(4 * h, h),
        scale1(at::ones({h})),
        shift1(at::zeros({h})),
        scale2(at::ones({h})),
        shift2(at::zeros({h})) {}
};

// ---- by hand -----------------------------------------------------------------------------------

at::Tensor apply(const Linear& l, const at::Tensor& x) { return at::linear(x, l.weight, l.bias); }

at::Tensor forward(const Block& m, const at::Tensor& x, std::int64_t h) {
  std::int64_t d = h / kHeads;
  auto heads = [&](const at::Tensor& t) { return t.view({1, kLength, kHeads, d}).transpose(1, 2); };
  at::Tensor q = heads(apply(m.q, x)), k = heads(apply(m.k, x)), v = heads(apply(m.v, x));
  at::Tensor scores =
      at::div(at::matmul(q, k.transpose(-1, -2)), std::sqrt(static_cast<double>(d)));
  at::Tensor y = at::matmul(at::softmax(scores, -1), v).transpose(1, 2).reshape({1, kLength, h});
  at::Tensor z = at::layer_norm(at::add(x, apply(m.o, y)), {h}, m.scale1, m.shift1);
  return at::layer_norm(at::add(z, apply(m.down, at::gelu(apply(m.up, z)))), {h}, m.scale2,
                        m.shift2);
}

// ---- the same as a graph -----------------------------------------------------------------------

Arg sizes(std::initializer_list<std::int64_t> values) {
  return List{refx::Args(values.begin(), values.end())};
}

class Writer {
 public:
  NodeId block(const Block& m, NodeId x, std::int64_t h, const std::string& path) {
    std::int64_t d = h / kHeads;
    auto heads = [&](NodeId t) {
      NodeId split = b.call("aten.view.default", {t, sizes({1, kLength, kHeads, d})});
      return b.call("aten.transpose.int", {split, 1, 2});
    };
    NodeId q = heads(linear(m.q, x, path + "q")), k = heads(linear(m.k, x, path + "k"));
    NodeId v = heads(linear(m.v, x, path + "v"));
    NodeId scores = b.call("aten.matmul.default", {q, b.call("aten.transpose.int", {k, -1, -2})});
    scores = b.call("aten.div.Tensor", {scores, std::sqrt(static_cast<double>(d))});
    NodeId y = b.call("aten.matmul.default", {b.call("aten.softmax.int", {scores, -1}), v});
    y = b.call("aten.reshape.default",
               {b.call("aten.transpose.int", {y, 1, 2}), sizes({1, kLength, h})});
    NodeId z = norm(x, linear(m.o, y, path + "o"), m.scale1, m.shift1, h, path + "n1");
    NodeId up = b.call("aten.gelu.default", {linear(m.up, z, path + "up")});
    return norm(z, linear(m.down, up, path + "down"), m.scale2, m.shift2, h, path + "n2");
  }
  Builder b;

 private:
  NodeId linear(const Linear& l, NodeId x, const std::string& path) {
    NodeId weight = b.parameter(path + ".weight", l.weight),
           bias = b.parameter(path + ".bias", l.bias);
    return b.call("aten.linear.default", {x, weight, bias});
  }
  NodeId norm(NodeId x, NodeId y, const at::Tensor& scale, const at::Tensor& shift, std::int64_t h,
              const std::string& path) {
    NodeId weight = b.parameter(path + ".weight", scale), bias = b.parameter(path + ".bias", shift);
    NodeId sum = b.call("aten.add.Tensor", {x, y});
    return b.call("aten.layer_norm.default", {sum, sizes({h}), weight, bias});
  }
};

// ---- timing ------------------------------------------------------------------------------------

template <class F>
double microseconds(F&& f, int repeats) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) f();
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return took.count() / repeats;
}

void transformer(benchmark::State& state) {
  at::set_num_threads(1);
  c10::AutoGradMode no_grad(false);
  std::int64_t h = state.range(0);
  at::manual_seed(0);
  Block first(h), second(h);
  at::Tensor x = at::randn({1, kLength, h});

  Writer w;
  NodeId in = w.b.input("x");
  refx::Model model = w.b.build(w.block(second, w.block(first, in, h, "0."), h, "1."));
  refx::Executor planned(model), plain(model);
  plain.use_plans(false);
  std::vector<c10::IValue> inputs = {x};

  auto by_hand = [&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    benchmark::DoNotOptimize(forward(second, forward(first, x, h), h));
  };
  auto run_planned = [&] { benchmark::DoNotOptimize(planned.run(inputs)); };
  auto run_plain = [&] { benchmark::DoNotOptimize(plain.run(inputs)); };
  for (int i = 0; i < 5; ++i) by_hand(), run_planned(), run_plain();
  if (!planned.last_run_was_planned()) state.SkipWithError("the plan was not used");
  at::Tensor expected = forward(second, forward(first, x, h), h);
  bool same = planned.run(inputs).toTensor().equal(expected) &&
              plain.run(inputs).toTensor().equal(expected);
  if (!same) state.SkipWithError("results differ");

  double hand = 1e9, with_plan = 1e9, without = 1e9;
  int repeats = 5;  // few: a minimum needs short stretches without interruptions
  for (auto _ : state) {
    hand = std::min(hand, microseconds(by_hand, repeats));
    with_plan = std::min(with_plan, microseconds(run_planned, repeats));
    without = std::min(without, microseconds(run_plain, repeats));
  }
  state.counters["unboxed_us"] = hand;
  state.counters["plain_us"] = without;
  state.counters["planned_us"] = with_plan;
  state.counters["plain_ratio"] = without / hand;
  state.counters["planned_ratio"] = with_plan / hand;
}
BENCHMARK(transformer)->Arg(64)->Arg(128)->Arg(256)->Iterations(400)->Unit(benchmark::kMillisecond);

}  // namespace
