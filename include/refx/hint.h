// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "refx/error.h"
#include "refx/export.h"

namespace refx {

// What would help, as a value: each face of refx says it in its own words, the program by its flags
// and Python by its arguments.
enum class Hint : std::uint8_t {
  see_transformations,  // the names that there are
  discard_changes,      // reverse, and drop what was trained since
  forget,               // drop the history, keep the model
  other_device,
  no_capture,  // time runs as they are, not their replays
  resume,      // from the trials that were recorded
  one_thread,
  more_seconds,
  fixed_frequency,  // of the processor
  allow_ops,        // run an operator that is refused otherwise
  base,             // the file that still has what was detached from this one
};
// In the library's own words.
REFX_API std::string to_string(Hint hint);
// The words of a face.
using Phrase = std::string (*)(Hint hint);

// Bad input that something helps against. what() says that in the library's words.
class REFX_API HintedError : public Error {
 public:
  HintedError(const std::string& problem, Hint hint);

  const std::string& problem() const { return problem_; }
  Hint hint() const { return hint_; }
  std::string said(Phrase words) const;

 private:
  std::string problem_;
  Hint hint_;
};

}  // namespace refx
