#pragma once

#include <vector>

#include "refx/history.h"

namespace refx {

// The tensors that the edits leave in the state, with their versions now.
std::vector<Step::Made> made_by(const std::vector<Edit>& edits);

// The version counter, which every in-place write advances. 0 for tensors that do not keep one.
std::uint32_t version_of(const at::TensorBase& tensor);

// Of the values, whatever the strides.
std::array<std::uint64_t, 2> content_hash(const at::TensorBase& tensor);

// Whether the tensor was changed since the step put `then` there.
bool is_changed(const Step::Made& made, const at::TensorBase& then, const at::TensorBase& now);

}  // namespace refx
