// SPDX-License-Identifier: Apache-2.0

#include "lab/run/run_once.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <cstring>

#include "exec/watch.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/measure.h"
#include "refx/text.h"

namespace refx {

namespace {

using c10::IValue;

// The global generators that a run may draw from.
std::vector<at::Generator> generators() {
  std::vector<at::Generator> all = {at::globalContext().defaultGenerator(c10::Device(c10::kCPU))};
  if (at::globalContext().hasCUDA())
    all.push_back(at::globalContext().defaultGenerator(c10::Device(c10::kCUDA)));
  return all;
}

std::vector<at::Tensor> states() {
  std::vector<at::Tensor> all;
  for (const at::Generator& generator : generators()) all.push_back(generator.get_state());
  return all;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

void add(Run& run, const std::string& path, const IValue& value) {
  for (Leaf& leaf : leaves(value, path)) {
    if (leaf.value.isTensor()) leaf.value = leaf.value.toTensor().cpu();
    run.values.push_back(std::move(leaf));
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void add_written_state(Run& run, const Model& before, Executor& executor) {
  run.state = executor.state();
  for (const auto& [name, now] : run.state) {
    const std::string path = fmt::format("state '{}'", name);
    const at::Tensor old(before.state().tensor(before.state().find(name)));
    if (same_bits(old, now)) run.unchanged.insert(path);
    add(run, path, now);
  }
}

// The inputs that the model says it writes.
void add_written_inputs(Run& run, const Model& model, const std::vector<IValue>& inputs) {
  std::set<std::string> written;
  for (const Mutation& mutation : model.mutations()) written.insert(mutation.target);
  std::size_t position = 0;
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (node.op != Opcode::placeholder || !node.state.empty()) continue;
    if (written.count(node.name)) add(run, fmt::format("input '{}'", node.name), inputs[position]);
    ++position;
  }
}

}  // namespace

std::string type_of_value(const IValue& value) {
  return value.isTensor() ? print(*type_of(value.toTensor())) : value.tagKind();
}

void require_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    throw Error(
        fmt::format("the number of threads must be from 0 to {}, not {}", kMaxThreads, threads));
}

Environment::Environment(int threads, bool onednn)
    : threads_(at::get_num_threads()),
      onednn_(at::globalContext().userEnabledMkldnn()),
      states_(states()) {
  require_threads(threads);
  if (threads > 0 && threads != threads_) at::set_num_threads(threads);
  if (!onednn) at::globalContext().setUserEnabledMkldnn(false);
}

Environment::~Environment() {
  at::globalContext().setUserEnabledMkldnn(onednn_);
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  std::vector<at::Generator> all = generators();
  for (std::size_t i = 0; i < all.size(); ++i) all[i].set_state(states_[i]);
}

std::vector<IValue> copies(const std::vector<IValue>& inputs) {
  std::vector<IValue> all;
  for (const IValue& input : inputs)
    all.push_back(input.isTensor() ? IValue(input.toTensor().detach().clone()) : input);
  return all;
}

namespace {

Run run_call(const Model& model, Executor& executor, const std::vector<IValue>& inputs,
             exec::Watcher* watcher, bool last) {
  const std::vector<IValue> own = copies(inputs);
  const std::vector<at::Tensor> before = states();
  Run run;
  run.output =
      nest_output(model, watcher ? exec::run_watched(executor, own, *watcher) : executor.run(own));
  if (!last) run.output = run.output.deepcopy();  // it may be state, which the next call writes
  run.random = !same(before, states());
  add(run, "output", run.output);
  add_written_inputs(run, model, own);
  return run;
}

}  // namespace

Run run_once(const Model& model, const std::vector<IValue>& inputs, std::uint64_t seed,
             exec::Watcher* watcher) {
  return std::move(run_sequence(model, {inputs, ""}, seed, watcher)[0]);
}

std::vector<Run> run_sequence(const Model& model, const Inputs& inputs, std::uint64_t seed,
                              exec::Watcher* watcher) {
  Executor executor(model);
  for (at::Generator& generator : generators()) generator.set_current_seed(seed);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < inputs.calls(); ++i) {
    try {
      const bool last = i + 1 == inputs.calls();
      runs.push_back(run_call(model, executor, inputs.call(i), watcher, last));
    } catch (const Error& error) {
      if (inputs.calls() == 1) throw;
      throw Error(fmt::format("call {} of {}: {}", i + 1, inputs.calls(), error.what()));
    }
  }
  add_written_state(runs.back(), model, executor);
  return runs;
}

}  // namespace refx
