// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

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

// The same for a sequence of calls: a list of such values, or the value of one call. What can be
// read as one call is one.
REFX_API std::vector<std::vector<c10::IValue>> flatten_calls(const Model& model,
                                                             const c10::IValue& calls);

// The same for several sets of inputs, each a sequence of calls: a list of sets, or one set. Calls
// of a model that keeps no state do not depend on each other, so a list of them is a list of sets.
REFX_API std::vector<std::vector<std::vector<c10::IValue>>> flatten_sets(const Model& model,
                                                                         const c10::IValue& sets);

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

}  // namespace refx
