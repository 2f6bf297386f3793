// SPDX-License-Identifier: Apache-2.0

// Long random runs that check everything that refx guarantees: for some seconds in the tests, for
// as long as TORTURE_S says in `make torture`.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <thread>

#include "archive/files.h"
#include "archive/writer.h"
#include "endurance.h"
#include "faults.h"
#include "kit.h"
#include "random_model.h"
#include "random_moves.h"
#include "refx/detach.h"
#include "refx/original.h"
#include "refx/pt2.h"

namespace refx::testing {
namespace {

using torture::endure;
using torture::Interference;
using torture::Plan;

std::vector<std::string> old_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/pt2"))
    if (entry.path().extension() == ".pt2") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

template <class T>
const T& any(const std::vector<T>& items, std::mt19937_64& random) {
  return items[random() % items.size()];
}

Model any_model(std::uint64_t seed) {
  return make_model(any_recipe()(rc::Random(seed), rc::kNominalSize).value());
}

// ---- rewrites ---------------------------------------------------------------------------------

TEST(Torture, RandomModelsEndWhereTheyStarted) {
  endure("rewrites and reversals of random models", [](std::uint64_t seed) {
    const int before = moves_made();
    check_property("models end where they started", 20, seed, ends_where_it_started);
    return moves_made() - before;
  });
}

// ---- flipped bits -----------------------------------------------------------------------------

void attach_originals(Model& model) {
  if (!detached(model).empty()) attach(model, "tests/data/pt2/convolutions.pt2");
}

// Everything visible of the model in a file, and the bytes of its original.
std::string seen(const std::string& path, const std::string& back) {
  Model model = load(path);
  check_contents(model);
  attach_originals(model);
  std::ostringstream text;
  text << content(model) << content(original_of(model));
  for (const Step& step : model.history()) text << step << '\n';
  if (model.history().empty()) return text.str();
  reverse_all(model);
  save(model, back);
  return text.str() + read_file(back);
}

TEST(Torture, AFlippedBitIsRefusedOrWithoutMeaning) {
  const Folder folder;
  const auto paths = old_files();
  std::vector<std::string> bytes, meanings;
  for (const std::string& path : paths) {
    bytes.push_back(read_file(path));
    meanings.push_back(seen(path, folder / "back.pt2"));
  }
  endure("flipped bits", [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::size_t which = random() % paths.size();
    std::string damaged = bytes[which];
    const std::uint64_t bit = random() % (damaged.size() * 8);
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write_file(folder / "damaged.pt2", damaged);
    try {
      EXPECT_EQ(seen(folder / "damaged.pt2", folder / "back.pt2"), meanings[which])
          << paths[which] << ", bit " << bit;
    } catch (const Error&) {
    }
    return 1;
  });
}

// ---- faults while saving ----------------------------------------------------------------------

class SaveFaults : public ::testing::Test {
 protected:
  // Saves over the old file, while the n-th system call fails or is the process's last.
  // Returns whether there are that many calls.
  bool strikes(const Model& model, Plan plan) {
    write_file(path_, old_);
    if (plan.error == 0) return killed(model, plan);
    bool struck = false;
    try {
      const Interference interference(Interference::system_calls, plan);
      try {
        save(model, path_);
      } catch (...) {
        struck = interference.struck();
        throw;
      }
      struck = interference.struck();
      EXPECT_EQ(read_file(path_), new_);
    } catch (const Error& error) {
      const bool written = std::string(error.what()).find("is written, but") != std::string::npos;
      EXPECT_EQ(read_file(path_), written ? new_ : old_) << error.what();
    }
    // Only a temporary name may remain, and only if it could not be removed.
    EXPECT_TRUE(plan.sticky || folder_.names().size() == 1);
    clean();
    return struck;
  }

  int strike_each_call(const Model& model) {
    int done = 0;
    for (const int error : {ENOSPC, EIO, EINTR, EACCES, 0})
      for (const bool sticky : {false, true}) {
        if (sticky && (error == EINTR || error == 0)) continue;  // for ever, or no difference
        for (int call = 0; strikes(model, {call, sticky, error}); ++call) ++done;
      }
    return done;
  }

  bool killed(const Model& model, Plan plan) {
    const pid_t child = fork();
    if (child == 0) {
      const Interference interference(Interference::system_calls, plan);
      try {
        save(model, path_);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const std::string now = read_file(path_);
    EXPECT_TRUE(now == old_ || now == new_);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    clean();
    return WIFSIGNALED(status);
  }

  void clean() {
    for (const std::string& name : folder_.names())
      if (name != "m.pt2") std::filesystem::remove(folder_ / name);
  }

  Folder folder_;
  std::string path_ = folder_ / "m.pt2";
  std::string old_ = "the file before", new_;
};

TEST_F(SaveFaults, TheFileIsOldOrNew) {
  const auto paths = old_files();
  endure("faults of save", [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Model model = load(any(paths, random));
    if (random() % 2) {
      attach_originals(model);
      reverse_all(model);
    }
    save(model, path_);
    new_ = read_file(path_);
    return strike_each_call(model);
  });
}

// Of a file so large that the disk begins with it before all of it is written.
TEST_F(SaveFaults, TheFileIsOldOrNewWhereTheDiskIsBusy) {
  const auto small = Archive::open("tests/data/pt2/encoder.pt2");
  ArchiveWriter writer(folder_ / "large.pt2", small->root());
  for (const Record& record : small->records())
    if (record.name != ".data/serialization_id")
      writer.add(record.name, {.archive = small, .record = &record});
  const std::string large(9 << 20, 'x');
  writer.add("extra/large", {.memory = large});
  writer.finish();
  const Model model = load(folder_ / "large.pt2");
  save(model, path_);
  new_ = read_file(path_);
  clean();
  EXPECT_GT(strike_each_call(model), 100);
}

// ---- no memory --------------------------------------------------------------------------------

// Fails some of the allocations of `change`, all over it, each once: there is memory for the way
// back. Where that makes it fail, the model is as it was, but for whole steps.
int starve(const Model& model, std::mt19937_64& random, const std::function<void(Model&)>& change) {
  const std::string before = snapshot(model);
  const StepId last = model.history().empty() ? StepId{} : model.history().ids().back();
  Model all = model;
  const std::int64_t calls = [&] {
    const Interference interference(Interference::allocations, {});
    change(all);
    return interference.calls();
  }();
  const std::int64_t stride = 1 + calls / 40;
  int done = 0;
  for (auto call = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(stride));
       call < calls; call += stride, ++done) {
    SCOPED_TRACE("allocation " + std::to_string(call) + " of " + std::to_string(calls));
    Model copy = model;
    try {
      const Interference interference(Interference::allocations, {.call = call});
      change(copy);
    } catch (const std::exception&) {
      std::vector<StepId> steps = copy.history().ids();
      std::erase_if(steps, [&](StepId id) { return last && id.value <= last.value; });
      reverse(copy, steps);
      EXPECT_EQ(snapshot(copy), before);
      continue;
    }
    EXPECT_EQ(content(copy), content(all));
    if (::testing::Test::HasFailure()) break;
  }
  return done;
}

TEST(Torture, WithoutMemoryTheModelStaysAsItIs) {
  endure("failed allocations of apply and reverse", [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Model model = any_model(seed);
    int done = 0;
    for (const auto& transformation : registry()) {
      done += starve(model, random, [&](Model& copy) { (*transformation)(copy); });
      (*transformation)(model);
    }
    if (!model.history().empty()) {
      const StepId id = any(model.history().ids(), random);
      done += starve(model, random, [&](Model& copy) { reverse(copy, id); });
      done += starve(model, random, [&](Model& copy) { reverse_all(copy); });
    }
    return done;
  });
}

// ---- threads ----------------------------------------------------------------------------------

TEST(Threads, EachHasAModelOfItsOwnAndAllReadOne) {
  const Folder folder;
  const std::string path = old_files().front();
  endure("models in threads", [&](std::uint64_t seed) {
    const Model shared = load(path);
    const std::string text = print(shared);
    std::vector<std::string> wrong(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      threads.emplace_back([&, i] {
        Model own = shared;
        for (const auto& transformation : registry()) (*transformation)(own);
        Model random = any_model(seed + i);
        const std::string start = snapshot(random);
        for (const auto& transformation : registry()) (*transformation)(random);
        const std::string file = folder / std::to_string(i) + ".pt2";
        save(own, file);
        const std::string saved = print(load(file));
        if (saved != print(own)) wrong[i] += "saved ";
        reverse_all(random);
        if (snapshot(random) != start) wrong[i] += "reversed ";
        if (print(shared) != text) wrong[i] += "shared ";
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& each : wrong) EXPECT_EQ(each, "");
    return static_cast<int>(threads.size());
  });
}

}  // namespace
}  // namespace refx::testing
