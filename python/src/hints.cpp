// SPDX-License-Identifier: Apache-2.0

#include "hints.h"

namespace refx::python {

std::string in_arguments(Hint hint) {
  switch (hint) {
    case Hint::see_transformations:
      return "help(refx.fx) shows them";
    case Hint::discard_changes:
      return "discard_changes=True drops the change";
    case Hint::forget:
      return "refx.load(path, history=False) drops the history and keeps the model";
    case Hint::other_device:
      return "choose a device: device='cuda'";
    case Hint::no_capture:
      return "leave cuda_graph out";
    case Hint::resume:
      return "start again, with the record of trials among the known ones";
    case Hint::one_thread:
      return "threads=1";
    case Hint::more_seconds:
      return "more seconds";
    case Hint::allow_ops:
      return "if you trust the file, refx.load(path, allow_ops=[...]) with its name, or its "
             "namespace's, lets it run";
    case Hint::base:
      return "model.attach(base) with the file that still has it brings it back";
    case Hint::fixed_frequency:
      break;
  }
  return to_string(hint);
}

}  // namespace refx::python
