// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include "graph_json/tensor_meta.h"

namespace refx {

// Why a tensor like this does not lie inside a storage of `bytes`; empty if it does.
std::string why_outside(const TensorMeta& meta, std::uint64_t bytes);

// A tensor over a storage that holds it.
at::TensorBase tensor_in(const c10::Storage& storage, const TensorMeta& meta);

// The same tensor over another storage, of the same size.
at::TensorBase tensor_in(const c10::Storage& storage, const at::TensorBase& like);

// All bytes of a storage.
at::TensorBase bytes_in(const c10::Storage& storage);

// A tensor without data that stands for one that refx carries but cannot open.
at::TensorBase stand_in(const TensorMeta* meta);

// What describes the tensor in a file.
void append_stored_meta(std::string& out, const at::TensorBase& tensor);

}  // namespace refx
