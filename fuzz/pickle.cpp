// SPDX-License-Identifier: Apache-2.0

// Values in files of torch.save: reading is bounded in time and memory, and writing restores the
// bytes.

#include "io/pickle.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "refx/error.h"
#include "target.h"

namespace refx::fuzz {

namespace {

c10::Storage storage_of(const std::string& key) {
  if (key.size() > 2) throw Error("no such storage");
  return at::empty({64}, at::kByte).storage();
}

c10::IValue read_back(const Pickle& pickle) try {
  return read_pickle(pickle.bytes, [&](const std::string& key) {
    return pickle.tensors.at(std::stoul(key)).clone().storage();
  });
} catch (const Error& error) {
  fault(std::string("a value that was written is refused: ") + error.what());
}

}  // namespace

void run_pickle(std::string_view bytes) {
  const Pickle once = write_pickle(read_pickle(bytes, storage_of));
  const Pickle twice = write_pickle(read_back(once));
  REFX_EXPECT(once.bytes == twice.bytes, "a value is not written as it was read");
}

}  // namespace refx::fuzz
