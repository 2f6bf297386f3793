// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "refx/error.h"

namespace refx::exec {

// While it lives, an operator of this thread that asks for more memory at once than `bytes` throws
// Error before it writes there. It is for graphs of strangers whose records of sizes may be wrong.
//
// torch tells of allocations to a profiler only, so this is one. Where another is at work, whose
// place it would take, there is no limit.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::uint64_t bytes) {
    const auto kind = c10::DebugInfoKind::PROFILER_STATE;
    if (!c10::ThreadLocalDebugInfo::get(kind)) guard_.emplace(kind, std::make_shared<Limit>(bytes));
  }

 private:
  struct Limit final : c10::MemoryReportingInfoBase {
    explicit Limit(std::uint64_t most) : bytes(most) {}
    void reportMemoryUsage(void* /*ptr*/, std::int64_t size, std::size_t /*allocated*/,
                           std::size_t /*reserved*/, c10::Device /*device*/) override {
      if (size > 0 && static_cast<std::uint64_t>(size) > bytes)
        throw Error(fmt::format("an operator asks for {} bytes of memory at once", size));
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::uint64_t bytes;
  };

  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace refx::exec
