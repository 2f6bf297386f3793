// SPDX-License-Identifier: Apache-2.0

// Opens, checks and saves an archive; compares saving with `cp` of the same file, in one run.
//
// In memory (/dev/shm) neither waits for a disk. On disk ($TMPDIR, else /tmp) a save also syncs, so
// it is compared with `cp` followed by `sync` of the copy.

#include "archive/archive.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "archive/writer.h"
#include "ir/content.h"

namespace refx::benchmarks {
namespace {

namespace fs = std::filesystem;

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Folder {
 public:
  explicit Folder(const fs::path& parent) {
    std::string name = parent / "refx-bench-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

void make_archive(const std::string& path, std::int64_t records, std::size_t bytes) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 2654435761u >> 24);
  ArchiveWriter writer(path, "m");
  for (std::int64_t i = 0; i < records; ++i)
    writer.add("data/weights/weight_" + std::to_string(i), {.memory = data});
  writer.finish();
}

void Open(benchmark::State& state) {
  const Folder folder(fs::temp_directory_path());
  make_archive(folder / "m.pt2", state.range(0), 10'000);
  for (auto _ : state) benchmark::DoNotOptimize(Archive::open(folder / "m.pt2"));
}
BENCHMARK(Open)->Arg(10)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

// What the first use of mapped weights costs: page tables and CRC.
void Require(benchmark::State& state) {
  const Folder folder(fs::temp_directory_path());
  constexpr std::size_t size = 64 << 20;
  make_archive(folder / "m.pt2", 4, size);
  for (auto _ : state) {
    const auto archive = Archive::open(folder / "m.pt2");
    for (int i = 0; i < 4; ++i) archive->map(archive->records()[i])->require();
  }
  state.SetBytesProcessed(state.iterations() * 4 * static_cast<std::int64_t>(size));
}
BENCHMARK(Require)->Unit(benchmark::kMillisecond);

void save_beside_cp(benchmark::State& state, const fs::path& where, bool sync) {
  const Folder folder(where);
  make_archive(folder / "m.pt2", state.range(0), 32 << 20);
  const std::string copy = "cp " + (folder / "m.pt2") + " " + (folder / "copy") +
                           (sync ? " && sync " + (folder / "copy") : "");
  double save = 1e9, cp = 1e9;
  for (auto _ : state) {
    fs::remove(folder / "copy");
    cp = std::min(cp, seconds([&] {
                    if (std::system(copy.c_str()) != 0) state.SkipWithError("cp failed");
                  }));
    fs::remove(folder / "saved");
    const double one = seconds([&] {
      const auto archive = Archive::open(folder / "m.pt2");
      ArchiveWriter writer(folder / "saved", "m");
      for (const Record& record : archive->records())
        writer.add(record.name, {.archive = archive, .record = &record});
      writer.finish();
    });
    save = std::min(save, one);
    state.SetIterationTime(one);
  }
  state.counters["cp_s"] = cp;
  state.counters["save_s"] = save;
  state.counters["save/cp"] = save / cp;
}

void SaveInMemory(benchmark::State& state) { save_beside_cp(state, "/dev/shm", false); }
void SaveOnDisk(benchmark::State& state) { save_beside_cp(state, fs::temp_directory_path(), true); }
BENCHMARK(SaveInMemory)->Arg(64)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(SaveOnDisk)->Arg(64)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace refx::benchmarks
