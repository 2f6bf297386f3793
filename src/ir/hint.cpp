// SPDX-License-Identifier: Apache-2.0

#include "refx/hint.h"

namespace refx {

std::string to_string(Hint hint) {
  switch (hint) {
    case Hint::see_transformations:
      return "registry() has them all";
    case Hint::discard_changes:
      return "reverse with discard_changes to drop the change";
    case Hint::forget:
      return "load it without its history to keep the model";
    case Hint::other_device:
      return "choose another device";
    case Hint::no_capture:
      return "leave cuda_graph out";
    case Hint::resume:
      return "start again, with the recorded trials as known ones";
    case Hint::one_thread:
      return "one thread";
    case Hint::more_seconds:
      return "more seconds";
    case Hint::fixed_frequency:
      return "a fixed processor frequency";
    case Hint::allow_ops:
      return "allow_ops with its name, or its namespace's, lets it run";
    case Hint::base:
      return "attach() brings it back from where it still is";
  }
  return "";
}

HintedError::HintedError(const std::string& problem, Hint hint)
    : Error(problem + "; " + to_string(hint)), problem_(problem), hint_(hint) {}

std::string HintedError::said(Phrase words) const { return problem_ + "; " + words(hint_); }

}  // namespace refx
