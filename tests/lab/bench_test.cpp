// SPDX-License-Identifier: Apache-2.0

#include "refx/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kit.h"
#include "lab/bench/contest.h"
#include "lab/bench/statistics.h"
#include "refx/bisect.h"
#include "refx/report.h"
#include "refx/run.h"
#include "refx/tune.h"
#include "refx/verify.h"

namespace refx {
namespace {

using namespace testing;

// ---- statistics --------------------------------------------------------------------------------

TEST(Statistics, Quantiles) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5}, 0.25), 2);
  EXPECT_EQ(quantile({7}, 0.9), 7);
}

TEST(Statistics, TheIntervalHoldsTheMedianAsOftenAsItSays) {
  std::mt19937_64 random(5);
  std::cauchy_distribution<double> heavy(2.0, 1.0);  // no mean, but a median
  int holds = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<double> values(20);
    for (double& v : values) v = heavy(random);
    holds += bootstrap_median(values, 0.95, static_cast<std::uint64_t>(i)).holds(2.0);
  }
  EXPECT_GE(holds, 472);
  EXPECT_LE(holds, 497);
}

// ---- a machine made up -------------------------------------------------------------------------

// Runs take the time that is written into `cost`, on a machine that drifts, is interrupted, and
// gives every runner a lucky or unlucky place in memory.
class Simulated : public Clock {
 public:
  explicit Simulated(std::uint64_t seed, double noise = 0.05) : random_(seed), noise_(noise) {}

  double time(const std::function<void()>& run, int times) override {
    double all = 0;
    for (int i = 0; i < times; ++i) {
      run();
      double t = cost_ * (1 + 0.2 * std::sin(now_)) * std::exp(noise_ * normal_(random_));
      if (random_() % 50 == 0) t += 4e-3;  // someone else's turn
      all += t;
    }
    now_ += all;
    return all;
  }
  double now() override { return now_; }

  MakeRunner runs(double cost) {
    return [this, cost] {
      const double luck = std::exp(0.01 * normal_(random_));
      return [this, cost, luck] { cost_ = cost * luck; };
    };
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double noise_, now_ = 0, cost_ = 0;
};

// … of a hundred contests.
int times(Speed speed, double before, double after, double noise = 0.05) {
  int all = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Simulated clock(seed, noise);
    all += contest(clock.runs(before), clock.runs(after), clock, {.seed = seed}).speed == speed;
  }
  return all;
}

TEST(Contest, EqualModelsAreEqual) { EXPECT_GE(times(Speed::no_difference, 1e-3, 1e-3), 98); }
TEST(Contest, SlowModelsToo) { EXPECT_GE(times(Speed::no_difference, 0.1, 0.1), 98); }
TEST(Contest, AFewPercentAreSeen) {
  EXPECT_GE(times(Speed::faster, 1.03e-3, 1e-3), 99);
  EXPECT_GE(times(Speed::slower, 1e-3, 1.03e-3), 99);
}
TEST(Contest, SaysWhenItCannotTell) { EXPECT_GE(times(Speed::unstable, 0.2, 0.2, 1.0), 90); }

TEST(Contest, RunsAtLeastTheRoundsAndSecondsAskedFor) {
  Simulated clock(1);
  double last = 0;
  const Contest c = contest(clock.runs(1e-4), clock.runs(2e-4), clock,
                            {.rounds = 12, .seconds = 2, .progress = [&](double part) {
                               EXPECT_GE(part, last);
                               last = part;
                             }});
  EXPECT_GE(c.rounds.size(), 12u);
  EXPECT_GE(clock.now(), 2);
  EXPECT_LE(clock.now(), 7);
  EXPECT_EQ(last, 1);
  EXPECT_NEAR(c.ratio, 0.5, 0.02);
  EXPECT_LE(c.low, c.ratio);
  EXPECT_GE(c.high, c.ratio);
  EXPECT_NEAR(c.before.median, 1e-4, 3e-5);
  EXPECT_GT(c.before.runs, 1000u);
}

// ---- models ------------------------------------------------------------------------------------

constexpr const char* kCounter = R"(buffer n : f32[1]
graph():
    %b_n : f32[1] [num_users=1] = placeholder[target=b_n](state=n)
    %x : f32[64, 64] [num_users=1] = placeholder[target=x]
    %div : f32[64, 64] [num_users=1] = call_function[target=aten.div.Tensor](args = (%x, 4.0), kwargs = {})
    %more : f32[1] [num_users=1] = call_function[target=aten.add_.Tensor](args = (%b_n, 1.0), kwargs = {})
    %out : f32[64, 64] [num_users=1] = call_function[target=aten.add.Tensor](args = (%div, %more), kwargs = {})
    return out)";

// An honest, expensive nothing.
class SlowDown : public ReversibleTransformation {
 public:
  std::string name() const override { return "slow-down"; }
  Findings find(const Model& model) const override {
    Findings all;
    for (NodeId id : model.graph())
      if (model.graph()[id].target == "aten.div.Tensor" &&
          model.graph()[*model.graph()[id].args[0].get<NodeId>()].op == Opcode::placeholder)
        all.sites.push_back({model.graph()[id].name, {id}});
    return all;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    const NodeId div = site.nodes[0];
    NodeId x = *editor.graph()[div].args[0].get<NodeId>();
    for (const char* target : {"aten.sin.default", "aten.asin.default"})
      x = editor.insert_before(div, {.target = target, .args = {x}});
    editor.set_arg(div, 0, x);
    return std::nullopt;
  }
};

BenchOptions quick() { return {.measure = {.threads = 1, .seconds = 0.1}, .rounds = 10}; }

TEST(Bench, ComparesWithTheOriginalAndTellsEachStep) {
  Model model = parse_filled(kCounter);
  SlowDown()(model);
  find_transformation("change-true-div-to-mul-by-inverse")(model);
  const std::string before = snapshot(model);
  const int threads = at::get_num_threads();
  BenchOptions options = quick();
  options.per_step = true;
  const Benchmark b = bench(model, options);
  EXPECT_EQ(b.contest.speed, Speed::slower) << to_text(b);
  EXPECT_LT(b.contest.ratio, 0.8);
  ASSERT_EQ(b.steps.size(), 2u);
  EXPECT_EQ(b.steps[0].transformation, "slow-down");
  EXPECT_EQ(b.steps[0].contest.speed, Speed::slower);
  EXPECT_EQ(b.before, "its original");
  EXPECT_EQ(b.inputs, "generated with seed 0, f32[64, 64]");
  EXPECT_EQ(b.threads, 1);
  // The counter was not touched, and neither were the threads.
  EXPECT_EQ(snapshot(model), before);
  EXPECT_EQ(at::get_num_threads(), threads);
  const std::string text = to_text(b);
  EXPECT_NE(text.find("slower: 0."), std::string::npos) << text;
  EXPECT_NE(text.find("1 thread, inference mode"), std::string::npos) << text;
}

TEST(Bench, ProgressCanEndIt) {
  const Model model = parse_filled(kCounter);
  BenchOptions options = quick();
  std::size_t calls = 0;
  options.measure.progress = [&](const Progress& now) {
    EXPECT_LE(now.done, now.total);
    if (++calls == 3) throw Error("enough");
  };
  EXPECT_EQ(error_of([&] { bench(model, options); }), "enough");
}

TEST(Bench, RefusesWhatCannotBe) {
  const Model model = parse_filled(kCounter);
  const auto error = [&](auto change) {
    BenchOptions options = quick();
    change(options);
    return error_of([&] { bench(model, options); });
  };
  EXPECT_EQ(error([](BenchOptions& o) { o.measure.device = "tpu"; }),
            "'tpu' is not a device; devices are cpu, cuda and cuda:N");
  EXPECT_EQ(error([](BenchOptions& o) { o.cuda_graph = true; }),
            "a CPU has no graphs to capture; choose another device");
  EXPECT_EQ(error([](BenchOptions& o) { o.measure.batch = 3; }),
            "no input has a dynamic first dimension to be the batch: export the model with "
            "dynamic_shapes, or give inputs of that size");
  EXPECT_EQ(error([](BenchOptions& o) {
              o.measure.inputs = {{at::ones({64, 64})}, "mine"}, o.measure.batch = 3;
            }),
            "give inputs or a batch size, not both");
  EXPECT_EQ(error([](BenchOptions& o) { o.rounds = 0; }),
            "the number of rounds must be 1 or more, not 0");
  for (const double seconds : {0.0, -1.0, double{INFINITY}, double{NAN}})
    EXPECT_EQ(error([&](BenchOptions& o) { o.measure.seconds = seconds; }),
              fmt::format("the seconds must be a finite number greater than 0, not {}", seconds));
}

TEST(Bench, MeasuresAreCheckedWhereverAModelRuns) {
  Model model = parse_filled(kCounter);
  const auto expect_error = [&](const Measure& measure, const std::string& message) {
    EXPECT_EQ(error_of([&] { bench(model, {.measure = measure}); }), message);
    EXPECT_EQ(error_of([&] { verify(model, {.measure = measure}); }), message);
    EXPECT_EQ(error_of([&] { check_tolerance(model, {.measure = measure}); }), message);
    EXPECT_EQ(error_of([&] { tune(model, {.measure = measure}); }), message);
    EXPECT_EQ(error_of([&] { run_on_copies(model, measure); }), message);
    EXPECT_EQ(error_of([&] { measured_report(model, {.measure = measure}); }), message);
  };
  const int threads = at::get_num_threads();
  expect_error({.threads = kMaxThreads + 1},
               "the number of threads must be from 0 to 1024, not 1025");
  expect_error({.threads = -1}, "the number of threads must be from 0 to 1024, not -1");
  expect_error({.steps = -2}, "the number of steps must be 0 or more, not -2");
  expect_error({.batch = -1}, "the batch size must be 1 or more, not -1");
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(Bench, WordsItsAdviceForEachFace) {
  Benchmark b;
  EXPECT_TRUE(b.messages(to_string).empty());
  b.notes = {"runs vary"};
  b.advice = {Hint::one_thread, Hint::more_seconds};
  EXPECT_EQ(b.messages(to_string),
            (std::vector<std::string>{"runs vary", "what may help: one thread, more seconds"}));
  const HintFormatter words = [](Hint hint) { return "<" + to_string(hint) + ">"; };
  EXPECT_NE(to_text(b, words).find("note: what may help: <one thread>, <more seconds>\n"),
            std::string::npos);
  EXPECT_NE(to_json(b, words).find("\"what may help: <one thread>, <more seconds>\""),
            std::string::npos);
}

TEST(Bench, BatchSizesTheDynamicDimension) {
  const Model model = parse_filled(R"(graph():
    %x : f32[s0{2}, 4] [num_users=1] = placeholder[target=x]
    %y : f32[s0{2}, 4] [num_users=1] = call_function[target=aten.relu.default](args = (%x,), kwargs = {})
    return y)");
  BenchOptions options = quick();
  options.measure.batch = 7;
  EXPECT_EQ(bench(model, options).inputs, "generated with seed 0, batch 7, f32[7, 4]");
}

}  // namespace
}  // namespace refx
