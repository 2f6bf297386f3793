// Values in files of torch.save: bounded in time and memory, and written back as they were read.

#include "io/pickle.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "refx/error.h"
#include "target.h"

namespace refx::fuzz {

namespace {

c10::IValue read(std::string_view bytes) {
  return read_pickle(bytes, [](const std::string& key) {
    if (key.size() > 2) throw Error("no such storage");
    return at::empty({64}, at::kByte).storage();
  });
}

}  // namespace

void run_pickle(std::string_view bytes) {
  const c10::IValue value = read(bytes);
  const Pickle once = write_pickle(value);
  const Pickle twice = write_pickle(read(once.bytes));
  REFX_EXPECT(once.bytes == twice.bytes, "a value is not written as it was read");
}

}  // namespace refx::fuzz
