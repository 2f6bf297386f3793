// SPDX-License-Identifier: Apache-2.0

// Calls operators of torch with hostile arguments, as the executor would: every one that a model
// may call, each in child processes, in memory between inaccessible pages. A child that ends with a
// signal is a failure; an exception is a correct answer.
//
// usage: refx_fuzz_aten SEEDS [--calls N] [--ops FILE] [--op NAME [--call INDEX]]
//
// SEEDS has valid calls (make_seeds.py). Call INDEX of an operator has the same arguments each
// time, so --op and --call repeat one. FILE lists operators to test instead of those that a model
// may call.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "book/allowed_ops.h"
#include "call.h"
#include "guarded_memory.h"
#include "refx/error.h"

namespace refx::fuzz {
namespace {

constexpr std::uint64_t kBatch = 1000;       // calls of one child
constexpr unsigned kSeconds = 10;            // of one call
constexpr rlim_t kMemory = rlim_t{8} << 30;  // addresses of one child
constexpr int kMostFaults = 5;               // of an operator; then it is skipped

using Seeds = std::map<std::string, std::vector<Arguments>>;

Seeds read_seeds(const char* path) {
  std::ifstream file(path);
  if (!file) throw Error(std::string("cannot read ") + path);
  Seeds seeds;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    in >> name;
    Arguments arguments;
    while (in >> std::ws && !in.eof()) arguments.push_back(read_value(in));
    seeds[name].push_back(std::move(arguments));
  }
  return seeds;
}

struct Operator {
  c10::OperatorHandle handle;
  std::string name;
  std::vector<const Arguments*> seeds;  // those that fit the schema of this torch
};

// What a child reports while it runs.
struct Progress {
  std::uint64_t call;      // that is under way
  std::uint64_t returned;  // calls that ended without an exception
};

class Search {
 public:
  Search(const Seeds& seeds, Progress* progress) : progress_(progress) {
    for (const auto& [name, calls] : seeds)
      for (const Arguments& call : calls)
        if (!call.empty()) pool_.push_back(&call);
  }

  // The arguments of a call, and the random numbers that its tensors are filled with.
  std::pair<Arguments, Random> arguments(const Operator& op, std::uint64_t index) const {
    Random random(static_cast<unsigned>(std::hash<std::string>()(op.name) + index * 2654435761u));
    random.discard(3);
    const c10::FunctionSchema& schema = op.handle.schema();
    if (op.seeds.empty() || index % 8 == 7) return {make_arguments(schema, random), random};
    Arguments arguments = *op.seeds[index % op.seeds.size()];
    if (index >= op.seeds.size()) distort(arguments, schema, pool_, random);
    return {std::move(arguments), random};
  }

  // Returns whether the call ended without an exception.
  bool try_call(const Operator& op, std::uint64_t index) const {
    auto [values, random] = arguments(op, index);
    try {
      call(op.handle, values, random);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void work(const Operator& op, std::uint64_t first, std::uint64_t last) const {
    const rlimit memory{kMemory, kMemory}, none{0, 0};
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &none);
    std::freopen("/dev/null", "w", stderr);
    for (std::uint64_t i = first; i < last; ++i) {
      progress_->call = i;
      alarm(kSeconds);
      progress_->returned += try_call(op, i);
    }
    _exit(0);
  }

  // Returns how many calls ended with a signal.
  int run(const Operator& op, std::uint64_t calls) {
    int faults = 0, slow = 0;
    progress_->returned = 0;
    for (std::uint64_t next = 0; next < calls && faults < kMostFaults;) {
      const std::uint64_t last = std::min(next + kBatch, calls);
      const pid_t child = fork();
      if (child == 0) work(op, next, last);
      int status = 0;
      waitpid(child, &status, 0);
      next = last;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      next = progress_->call + 1;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        if (++slow == kMostFaults) break;
        continue;
      }
      ++faults;
      report(op, progress_->call, status);
    }
    std::printf("%s: %lu calls, %lu returned, %d slow, %d faults%s\n", op.name.c_str(),
                static_cast<unsigned long>(calls), static_cast<unsigned long>(progress_->returned),
                slow, faults, op.seeds.empty() ? ", no seeds" : "");
    std::fflush(stdout);
    return faults;
  }

  void report(const Operator& op, std::uint64_t index, int status) const {
    std::string text;
    for (const Value& value : arguments(op, index).first)
      text += (text.empty() ? "" : ", ") + value.str();
    std::printf("fault: %s --call %lu: %s: (%s)\n", op.name.c_str(),
                static_cast<unsigned long>(index),
                WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit", text.c_str());
    std::fflush(stdout);
  }

 private:
  std::vector<const Arguments*> pool_;
  Progress* progress_;
};

std::vector<Operator> operators(const Seeds& seeds, const std::string& file,
                                const std::string& only) {
  std::vector<std::string> names;
  if (file.empty()) {
    names = book::allowed_ops();
  } else {
    std::ifstream in(file);
    for (std::string line; in >> line;) names.push_back(line);
  }
  std::vector<Operator> all;
  for (const std::string& name : names) {
    if (!only.empty() && name != only) continue;
    const auto dot = name.find('.');
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1)});
    if (!handle) continue;  // of another version of torch
    Operator& op = all.emplace_back(Operator{*handle, name, {}});
    if (const auto it = seeds.find(name); it != seeds.end())
      for (const Arguments& call : it->second)
        if (call.size() == handle->schema().arguments().size()) op.seeds.push_back(&call);
  }
  return all;
}

int run(int argc, char** argv) {
  std::string file, only;
  std::uint64_t calls = 10000, one = UINT64_MAX;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--ops") file = argv[i + 1];
    if (flag == "--op") only = argv[i + 1];
    if (flag == "--calls") calls = std::stoull(argv[i + 1]);
    if (flag == "--call") one = std::stoull(argv[i + 1]);
  }
  const Seeds seeds = read_seeds(argv[1]);
  at::set_num_threads(1);
  c10::SetStackTraceFetcher([] { return std::string(); });  // most calls throw
  use_guarded_memory();
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Search search(seeds, progress);
  std::uint64_t made = 0;
  int faults = 0, tried = 0;
  for (const Operator& op : operators(seeds, file, only)) {
    if (one != UINT64_MAX) {
      search.report(op, one, 0);
      std::printf("%s\n", search.try_call(op, one) ? "returned" : "threw");
      return 0;
    }
    faults += search.run(op, calls);
    made += calls;
    ++tried;
  }
  std::printf("%d operators, %lu calls, %d faults\n", tried, static_cast<unsigned long>(made),
              faults);
  return tried > 0 && faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace refx::fuzz

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: refx_fuzz_aten SEEDS [--calls N] [--ops FILE] [--op NAME]\n");
    return 2;
  }
  return refx::fuzz::run(argc, argv);
}
