// SPDX-License-Identifier: Apache-2.0

#include "book/facts.h"

#include <unordered_map>

namespace refx::book {

namespace {

using Rows = std::unordered_map<std::string_view, std::uint32_t>;

// One row for each operator about which there is something to say.
const Rows& rows() {
  static const Rows all = {
      // Activations, norms, layers.
      {"linear", kKeepsRank},
      {"conv1d", kKeepsRank},
      {"conv2d", kKeepsRank},
      {"conv3d", kKeepsRank},
      {"conv_transpose1d", kKeepsRank},
      {"conv_transpose2d", kKeepsRank},
      {"conv_transpose3d", kKeepsRank},
      {"relu", kKeepsRank | kKeepsType},
      {"relu6", kKeepsRank},
      {"gelu", kKeepsRank | kKeepsType},
      {"silu", kKeepsRank | kKeepsType},
      {"elu", kKeepsRank},
      {"leaky_relu", kKeepsRank},
      {"hardswish", kKeepsRank},
      {"sigmoid", kKeepsRank | kKeepsType},
      {"tanh", kKeepsRank | kKeepsType},
      {"softmax", kKeepsRank | kKeepsType},
      {"layer_norm", kKeepsRank | kKeepsType},
      {"rms_norm", kKeepsType},
      {"batch_norm", kKeepsRank},
      {"dropout", kKeepsRank | kKeepsType},
      {"identity", kKeepsRank | kMayAlias | kPassesThrough},

      // Copies that may not be one, and views.
      {"contiguous", kKeepsRank | kMayAlias | kKeepsIndices | kPassesThrough | kKeepsType},
      {"clone", kKeepsRank | kKeepsIndices | kPassesThrough | kKeepsType},
      {"to", kMayAlias | kKeepsIndices | kKeepsElements},
      {"_to_copy", kKeepsIndices | kKeepsElements},
      {"type", kMayAlias},
      {"type_as", kMayAlias | kKeepsElements},
      {"to_dense", kMayAlias},
      {"dequantize", kMayAlias},
      {"detach", kMayAlias | kKeepsIndices},
      {"alias", kMayAlias | kPassesThrough | kKeepsType},
      {"lift_fresh", kMayAlias | kPassesThrough},
      {"pos", kMayAlias | kPassesThrough},
      {"__pos__", kMayAlias | kPassesThrough},
      {"positive", kMayAlias | kPassesThrough},
      {"resolve_conj", kMayAlias},
      {"resolve_neg", kMayAlias},
      {"conj_physical", kMayAlias},
      {"view", kMayAlias | kNeedsStrides | kKeepsIndices | kReshapes},
      {"_unsafe_view", kMayAlias | kNeedsStrides | kReshapes},
      {"view_as", kMayAlias | kNeedsStrides | kReshapes},
      {"view_as_real", kMayAlias | kNeedsStrides},
      {"view_as_complex", kMayAlias | kNeedsStrides},
      {"as_strided", kMayAlias | kNeedsStrides},
      {"reshape", kMayAlias | kKeepsIndices | kReshapes},
      {"reshape_as", kMayAlias | kReshapes},
      {"flatten", kMayAlias | kKeepsIndices | kReshapes},
      {"unflatten", kMayAlias | kReshapes},
      {"expand", kMayAlias | kKeepsIndices | kKeepsElements},
      {"slice", kMayAlias | kKeepsIndices | kKeepsElements},
      {"unsqueeze", kMayAlias | kKeepsIndices | kReshapes},
      {"squeeze", kReshapes},
      {"narrow", kKeepsElements},
      {"expand_as", kKeepsElements},
      {"broadcast_to", kKeepsElements},
      {"repeat", kKeepsElements},
      {"lift_fresh_copy", kPassesThrough},
      {"getitem", kMayAlias | kKeepsIntegers},
      {"__getitem__", kMayAlias},
      {"atleast_1d", kMayAlias},
      {"atleast_2d", kMayAlias},
      {"atleast_3d", kMayAlias},
      {"broadcast_tensors", kMayAlias},
      {"meshgrid", kMayAlias},
      {"einsum", kMayAlias},
      {"sum_to_size", kMayAlias},
      {"resize", kMayAlias},
      {"resize_as", kMayAlias},
      {"unsafe_chunk", kMayAlias},
      {"unsafe_split", kMayAlias},
      {"unsafe_split_with_sizes", kMayAlias},

      // Numbers.
      {"add", kKeepsIntegers},
      {"sub", kKeepsIntegers},
      {"mul", kKeepsIntegers},
      {"neg", kKeepsIntegers | kKeepsType},
      {"mod", kKeepsIntegers},
      {"pow", kKeepsIntegers},
      {"exp", kKeepsType},
      {"erf", kKeepsType},
      {"sqrt", kKeepsType},
      {"rsqrt", kKeepsType},
      {"square", kKeepsType},
      {"reciprocal", kKeepsType},
      {"clamp_min", kKeepsType},
      {"floor", kJumps},
      {"ceil", kJumps},
      {"round", kJumps | kPythonFunction | kKeepsType},
      {"trunc", kJumps},
      {"fix", kJumps},
      {"sign", kJumps},
      {"sgn", kJumps},
      {"frac", kJumps},
      {"fmod", kJumps},
      {"remainder", kJumps},
      {"heaviside", kJumps},
      {"floor_divide", kJumps | kYieldsIntegers},
      {"floordiv", kYieldsIntegers},
      {"argmax", kYieldsIntegers},
      {"argmin", kYieldsIntegers},
      {"argsort", kYieldsIntegers},
      {"arange", kYieldsIntegers},
      {"nonzero", kYieldsIntegers},
      {"eq", kYieldsIntegers},
      {"ne", kYieldsIntegers},
      {"lt", kYieldsIntegers},
      {"le", kYieldsIntegers},
      {"gt", kYieldsIntegers},
      {"ge", kYieldsIntegers},
      {"long", kYieldsIntegers | kKeepsIndices},
      {"short", kYieldsIntegers},
      {"argwhere", kShapeFromContents},
      {"nonzero_numpy", kShapeFromContents},
      {"one_hot", kShapeFromContents},
      {"tensor_split", kShapeFromContents},
      {"combinations", kShapeFromContents},
      {"ctc_loss", kShapeFromContents},
      {"pad_sequence", kShapeFromContents},

      // Sizes, types, memory.
      {"size", kYieldsIntegers | kReadsSizes},
      {"shape", kYieldsIntegers},
      {"stride", kYieldsIntegers | kReadsSizes | kNeedsStrides},
      {"dim", kYieldsIntegers | kReadsSizes},
      {"ndim", kYieldsIntegers},
      {"numel", kYieldsIntegers | kReadsSizes},
      {"sym_size", kYieldsIntegers | kReadsSizes},
      {"sym_stride", kReadsSizes},
      {"sym_numel", kYieldsIntegers | kReadsSizes},
      {"sym_storage_offset", kReadsSizes},
      {"is_floating_point", kReadsSizes},
      {"is_complex", kReadsSizes},
      {"is_contiguous", kNeedsStrides},
      {"storage_offset", kNeedsStrides},
      {"storage", kNeedsStrides},
      {"untyped_storage", kNeedsStrides},
      {"data_ptr", kNeedsStrides},

      // Python's own.
      {"getattr", kMayAlias | kPythonFunction},
      {"len", kYieldsIntegers | kPythonFunction},
      {"int", kYieldsIntegers | kPythonFunction},
      {"float", kPythonFunction},
      {"bool", kYieldsIntegers | kPythonFunction},
      {"max", kPythonFunction},
      {"min", kPythonFunction},
      {"sum", kPythonFunction},
      {"abs", kKeepsIntegers | kPythonFunction | kKeepsType},
      {"tuple", kPythonFunction},
      {"list", kPythonFunction},
  };
  return all;
}

// Whole families, by what is in their names.
struct Family {
  std::string_view part;
  Fact fact;
};
constexpr Family kFamilies[] = {
    {"dropout", kMayAlias},
    {"_cast_", kMayAlias},
    {"fake_quantize", kJumps},
    {"batch_norm", kWritesSilently},
    {"instance_norm", kWritesSilently},
    {"rrelu", kWritesSilently},
};

}  // namespace

std::string_view without_underscore(std::string_view name) {
  if (name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_') name.remove_suffix(1);
  return name;
}

std::uint32_t facts_of(std::string_view name) {
  // A fact of add is one of add_.
  name = without_underscore(name);
  const auto it = rows().find(name);
  std::uint32_t facts = it == rows().end() ? 0 : it->second;
  // In addition to a row: feature_dropout has none, dropout has one.
  for (const Family& family : kFamilies)
    if (name.find(family.part) != name.npos) facts |= family.fact;
  return facts;
}

std::string_view aten_name(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> others = {
      {"true_divide", "div"},   {"divide", "div"},   {"__truediv__", "div"},
      {"true_divide_", "div_"}, {"divide_", "div_"}, {"__itruediv__", "div_"},
      {"multiply", "mul"},      {"__mul__", "mul"},  {"__add__", "add"},
      {"subtract", "sub"},      {"__sub__", "sub"},
  };
  const auto it = others.find(name);
  return it == others.end() ? name : it->second;
}

std::string_view aten_name_of_python(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"truediv", "div"},
      {"itruediv", "div_"},
      {"add", "add"},
      {"iadd", "add_"},
      {"sub", "sub"},
      {"isub", "sub_"},
      {"mul", "mul"},
      {"imul", "mul_"},
      {"matmul", "matmul"},
      {"imatmul", "matmul"},
      {"pow", "pow"},
      {"ipow", "pow_"},
      {"mod", "mod"},
      {"imod", "remainder_"},
      {"floordiv", "floordiv"},
      {"ifloordiv", "floor_divide_"},
      {"neg", "neg"},
      {"pos", "pos"},
      {"abs", "abs"},
      {"getitem", "getitem"},
      {"eq", "eq"},
      {"ne", "ne"},
      {"lt", "lt"},
      {"le", "le"},
      {"gt", "gt"},
      {"ge", "ge"},
      {"and_", "__and__"},
      {"or_", "__or__"},
      {"xor", "__xor__"},
      {"invert", "bitwise_not"},
      {"lshift", "__lshift__"},
      {"rshift", "__rshift__"},
  };
  const auto it = names.find(name);
  return it == names.end() ? std::string_view() : it->second;
}

}  // namespace refx::book
