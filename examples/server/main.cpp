// SPDX-License-Identifier: Apache-2.0

// A server without the network: tunes a model for this machine, answers requests from several
// threads, checks every answer, and goes back to the form that was trained.
//
// usage: server MODEL.pt2 SECONDS OUT.pt2
//   SECONDS: how long tune() measures a form of the model. OUT.pt2 gets the bytes of MODEL.pt2.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <refx/refx.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

namespace {

using Values = std::vector<c10::IValue>;

struct Request {
  const Values* inputs;
  c10::IValue* answer;
};

// Where requests wait for a thread.
class Queue {
 public:
  void push(Request request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(request);
    changed_.notify_one();
  }
  void close() {  // nothing more is coming
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // None once it is closed and empty.
  std::optional<Request> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return std::nullopt;
    const Request request = waiting_.front();
    waiting_.pop_front();
    return request;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  bool closed_ = false;
};

// The answers to all inputs, over and over; says how many that is in a second.
Values serve(const refx::Model& model, const std::vector<Values>& inputs, const char* name) {
  // An Executor does one run at a time, so each thread has its own; they share the weights.
  std::vector<refx::Executor> executors;
  for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i)
    executors.emplace_back(model);

  Queue queue;
  Values answers(50 * inputs.size());
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<void>> threads;
  for (refx::Executor& executor : executors)
    threads.push_back(std::async(std::launch::async, [&] {
      at::set_num_threads(1);  // of an operator
      while (const auto request = queue.pop()) *request->answer = executor.run(*request->inputs);
    }));
  for (std::size_t i = 0; i < answers.size(); ++i)
    queue.push({&inputs[i % inputs.size()], &answers[i]});
  queue.close();
  for (std::future<void>& thread : threads) thread.get();  // throws what it threw
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  std::cout << name << ": " << std::lround(static_cast<double>(answers.size()) / took.count())
            << " requests per second, " << threads.size() << " threads\n";
  return answers;
}

// Within the largest part of its scale that verify() ever explains by rounding.
bool same(const c10::IValue& answer, const c10::IValue& expected) {
  const auto now = refx::leaves(answer), then = refx::leaves(expected);
  return std::equal(now.begin(), now.end(), then.begin(), then.end(), [](auto& a, auto& b) {
    const at::Tensor x = a.value.toTensor(), y = b.value.toTensor();
    const double allowed = refx::largest_allowed(y.scalar_type()) * y.abs().max().item().toDouble();
    return x.sizes() == y.sizes() && (x - y).abs().max().item().toDouble() <= allowed;
  });
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void tune_serve_and_go_back(const std::string& path, double seconds, const std::string& out) {
  const std::string bytes = bytes_of(path);
  refx::Model model = refx::load(path);
  if (!model.history().empty()) throw refx::Error(path + " is rewritten already");
  const refx::Model original = model;  // shares the weights

  at::set_num_threads(1);
  refx::Executor alone(model);
  std::vector<Values> inputs;
  Values expected;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    inputs.push_back(refx::generated_inputs(model, seed));
    expected.push_back(alone.run(inputs.back()));
  }

  refx::tune(model,
             {.measure = {.inputs = {inputs[0], "a request"}, .threads = 1, .seconds = seconds}});
  std::cout << "tune kept " << model.history().size() << " steps\n";
  for (const refx::Step& step : model.history()) std::cout << step << '\n';

  refx::VerifyOptions on_requests{.measure = {.inputs = {inputs[0], "a request"}}};
  for (std::size_t i = 1; i < inputs.size(); ++i)
    on_requests.more_inputs.push_back({inputs[i], "a request"});
  const refx::Verification verification = refx::verify(model, on_requests);
  std::cout << "verify: " << verification.verdict() << '\n';
  if (!verification.passed()) throw refx::Error(verification.reason());

  serve(original, inputs, "as trained");
  const Values answers = serve(model, inputs, "tuned");
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (!same(answers[i], expected[i % inputs.size()]))
      throw refx::Error("answer " + std::to_string(i) + " is not the original's");
  refx::require_unchanged(*model.source());  // the weights are mapped from the file

  refx::reverse_all(model);
  refx::save(model, out);
  if (bytes_of(out) != bytes) throw refx::Error(out + " is not the file that was loaded");
  std::cout << out << " is the file that was loaded, byte for byte\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: server MODEL.pt2 SECONDS OUT.pt2\n";
    return 2;
  }
  try {
    tune_serve_and_go_back(argv[1], std::stod(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::cerr << "server: " << error.what() << '\n';
    return 1;
  }
}
