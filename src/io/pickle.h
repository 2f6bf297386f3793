// SPDX-License-Identifier: Apache-2.0
#pragma once

// io/: inputs and outputs of models. Values in files without running pickle, nested and flat,
// generated ones.

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// Finds the storage of a key in the archive around the pickle. Throws Error if there is none.
using FindStorage = std::function<c10::Storage(const std::string& key)>;

// Reads the pickle of a torch.save'd value. Only names on a fixed list stand for something; nothing
// is looked up or called. We do not use torch's own unpickler, because it takes sizes and offsets
// on trust, drops what is in an OrderedDict, and knows neither torch.Size nor dtypes.
c10::IValue read_pickle(std::string_view bytes, const FindStorage& find_storage);

// The reverse. The i-th tensor of `tensors` is to be stored, as its bytes, under the key i.
struct Pickle {
  std::string bytes;
  std::vector<at::Tensor> tensors;  // on the CPU, without gaps
};
Pickle write_pickle(const c10::IValue& value);

}  // namespace refx
