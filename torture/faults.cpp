// SPDX-License-Identifier: Apache-2.0

// Replaces operator new, posix_memalign (used for tensors) and the system calls that write files,
// for the whole process.

#include "faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <new>

namespace refx::torture {

namespace {

struct State {
  Plan plan;
  std::int64_t calls = 0;
  bool on = false, struck = false;
};
constinit thread_local State states[2];

bool strikes(Interference::Kind kind) {
  State& state = states[kind];
  if (!state.on) return false;
  const std::int64_t call = state.calls++;
  if (state.plan.call < 0 || call < state.plan.call) return false;
  if (call > state.plan.call && !state.plan.sticky) return false;
  state.struck = true;
  return true;
}

// Whether a system call must fail, with errno set.
bool refused() {
  if (!strikes(Interference::system_calls)) return false;
  if (states[Interference::system_calls].plan.error == 0) kill(getpid(), SIGKILL);
  errno = states[Interference::system_calls].plan.error;
  return true;
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

void* allocate(std::size_t size) {
  if (strikes(Interference::allocations)) return nullptr;
  return std::malloc(size ? size : 1);
}

}  // namespace

Interference::Interference(Kind kind, Plan plan) : kind_(kind) {
  states[kind] = {.plan = plan, .on = true};
}
Interference::~Interference() { states[kind_].on = false; }
std::int64_t Interference::calls() const { return states[kind_].calls; }
bool Interference::struck() const { return states[kind_].struck; }

}  // namespace refx::torture

using refx::torture::allocate;
using refx::torture::real;
using refx::torture::refused;

void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

extern "C" {

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (refx::torture::strikes(refx::torture::Interference::allocations)) return ENOMEM;
  static auto* const next = real<int(void**, std::size_t, std::size_t)>("posix_memalign");
  return next(memory, alignment, size);
}

ssize_t write(int file, const void* data, std::size_t size) {
  static auto* const next = real<ssize_t(int, const void*, std::size_t)>("write");
  return refused() ? -1 : next(file, data, size);
}
ssize_t pread(int file, void* data, std::size_t size, off_t offset) {
  static auto* const next = real<ssize_t(int, void*, std::size_t, off_t)>("pread");
  return refused() ? -1 : next(file, data, size, offset);
}
int fsync(int file) {
  static auto* const next = real<int(int)>("fsync");
  return refused() ? -1 : next(file);
}
int sync_file_range(int file, off64_t from, off64_t size, unsigned flags) {
  static auto* const next = real<int(int, off64_t, off64_t, unsigned)>("sync_file_range");
  return refused() ? -1 : next(file, from, size, flags);
}
int fchmod(int file, mode_t mode) {
  static auto* const next = real<int(int, mode_t)>("fchmod");
  return refused() ? -1 : next(file, mode);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static auto* const next = real<int(const char*, int, ...)>("open");
  return refused() ? -1 : next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static auto* const next = real<int(int, const char*, int, ...)>("openat");
  return refused() ? -1 : next(folder, path, flags, mode);
}
int linkat(int a, const char* from, int b, const char* to, int flags) {
  static auto* const next = real<int(int, const char*, int, const char*, int)>("linkat");
  return refused() ? -1 : next(a, from, b, to, flags);
}
int renameat(int a, const char* from, int b, const char* to) {
  static auto* const next = real<int(int, const char*, int, const char*)>("renameat");
  return refused() ? -1 : next(a, from, b, to);
}
int unlinkat(int folder, const char* path, int flags) {
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return refused() ? -1 : next(folder, path, flags);
}

}  // extern "C"
