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

// Reads a file of torch.save: tensors, numbers, strings and None, in tuples, lists and dicts. No
// code that the file names is run, and any other class is an Error. Tensors are loaded to the CPU.
REFX_API c10::IValue read_values(const std::string& path);
REFX_API c10::IValue parse_values(std::string_view bytes, const std::string& name = "these bytes");

// Writes a file that torch.load(path, weights_only=True) reads. If it fails, no file is left.
REFX_API void write_values(const std::string& path, const c10::IValue& value);

// ---- nested and flat ---------------------------------------------------------------------------

// Returns the user inputs in the order of the graph's placeholders. Takes what a caller in Python
// would pass: (args, kwargs), args alone, a dict of inputs by name, or the only input. Throws
// Error, which names the input, if one is missing, unknown or of the wrong type.
REFX_API std::vector<c10::IValue> flatten_inputs(const Model& model, const c10::IValue& inputs);

// The same for a sequence of calls: a list of such values, or the value of one call. A value that
// can be read as one call is read as one call.
REFX_API std::vector<std::vector<c10::IValue>> flatten_calls(const Model& model,
                                                             const c10::IValue& calls);

// The same for several sets of inputs, each a sequence of calls: a list of sets, or one set. Calls
// of a model that keeps no state do not depend on each other, so a list of them is a list of sets.
REFX_API std::vector<std::vector<std::vector<c10::IValue>>> flatten_sets(const Model& model,
                                                                         const c10::IValue& sets);

// Nests the flat outputs of a run as the original module did in Python. Types that exist only in
// Python (named tuples, dataclasses) become tuples.
REFX_API c10::IValue nest_output(const Model& model, const c10::IValue& flat);

// The values inside tuples, lists and dicts, each with the Python expression that selects it:
// "output[0]['logits']".
struct Leaf {
  std::string path;
  c10::IValue value;
};
REFX_API std::vector<Leaf> leaves(const c10::IValue& value, const std::string& path = "output");

}  // namespace refx
