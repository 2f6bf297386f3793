// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace refx {

// Measures how long runs take.
class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds for this many runs, one after the other.
  virtual double time(const std::function<void()>& run, int times) = 0;
  // Seconds since an arbitrary start.
  virtual double now();
};

// For devices with their own queue the clock uses the events of the device, which exclude the
// latency between host and device.
std::unique_ptr<Clock> make_clock(c10::Device device);

// Waits until the device has finished everything in its queue.
void finish(c10::Device device);

// Captures a run as a graph of the device and returns a function that replays it. Throws Error if
// the device or this torch cannot do that.
std::function<void()> captured(const std::function<void()>& run, c10::Device device);

}  // namespace refx
