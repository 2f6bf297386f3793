// SPDX-License-Identifier: Apache-2.0

#include "lab/bench/clock.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#if __has_include(<ATen/accelerator/Graph.h>)
#include <ATen/accelerator/Graph.h>
#define REFX_DEVICE_GRAPHS 1
#endif

#include <chrono>

#include "refx/hint.h"

namespace refx {

namespace {

class SteadyClock : public Clock {
 public:
  double time(const std::function<void()>& run, int times) override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

// Reads the time from events in the queue of the device, so that launch latencies of the host are
// not part of it unless the device has to wait for them.
class DeviceClock : public Clock {
 public:
  explicit DeviceClock(c10::Device device)
      : guard_(device.type()), stream_(guard_.getStream(device)) {}

  double time(const std::function<void()>& run, int times) override {
    c10::Event start(stream_.device_type(), c10::EventFlag::BACKEND_DEFAULT);
    c10::Event end(stream_.device_type(), c10::EventFlag::BACKEND_DEFAULT);
    start.record(stream_);
    for (int i = 0; i < times; ++i) run();
    end.record(stream_);
    end.synchronize();
    return start.elapsedTime(end) / 1e3;
  }

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
};

}  // namespace

double Clock::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Clock> make_clock(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<SteadyClock>();
  return std::make_unique<DeviceClock>(device);
}

void finish(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.getStream(device).synchronize();
}

#ifdef REFX_DEVICE_GRAPHS

std::function<void()> captured(const std::function<void()>& run, c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto graph = std::make_shared<at::accelerator::Graph>();
  finish(device);
  const c10::StreamGuard other(
      guard.getStreamFromGlobalPool(device));  // the default stream cannot be captured
  graph->capture_begin();
  run();
  graph->capture_end();
  return [graph] { graph->replay(); };
}

#else

std::function<void()> captured(const std::function<void()>&, c10::Device) {
  throw HintedError("this version of torch cannot capture runs for replay", Hint::no_capture);
}

#endif

}  // namespace refx
