// SPDX-License-Identifier: Apache-2.0
#pragma once

// io/: inputs and outputs of models: values in files, read without running pickle; nested and flat
// values; generated ones.

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// Finds the storage of a key in the archive around the pickle. Throws Error if there is none.
using FindStorage = std::function<c10::Storage(const std::string& key)>;

// Reads the pickle of a value that torch.save wrote. Only the names on a fixed list have a meaning;
// nothing is imported or called. torch's own unpickler is not used, because it does not check sizes
// and offsets, loses the contents of an OrderedDict, and supports neither torch.Size nor dtypes.
c10::IValue read_pickle(std::string_view bytes, const FindStorage& find_storage);

// Writes a pickle. The caller stores the bytes of the i-th tensor of `tensors` under the key i.
struct Pickle {
  std::string bytes;
  std::vector<at::Tensor> tensors;  // on the CPU, without gaps
};
Pickle write_pickle(const c10::IValue& value);

}  // namespace refx
