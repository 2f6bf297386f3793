// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace refx {

// Measures how long runs take where they take place.
class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds for this many runs, one after the other.
  virtual double time(const std::function<void()>& run, int times) = 0;
  // Seconds since some beginning.
  virtual double now();
};

// For a device with its own queue: by its events, which do not count the way there and back.
std::unique_ptr<Clock> make_clock(c10::Device device);

// Everything that was queued there is done.
void finish(c10::Device device);

// A run captured on the device, to be replayed as one. Throws Error where that cannot be.
std::function<void()> captured(const std::function<void()>& run, c10::Device device);

}  // namespace refx
