// SPDX-License-Identifier: Apache-2.0

// The functions that libFuzzer calls. REFX_TARGET names the target.

#include <cstring>

#include "target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using refx::fuzz::Target;

const Target* target = nullptr;

std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

std::string mutate_bytes(std::string_view bytes) {
  std::string out(bytes);
  out.resize(bytes.size() + 64);
  auto* data = reinterpret_cast<std::uint8_t*>(out.data());
  out.resize(LLVMFuzzerMutate(data, bytes.size(), out.size()));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("REFX_TARGET");
  for (const Target& each : refx::fuzz::targets())
    if (name && each.name == name) target = &each;
  if (!target) refx::fuzz::fault("REFX_TARGET names no target");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  refx::fuzz::run(*target, view(data, size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  if (!target->mutate) return LLVMFuzzerMutate(data, size, most);
  std::minstd_rand random(seed);
  const std::string out = target->mutate(view(data, size), random, mutate_bytes);
  if (out.empty() || out.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
