// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Inputs with which a model is run: from its file, from a file of the user, or generated.

// The example inputs in the model's file, flat; nothing if it has none. Throws Error if they
// contain a type that read_values() refuses; the user has to pass inputs then.
REFX_API std::optional<std::vector<c10::IValue>> sample_inputs(const Model& model);

// Random inputs of the types of the placeholders; the same seed gives the same inputs. Floats have
// a normal distribution. Indices are within the tables that they index, other integers and bools
// are masks with both 0 and 1, and positions (see input_roles()) count from 0. If the file has
// sample inputs, the values have their ranges. A symbolic size has its hint, and in variations 1,
// 2, … other values of its range. `batch` sets symbolic first sizes; it is an Error if there is
// none, or if its range does not include `batch`.
REFX_API std::vector<c10::IValue> generated_inputs(const Model& model, std::uint64_t seed,
                                                   int variation = 0, std::int64_t batch = 0);
// Returns true if variations differ in sizes, and not only in values.
REFX_API bool has_symbolic_inputs(const Model& model);

// Inputs for running a model, and a description of where they come from. A model with state is run
// on a sequence of calls; each call sees the state that the previous ones left.
struct REFX_API Inputs {
  std::vector<c10::IValue> values;  // of the first call
  std::string origin;
  std::vector<std::vector<c10::IValue>> next;  // of the following calls

  std::size_t calls() const { return 1 + next.size(); }
  const std::vector<c10::IValue>& call(std::size_t i) const { return i ? next[i - 1] : values; }

  Inputs();  // defined in the .cpp file, because IValue is incomplete here
  Inputs(std::vector<c10::IValue> values, std::string origin);
  Inputs(const Inputs&);
  Inputs(Inputs&&) noexcept;
  Inputs& operator=(const Inputs&);
  Inputs& operator=(Inputs&&) noexcept;
  ~Inputs();
};
// The inputs in the file `path`, which may contain a list of calls; without a path, the sample
// inputs of the model's file; without those, generated ones.
REFX_API Inputs inputs_for(const Model& model, const std::string& path, std::uint64_t seed);

// How an input changes in a sequence of calls.
enum class InputRole : std::uint8_t {
  position,  // integers that say where state is written: each call continues counting
  fresh,     // indices of a table, such as token ids, and floating-point numbers: new in each call
  fixed,     // the same in each call
};
// The role of each user input. A position is an integer tensor from which the index of an in-place
// write into state is computed (index_copy_, index_put_, scatter_ …), or whose name contains
// "position".
REFX_API std::vector<InputRole> input_roles(const Model& model);

// A prefill and `steps` calls after it, for a model with state. Positions continue where the
// previous call ended. Fresh inputs, except masks of floating-point numbers, are generated from the
// seed. All other inputs stay the same. If the last size of the positions, or of the token ids, is
// symbolic, each step has one token, or the smallest number of tokens that the range of that size
// allows; other inputs of that size are cut to their last elements.
REFX_API Inputs with_steps(const Model& model, Inputs first, int steps, std::uint64_t seed);

}  // namespace refx
