// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// clang-format off
// A whole model without its tensor data, in the manner of torch.fx's print(graph):
//
//   parameter q.weight : f32[8, 4]
//   module act : torch.nn.ReLU(inplace=False)
//   graph():
//       %x : f32[2, 4] [num_users=1] = placeholder[target=x]
//       %p_q_weight : f32[8, 4] [num_users=1] = placeholder[target=p_q_weight](state=q.weight)
//       %linear : [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p_q_weight), kwargs = {})
//       return linear
//
// For any text that print() wrote, print(parse(text)) == text. docs/text.md has the grammar.
// clang-format on
REFX_API std::string print(const Model& model);
// A shorter form for people: without metadata, and without the contents of uninterpreted arguments.
REFX_API std::string print_brief(const Model& model);
REFX_API std::string print(const Graph& graph, NodeId node);
REFX_API std::string print(const TensorType& type);
REFX_API std::string print(const Arg& arg, const Graph& graph);
// Returns a JSON object. Values that JSON cannot express become strings, as print() writes them.
REFX_API std::string to_json(const Kwargs& arguments);
REFX_API std::ostream& operator<<(std::ostream& out, const Model& model);

// All tensors are zeros of the stated types. Entries that share a storage in the text share one in
// the model. Throws Error with line and column.
REFX_API Model parse(std::string_view text);

}  // namespace refx
