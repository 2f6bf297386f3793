// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "refx/hint.h"
#include "util/first_line.h"

namespace refx {

namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

constexpr auto kBeat = 500ms;    // how often a process says that it is alive
constexpr auto kSilence = 5s;    // after which it is taken for dead
constexpr auto kPatience = 60s;  // for the store to come up

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int number(const char* name, int low, int high) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw Error(fmt::format("{}='{}' is not a number from {} to {}; torchrun sets it", name, text,
                            low, high));
  return value;
}

}  // namespace

class Ranks::Store {
 public:
  Store(int rank, int count)
      : rank(rank),
        count(count),
        holds(rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True"),
        name(fmt::format("{}-{:x}", rank, std::random_device()())) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
    options.isServer = holds;
    options.waitWorkers = false;
    options.timeout = kPatience;
    const std::string host = variable("MASTER_ADDR");
    try {
      store_ = c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const std::exception& error) {
      throw Error(fmt::format("the store of torchrun at {}:{} cannot be reached: {}", host,
                              options.port, first_line(error.what())));
    }
    prefix_ = "refx/" + variable("TORCHELASTIC_RUN_ID") + "/" +
              variable("TORCHELASTIC_RESTART_COUNT") + "/";
    set("name/" + std::to_string(rank), name);
    beats_ = std::thread([this] { beat(); });
  }

  ~Store() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    beats_.join();
  }

  template <class F>
  auto with(F&& f) {
    try {
      return f(*store_);
    } catch (const std::exception& error) {
      throw HintedError(fmt::format("the store of torchrun is gone: {}", first_line(error.what())),
                        Hint::resume);
    }
  }

  std::optional<std::string> get(const std::string& key) {
    return with([&](c10d::Store& store) -> std::optional<std::string> {
      if (!store.check({prefix_ + key})) return std::nullopt;
      return store.get_to_str(prefix_ + key);
    });
  }
  void set(const std::string& key, const std::string& value) {
    with([&](c10d::Store& store) { store.set(prefix_ + key, value); });
  }
  // The value that is there afterwards: this one, if there was none.
  std::string set_once(const std::string& key, const std::string& value) {
    return with([&](c10d::Store& store) { return store.compareSet(prefix_ + key, "", value); });
  }

  // Whether the process has said something lately.
  bool alive(const std::string& other) {
    const std::string now = get("beat/" + other).value_or("");
    auto& [beat, since] = heard_[other];
    const Time time = std::chrono::steady_clock::now();
    if (since == Time{} || beat != now) beat = now, since = time;
    return time - since < kSilence;
  }

  const int rank, count;
  const bool holds;        // the store; otherwise the first process does, or torchrun's agent
  const std::string name;  // another one if the process is started again

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    for (int i = 0; !over_; ++i) {
      try {
        set("beat/" + name, std::to_string(i));
      } catch (const Error&) {
        return;  // those who need the store will say so
      }
      wake_.wait_for(lock, kBeat, [this] { return over_; });
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::string prefix_;
  std::map<std::string, std::pair<std::string, Time>> heard_;
  std::thread beats_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
};

std::unique_ptr<Ranks> Ranks::from_environment() {
  constexpr int kMost = 1 << 20;
  if (variable("RANK").empty() || variable("WORLD_SIZE").empty()) return nullptr;
  const int count = number("WORLD_SIZE", 1, kMost);
  if (count == 1) return nullptr;
  return std::unique_ptr<Ranks>(
      new Ranks(std::make_unique<Store>(number("RANK", 0, count - 1), count)));
}

Ranks::Ranks(std::unique_ptr<Store> store) : store_(std::move(store)) {}
Ranks::~Ranks() {
  try {
    store_->set("left/" + std::to_string(rank()), "yes");
    for (int other = 0; store_->holds && !std::uncaught_exceptions() && other < count(); ++other) {
      const std::string number = std::to_string(other);
      while (!store_->get("left/" + number) &&
             store_->alive(store_->get("name/" + number).value_or("")))
        wait();
    }
  } catch (const std::exception&) {
  }
}
int Ranks::rank() const { return store_->rank; }
int Ranks::count() const { return store_->count; }

bool Ranks::claim(const std::string& task) {
  const std::string& self = store_->name;
  for (int n = 0;; ++n) {
    const std::string turn = fmt::format("owner/{}/{}", task, n);
    if (const auto owner = store_->get(turn)) {
      if (*owner == self || store_->alive(*owner)) return false;
      continue;  // it died: the next owner
    }
    return store_->set_once(turn, self) == self;
  }
}

void Ranks::publish(const std::string& task, const std::string& result) {
  store_->set("result/" + task, result);
}
std::optional<std::string> Ranks::result(const std::string& task) {
  return store_->get("result/" + task);
}
void Ranks::wait() const { std::this_thread::sleep_for(200ms); }

}  // namespace refx
