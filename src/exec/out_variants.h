// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/program.h"

namespace refx::exec {

// Writes an instruction as calls that put its results into tensors given beforehand. In the code,
// the given tensors are the values of the instruction's own result slots.
struct OutCode {
  std::vector<Instruction> code;
  std::vector<Slot> scratch;  // slots that want memory of their own, like the tensor now in them
  bool empty() const { return code.empty(); }
};

class OutWriter {
 public:
  // `slots` holds the instruction's inputs and results, and gets new slots at its end.
  explicit OutWriter(Values& slots) : slots_(slots) {}
  // Empty code: no operator can write into given memory and be the same to the bit.
  OutCode write(const Instruction& instruction);

 private:
  OutCode generic(const Instruction& i);
  OutCode linear(const Instruction& i);
  OutCode matmul(const Instruction& i);
  OutCode softmax(const Instruction& i, const char* target);
  OutCode embedding(const Instruction& i);
  OutCode rms_norm(const Instruction& i);
  OutCode copy(const Instruction& i);
  Slot view(OutCode& out, const Instruction& i, const char* target, Slot of,
            std::vector<Operand> args);
  Slot as_batch(OutCode& out, const Instruction& i, Slot of);
  Instruction& emit(OutCode& out, const Instruction& i, const char* target,
                    const std::vector<Operand>& args);
  Slot new_slot();
  const at::Tensor& tensor(Slot slot) const { return slots_[slot].toTensor(); }
  std::optional<Slot> tensor_slot(const Instruction& i, std::size_t input) const;

  Values& slots_;
};

}  // namespace refx::exec
