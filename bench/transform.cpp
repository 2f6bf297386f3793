// SPDX-License-Identifier: Apache-2.0

// Times of transforming and reversing, compared with one plain copy of the affected weights, in one
// run.

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <chrono>
#include <cstring>
#include <limits>

#include "models.h"

namespace refx::benchmarks {
namespace {

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The tensors that a step replaced, and its copies of them as torch::cat makes them.
std::vector<std::vector<at::Tensor>> replaced(const Model& model) {
  std::vector<std::vector<at::Tensor>> groups;
  for (const Step& step : model.history()) {
    std::vector<at::Tensor> weights;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
        if (change->before->name.ends_with("weight") && change->before->tensor.dim() > 1)
          weights.emplace_back(change->before->tensor);
    groups.push_back(std::move(weights));
  }
  return groups;
}

// Freed memory is not returned to the system, so all memory is warm after the first round.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

void transform_and_reverse(benchmark::State& state, const Model& original,
                           const std::string& transformation) {
  at::set_num_threads(1);
  keep_memory();
  const Transformation& t = find_transformation(transformation);
  Model model = original;
  double apply = 1e9, undo = 1e9, cat = 1e9, copy = 1e9;
  std::vector<char> buffer;
  for (auto _ : state) {
    const double one = seconds([&] { t(model); });
    apply = std::min(apply, one);
    const auto groups = replaced(model);
    std::vector<at::Tensor> kept;
    cat = std::min(cat, seconds([&] {
                     for (const auto& group : groups)
                       if (!group.empty()) kept.push_back(at::cat(group, 0));
                   }));
    kept.clear();
    std::size_t bytes = 0;
    for (const auto& group : groups)
      for (const at::Tensor& tensor : group) bytes += tensor.nbytes();
    buffer.resize(bytes);
    copy = std::min(copy, seconds([&] {
                      char* out = buffer.data();
                      for (const auto& group : groups)
                        for (const at::Tensor& tensor : group) {
                          std::memcpy(out, tensor.const_data_ptr(), tensor.nbytes());
                          out += tensor.nbytes();
                        }
                    }));
    undo = std::min(undo, seconds([&] { t(model, Reverse::yes); }));
    state.SetIterationTime(one);
  }
  state.counters["apply_ms"] = apply * 1e3;
  state.counters["reverse_ms"] = undo * 1e3;
  state.counters["cat_ms"] = cat * 1e3;
  state.counters["memcpy_ms"] = copy * 1e3;
  state.counters["apply/cat"] = apply / cat;
  state.counters["apply/memcpy"] = apply / copy;
}

void BertMergeLinears(benchmark::State& state) {
  transform_and_reverse(state, encoder(), "merge-linears");
}
void BertFuseBias(benchmark::State& state) {
  transform_and_reverse(state, encoder(), "fuse-bias-in-linear");
}
void ResnetFuseBatchNorm(benchmark::State& state) {
  transform_and_reverse(state, resnet50(), "fuse-batch-norm-2d-in-conv-2d");
}
BENCHMARK(BertMergeLinears)->UseManualTime()->Iterations(10)->Unit(benchmark::kMillisecond);
BENCHMARK(BertFuseBias)->UseManualTime()->Iterations(10)->Unit(benchmark::kMillisecond);
BENCHMARK(ResnetFuseBatchNorm)->UseManualTime()->Iterations(10)->Unit(benchmark::kMillisecond);

// Growth: tiny layers, so that the time is spent on the graph.
void grow(benchmark::State& state, const Model& original, const std::string& transformation) {
  const Transformation& t = find_transformation(transformation);
  const auto nodes = static_cast<double>(original.graph().size());
  Model model = original;
  double apply = 1e9, undo = 1e9;
  for (auto _ : state) {
    const double one = seconds([&] { t(model); });
    apply = std::min(apply, one);
    undo = std::min(undo, seconds([&] { t(model, Reverse::yes); }));
    state.SetIterationTime(one);
  }
  state.counters["nodes"] = nodes;
  state.counters["apply_us/node"] = apply * 1e6 / nodes;
  state.counters["reverse_us/node"] = undo * 1e6 / nodes;
}

// Searches one graph for fifty rules: the shipped ones that preserve numerics, repeated. The others
// match every linear here, and compute its new weight.
void FindFiftyRules(benchmark::State& state) {
  const Model model = encoder(static_cast<int>(state.range(0) / 25), 4, 4);
  std::vector<const Transformation*> rules;
  while (rules.size() < 50)
    for (const TransformationPtr& t : registry())
      if (rules.size() < 50 && t->preserves_computation() && dynamic_cast<const Rule*>(t.get()))
        rules.push_back(t.get());
  double all = 1e9;
  for (auto _ : state) {
    const double one = seconds([&] {
      for (const Transformation* rule : rules) benchmark::DoNotOptimize(rule->find(model));
    });
    all = std::min(all, one);
    state.SetIterationTime(one);
  }
  state.counters["nodes"] = static_cast<double>(model.graph().size());
  state.counters["seconds"] = all;
}

void GrowthMergeLinears(benchmark::State& state) {
  grow(state, encoder(static_cast<int>(state.range(0) / 25), 4, 4), "merge-linears");
}
void GrowthFuseBias(benchmark::State& state) {
  grow(state, encoder(static_cast<int>(state.range(0) / 25), 4, 4), "fuse-bias-in-linear");
}
void GrowthDivToMul(benchmark::State& state) {
  grow(state, encoder(static_cast<int>(state.range(0) / 25), 4, 4),
       "change-true-div-to-mul-by-inverse");
}
void GrowthOneSharedInput(benchmark::State& state) {
  grow(state, fan_out(static_cast<int>(state.range(0) / 3)), "merge-linears");
}
void GrowthFuseBiasOneSharedInput(benchmark::State& state) {
  grow(state, fan_out(static_cast<int>(state.range(0) / 3)), "fuse-bias-in-linear");
}
#define GROWTH(f) \
  BENCHMARK(f)->UseManualTime()->Iterations(2)->RangeMultiplier(10)->Range(1000, 1000000)
GROWTH(FindFiftyRules);
GROWTH(GrowthMergeLinears);
GROWTH(GrowthFuseBias);
GROWTH(GrowthDivToMul);
GROWTH(GrowthOneSharedInput);
GROWTH(GrowthFuseBiasOneSharedInput);

// One step out of a long history.
void ReverseFirstStep(benchmark::State& state) {
  Model model = fan_out(static_cast<int>(state.range(0)));
  find_transformation("fuse-bias-in-linear")(model);
  for (auto _ : state) {
    Model copy = model;
    state.SetIterationTime(seconds([&] { reverse(copy, StepId(1)); }));
  }
}
BENCHMARK(ReverseFirstStep)
    ->UseManualTime()
    ->Iterations(3)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);

// The first of many steps at one node, each made by a different transformation than the one before.
void ReverseUnderAlternatingSteps(benchmark::State& state) {
  Model model = fan_out(1);
  const NodeId node = *model.graph().begin();
  for (int i = 0; i < state.range(0); ++i) {
    const std::string by = i % 2 == 0 ? "even" : "odd";
    Editor editor(model);
    editor.set_marks(node, {std::to_string(i)});
    editor.commit({by, by, "here", {}});
  }
  for (auto _ : state) {
    Model copy = model;
    state.SetIterationTime(seconds([&] { reverse(copy, StepId(1)); }));
  }
}
BENCHMARK(ReverseUnderAlternatingSteps)
    ->UseManualTime()
    ->Iterations(1)
    ->Arg(125)
    ->Arg(250)
    ->Arg(500)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace refx::benchmarks
