// SPDX-License-Identifier: Apache-2.0
#pragma once

// fuzz/: inputs that try to break refx. There is one target for each kind of input. libFuzzer
// searches (engine.cpp), and every test run repeats the failures found so far (replay.cpp).

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace refx::fuzz {

// Mutates bytes with libFuzzer, which prefers mutations that reached new code.
using MutateBytes = std::string (*)(std::string_view bytes);

struct Target {
  std::string_view name;
  // Runs refx on the bytes. It may throw refx::Error; any other exception is a failure.
  void (*run)(std::string_view bytes);
  // Changes the meaning of the bytes and keeps their format. Null: mutate_bytes changes them.
  std::string (*mutate)(std::string_view bytes, std::minstd_rand& random,
                        MutateBytes mutate_bytes) = nullptr;
};

const std::vector<Target>& targets();

// Runs the target. A failure of refx prints a message and ends the process. Returns why refx
// refused the bytes; empty if it accepted them.
std::string run(const Target& target, std::string_view bytes);

// Called by a target that found a failure of refx.
[[noreturn]] void fault(const std::string& what);
#define REFX_EXPECT(condition, what) \
  do {                               \
    if (!(condition)) fault(what);   \
  } while (false)

void run_zip(std::string_view bytes);
void run_pickle(std::string_view bytes);
void run_text(std::string_view bytes);
void run_rule(std::string_view bytes);
void run_file(std::string_view bytes);
void run_operators(std::string_view bytes);
void run_graph_module(std::string_view bytes);
std::string mutate_program(std::string_view bytes, std::minstd_rand& random, MutateBytes mutate);
std::string mutate_graph_module(std::string_view bytes, std::minstd_rand& random,
                                MutateBytes mutate);
std::string mutate_history(std::string_view bytes, std::minstd_rand& random, MutateBytes mutate);

}  // namespace refx::fuzz
