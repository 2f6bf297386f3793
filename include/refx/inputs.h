#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// ---- values in files ---------------------------------------------------------------------------

// What torch.save wrote: tensors, numbers, strings and None, in tuples, lists and dicts. Nothing
// that the file names is run: a class other than those is an Error. Tensors come to the CPU.
REFX_API c10::IValue read_values(const std::string& path);
REFX_API c10::IValue parse_values(std::string_view bytes, const std::string& name = "these bytes");

// Writes what torch.load(path, weights_only=True) reads back; whole or not at all.
REFX_API void write_values(const std::string& path, const c10::IValue& value);

// ---- nested and flat ---------------------------------------------------------------------------

// The user inputs in the order of the graph's placeholders, from what a caller in Python would
// give: (args, kwargs), args alone, inputs by name, or the one input of a model that has one.
// Throws Error that names the input that is missing, not known, or of the wrong kind.
REFX_API std::vector<c10::IValue> flatten_inputs(const Model& model, const c10::IValue& inputs);

// What the model's run returned, nested as it is in Python. Types that only Python has (named
// tuples, dataclasses) become tuples.
REFX_API c10::IValue nest_output(const Model& model, const c10::IValue& flat);

// The values inside tuples, lists and dicts, each with the Python expression that picks it out:
// "output[0]['logits']".
struct Leaf {
  std::string path;
  c10::IValue value;
};
REFX_API std::vector<Leaf> leaves(const c10::IValue& value, const std::string& path = "output");

// ---- inputs to run a model on ------------------------------------------------------------------

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
struct Inputs {
  std::vector<c10::IValue> values;
  std::string origin;
};
REFX_API Inputs inputs_for(const Model& model, const std::string& path, std::uint64_t seed);

}  // namespace refx
