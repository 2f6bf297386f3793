// SPDX-License-Identifier: Apache-2.0

#include "ir/devices.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

namespace refx {

bool has_device(c10::Device device) {
  if (device.is_cpu()) return true;
  if (!device.is_cuda()) return false;
  // Torch asks only once whether there is CUDA, and nothing of ours links to its half of torch.
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (!at::globalContext().hasCUDA()) return false;
  return device.index() < at::detail::getCUDAHooks().deviceCount();
}

}  // namespace refx
