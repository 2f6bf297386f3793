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
// as masks that hold both 0 and 1; all like the file's sample inputs where there are some. A
// symbolic size has its hint; or, from variation 1 on, other values inside its range. With a batch,
// a symbolic first size is that: an Error if there is none, or if its range does not hold it.
REFX_API std::vector<c10::IValue> generated_inputs(const Model& model, std::uint64_t seed,
                                                   int variation = 0, std::int64_t batch = 0);
// Whether variations differ in more than their values.
REFX_API bool has_symbolic_inputs(const Model& model);

// Inputs for a model that is to be run, and in words where they come from: from `path` if it is not
// empty, else the file's samples, else generated.
struct REFX_API Inputs {
  std::vector<c10::IValue> values;
  std::string origin;

  Inputs();  // these are compiled once, where IValue is known
  Inputs(std::vector<c10::IValue> values, std::string origin);
  Inputs(const Inputs&);
  Inputs(Inputs&&) noexcept;
  Inputs& operator=(const Inputs&);
  Inputs& operator=(Inputs&&) noexcept;
  ~Inputs();
};
REFX_API Inputs inputs_for(const Model& model, const std::string& path, std::uint64_t seed);

}  // namespace refx
