// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Inputs to run a model on.

// The example inputs in the model's file, flat; none if there are none. Throws Error if they hold
// what read_values() refuses: inputs of the user's own are needed then.
REFX_API std::optional<std::vector<c10::IValue>> sample_inputs(const Model& model);

// Random inputs that the types of the placeholders allow, the same for the same seed: floats from a
// normal distribution, indices that fit the tables they are looked up in, other integers and bools
// as masks that hold both 0 and 1, positions (see input_roles()) counting from 0; all like the
// file's sample inputs where there are some. A symbolic size has its hint; or, from variation 1 on,
// other values inside its range. With a batch, a symbolic first size is that: an Error if there is
// none, or if its range does not hold it.
REFX_API std::vector<c10::IValue> generated_inputs(const Model& model, std::uint64_t seed,
                                                   int variation = 0, std::int64_t batch = 0);
// Whether variations differ in more than their values.
REFX_API bool has_symbolic_inputs(const Model& model);

// Inputs for a model that is to be run, and in words where they come from. A model that keeps state
// is run on a sequence of calls, each on the state that the ones before it left.
struct REFX_API Inputs {
  std::vector<c10::IValue> values;  // of the first call
  std::string origin;
  std::vector<std::vector<c10::IValue>> next;  // those of the calls after it

  std::size_t calls() const { return 1 + next.size(); }
  const std::vector<c10::IValue>& call(std::size_t i) const { return i ? next[i - 1] : values; }

  Inputs();  // these are compiled once, where IValue is known
  Inputs(std::vector<c10::IValue> values, std::string origin);
  Inputs(const Inputs&);
  Inputs(Inputs&&) noexcept;
  Inputs& operator=(const Inputs&);
  Inputs& operator=(Inputs&&) noexcept;
  ~Inputs();
};
// From `path` if it is not empty, else the file's samples, else generated. A file may hold a list
// of calls.
REFX_API Inputs inputs_for(const Model& model, const std::string& path, std::uint64_t seed);

// What an input is to a sequence of calls.
enum class InputRole : std::uint8_t {
  position,  // integers that say where state is written: they go on counting
  fresh,     // indices of a table, such as token ids, and floating-point numbers: new in each call
  fixed,     // the same in each call
};
// Of each user input. A position is an integer tensor from which the index of an in-place write
// into state is computed (index_copy_, index_put_, scatter_ …), or whose name contains "position".
REFX_API std::vector<InputRole> input_roles(const Model& model);

// A prefill and `steps` calls after it, for a model that keeps state. Positions go on where the
// call before ended; what is fresh (but for masks of floating-point numbers) is generated, the same
// for the same seed; all else stays. Where the last size of the positions, or of the token ids, is
// symbolic, each step has one token, or as few as the range of that size allows: other inputs of
// that size are cut to their last elements.
REFX_API Inputs with_steps(const Model& model, Inputs first, int steps, std::uint64_t seed);

}  // namespace refx
