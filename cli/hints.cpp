// SPDX-License-Identifier: Apache-2.0

#include "hints.h"

namespace refx::cli {

std::string in_flags(Hint hint) {
  switch (hint) {
    case Hint::see_transformations:
      return "`refx list` shows them";
    case Hint::discard_changes:
      return "--discard-changes drops the change";
    case Hint::forget:
      return "`refx forget` drops the history and keeps the model";
    case Hint::other_device:
      return "choose a device: --device cuda";
    case Hint::no_capture:
      return "leave --cuda-graph out";
    case Hint::resume:
      return "start again with --resume";
    case Hint::one_thread:
      return "--threads 1";
    case Hint::more_seconds:
      return "a larger --seconds";
    case Hint::allow_ops:
      return "if you trust the file, --allow-ops with its name, or its namespace's, lets it run";
    case Hint::base:
      return "--base with the file that still has it brings it back";
    case Hint::fixed_frequency:
      break;
  }
  return to_string(hint);
}

}  // namespace refx::cli
