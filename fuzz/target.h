// SPDX-License-Identifier: Apache-2.0
#pragma once

// fuzz/: refx against bytes that were made to break it. One target for each kind of them; libFuzzer
// searches (engine.cpp), and what it ever found is tried again in every test run (replay.cpp).

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace refx::fuzz {

// Changes bytes as libFuzzer does, which has learned which changes lead somewhere.
using MutateBytes = std::string (*)(std::string_view bytes);

struct Target {
  std::string_view name;
  // Feeds refx. A refx::Error is a good answer to bad bytes; any other exception is a fault.
  void (*run)(std::string_view bytes);
  // Changes what the bytes mean and keeps their form. Null: bytes are changed as bytes.
  std::string (*mutate)(std::string_view bytes, std::minstd_rand& random,
                        MutateBytes mutate_bytes) = nullptr;
};

const std::vector<Target>& targets();

// Runs the target; the process ends, with a word about it, where refx is wrong. Returns why refx
// refuses the bytes; nothing if it does not.
std::string run(const Target& target, std::string_view bytes);

// For a target that has found refx wrong.
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
