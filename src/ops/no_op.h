// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/model.h"

namespace refx {

// The value that the node hands on unchanged, of the same dtype, device, sizes and contents; its
// strides and its memory may be others. No id if the node may do anything to it.
//
// What depends on sizes or dtypes is believed of operators of aten alone: they were traced for the
// types that the graph records, while the functions and modules of torch.fx run with any.
NodeId no_op_input(const Model& model, NodeId node);

}  // namespace refx
