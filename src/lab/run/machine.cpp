// SPDX-License-Identifier: Apache-2.0

#include "lab/run/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "ir/devices.h"
#include "refx/error.h"

namespace refx {

namespace {

unsigned cores() { return std::max(1u, std::thread::hardware_concurrency()); }

// "Intel(R) Xeon(R) …", or on ARM the numbers that stand for it.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, implementer, part;
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(": ");
    if (colon == line.npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  return part.empty() ? "unknown processor" : fmt::format("ARM {}:{}", implementer, part);
}

}  // namespace

std::string describe_machine(c10::Device device) {
  utsname system = {};
  uname(&system);
  const std::string on = device.is_cpu() ? "" : fmt::format(", {}", device.str());
  return fmt::format("{} x{}{}, {} {}, torch {}, refx {}", processor(), cores(), on, system.sysname,
                     system.machine, TORCH_VERSION, REFX_VERSION);
}

void note_if_busy(std::vector<std::string>& notes) {
  constexpr double kBusy = 0.5;
  double load = 0;
  if (getloadavg(&load, 1) != 1 || load / cores() <= kBusy) return;
  notes.push_back(fmt::format(
      "the machine is busy (load {:.1f} per core): close other programs for more precise numbers",
      load / cores()));
}

c10::Device to_device(const std::string& name, const Model& model) {
  if (name.empty()) {
    for (StateId id : model.state())
      if (const c10::Device device = model.state().tensor(id).device(); !device.is_meta())
        return device;
    return c10::kCPU;
  }
  try {
    const c10::Device device(name);
    if (device.is_cpu()) return c10::kCPU;
    if (!device.is_cuda())
      throw Error(fmt::format("device '{}' is not supported: cpu or cuda", name));
    if (!has_device(device))
      throw Error(
          fmt::format("there is no device '{}' here, or this torch is built without it", name));
    return device.has_index() ? device : c10::Device(c10::kCUDA, 0);
  } catch (const c10::Error&) {
    throw Error(fmt::format("'{}' is not a device; devices are cpu, cuda and cuda:N", name));
  }
}

}  // namespace refx
