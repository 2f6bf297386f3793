// SPDX-License-Identifier: Apache-2.0

#include "exec/guard.h"

#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/result_type.h>

#include "refx/error.h"
#include "util/glob.h"

namespace refx::exec {
namespace {

using c10::FunctionSchema;
using c10::IValue;
using Arguments = std::vector<IValue>;

// None if there is no such argument, or none is given.
at::Tensor tensor(const FunctionSchema& schema, const Arguments& arguments, const char* name) {
  const auto at = schema.argumentIndexWithName(name);
  if (!at || !arguments[static_cast<std::size_t>(*at)].isTensor()) return {};
  return arguments[static_cast<std::size_t>(*at)].toTensor();
}

// The value of an argument; None if there is none of that name.
IValue value(const FunctionSchema& schema, const Arguments& arguments, const char* name) {
  const auto at = schema.argumentIndexWithName(name);
  return at ? arguments[static_cast<std::size_t>(*at)] : IValue();
}

// Whether an element of the tensor is `number`. Tensors without data have none.
bool has(const at::Tensor& tensor, std::int64_t number) {
  return tensor.numel() > 0 && !tensor.is_meta() && tensor.eq(number).any().item().toBool();
}
bool has_below(const at::Tensor& tensor, std::int64_t number) {
  return tensor.numel() > 0 && !tensor.is_meta() && tensor.lt(number).any().item().toBool();
}

// The smallest integer divided by -1 does not fit its type, and the processor traps.
void integer_division(const FunctionSchema& schema, const Arguments& arguments) {
  const IValue mode = value(schema, arguments, "rounding_mode");
  if (schema.argumentIndexWithName("rounding_mode") && mode.isNone()) return;  // in floats
  const auto operand = [&](const char* name) {
    const IValue given = value(schema, arguments, name);
    return given.isTensor() ? given.toTensor()
                            : at::native::wrapped_scalar_tensor(given.toScalar());
  };
  const at::Tensor dividend = operand("self"), divisor = operand("other");
  if (!dividend.defined() || !divisor.defined()) return;
  const c10::ScalarType dtype = at::result_type(dividend, divisor);
  if (dtype != at::kInt && dtype != at::kLong) return;
  const std::int64_t smallest = dtype == at::kInt ? INT32_MIN : INT64_MIN;
  // As the kernel sees them: a number that does not fit the type wraps.
  if (has(divisor.to(dtype), -1) && has(dividend.to(dtype), smallest))
    throw Error("the smallest integer is divided by -1, which has no result");
}

// Each channel has an entry in all of them.
void batch_norm(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor input = tensor(schema, arguments, "input");
  if (!input.defined() || input.dim() < 2) throw Error("a batch norm expects an input of channels");
  const auto training = schema.argumentIndexWithName("training");
  const bool updates = schema.operator_name().name.find("with_update") != std::string::npos;
  // With statistics of the batch, or new ones, the stored statistics may be missing.
  const bool own = training && arguments[static_cast<std::size_t>(*training)].toBool();
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    const at::Tensor one = tensor(schema, arguments, name);
    const bool needed = std::string_view(name).starts_with("running") && !own && !updates;
    if (!one.defined() && !needed) continue;
    if (!one.defined() || one.numel() != input.size(1))
      throw Error("'" + std::string(name) + "' of a batch norm expects " +
                  std::to_string(input.size(1)) + " elements, one for each channel");
  }
}

// Queries, keys and values of one batch.
void attention(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor q = tensor(schema, arguments, "query"), k = tensor(schema, arguments, "key"),
                   v = tensor(schema, arguments, "value");
  for (const at::Tensor& one : {q, k, v})
    if (!one.defined() || one.dim() != 4)
      throw Error("attention expects queries, keys and values of four dimensions");
  const bool heads = k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  for (const at::Tensor& one : {q, k, v})
    if (one.numel() == 0 || one.stride(3) != 1)
      throw Error("attention expects queries, keys and values that are not empty, with dense rows");
  if (q.size(0) != k.size(0) || !heads || k.sizes().slice(0, 3) != v.sizes().slice(0, 3))
    throw Error("queries, keys and values of an attention do not fit together");
}

void weight_norm(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor v = tensor(schema, arguments, "v"), g = tensor(schema, arguments, "g");
  const auto at = schema.argumentIndexWithName("dim");
  const std::int64_t dim = at ? arguments[static_cast<std::size_t>(*at)].toInt() : 0;
  if (!v.defined() || !g.defined() || v.dim() == 0 || v.numel() == 0)
    throw Error("a weight norm expects two tensors that are not empty");
  // torch has a fused kernel for the first and the last dimension only. The others broadcast, which
  // checks the sizes.
  const bool fused = dim == 0 || dim == v.dim() - 1;
  if (fused && g.numel() != v.size(dim)) throw Error("a weight norm expects a length for each row");
}

void embedding_bag(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor weight = tensor(schema, arguments, "weight"),
                   indices = tensor(schema, arguments, "indices"),
                   offsets = tensor(schema, arguments, "offsets"),
                   scales = tensor(schema, arguments, "per_sample_weights");
  const auto is_row = [](const at::Tensor& one) {
    return one.defined() && one.dim() == 1 && one.is_contiguous();
  };
  if (!weight.defined() || weight.dim() != 2 || !is_row(indices) || !is_row(offsets))
    throw Error(
        "an embedding bag expects a matrix, and contiguous indices and offsets in one dimension");
  const bool ends = value(schema, arguments, "include_last_offset").toBool();
  if (offsets.numel() < (ends ? 2 : 1)) throw Error("an embedding bag expects at least one bag");
  if (has_below(offsets, 0) || has_below(-offsets, -indices.numel()))
    throw Error("an offset of an embedding bag is not among its indices");
  if (!offsets.is_meta() && (offsets[0].item().toLong() != 0 ||
                             has_below(offsets.slice(0, 1) - offsets.slice(0, 0, -1), 0)))
    throw Error("the offsets of an embedding bag start at 0 and ascend");
  if (has_below(indices, 0) || has_below(-indices, 1 - weight.size(0)))
    throw Error("an index of an embedding bag has no row in its weight");
  if (scales.defined() && (!is_row(scales) || scales.numel() != indices.numel() ||
                           scales.scalar_type() != weight.scalar_type()))
    throw Error("'per_sample_weights' of an embedding bag expects one element for each index");
}

// Their sum is the size of the result.
void repeat_interleave(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr double kMost = 1e15;  // far below where a sum of integers wraps
  const at::Tensor repeats = tensor(schema, arguments, "repeats");
  if (!repeats.defined() || repeats.numel() == 0 || repeats.is_meta()) return;
  if (has_below(repeats, 0) || repeats.to(at::kDouble).sum().item().toDouble() > kMost)
    throw Error("the repeats are negative or too many");
}

// Positions in the input are computed from the scales and become integers.
void upsample(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr double kMost = 1 << 20;
  const auto check = [&](const IValue& scale) {
    if (scale.isDouble() && !(scale.toDouble() >= 1 / kMost && scale.toDouble() <= kMost))
      throw Error("a scale of an interpolation is out of bounds: it is between 2^-20 and 2^20");
  };
  for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"})
    check(value(schema, arguments, name));
  if (const IValue factors = value(schema, arguments, "scale_factors"); factors.isList())
    for (const IValue& factor : factors.toListRef()) check(factor);
}

// Sums of sizes and pads must not wrap.
void pad(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (const char* name : {"pad", "padding"})
    if (const IValue pads = value(schema, arguments, name); pads.isIntList())
      for (const std::int64_t one : pads.toIntVector())
        if (one > kMost || one < -kMost) throw Error("a padding is out of bounds");
}

// oneDNN computes positions in the input in 32 bits, and its kernels do not check that they fit.
void convolution(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr std::int64_t kMost = 1 << 15;
  for (const char* name : {"stride", "padding", "dilation", "output_padding"})
    if (const IValue numbers = value(schema, arguments, name); numbers.isIntList())
      for (const std::int64_t one : numbers.toIntVector())
        if (one > kMost || one < -kMost)
          throw Error(std::string("the ") + name +
                      " of a sliding window is out of bounds: at most " + std::to_string(kMost));
}

// torch 2.13 does not write the result, or writes a wrong one, where a dimension has one element
// and the strides make a matrix look transposed.
void int_product(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor rows = tensor(schema, arguments, "self"),
                   columns = tensor(schema, arguments, "mat2");
  if (!rows.defined() || !columns.defined() || rows.dim() != 2 || columns.dim() != 2) return;
  if (rows.size(1) < 2 || (rows.size(0) == 1 && rows.stride(0) < rows.size(1)))
    throw Error("an integer product expects rows of two or more elements, one behind the other");
}

// Of integers, torch divides by it without a check.
void average_pool(const FunctionSchema& schema, const Arguments& arguments) {
  const IValue divisor = value(schema, arguments, "divisor_override");
  if (divisor.isInt() && divisor.toInt() < 1)
    throw Error("the divisor of an average is less than 1");
}

// torch leaves the result unwritten for a mode that it does not know.
void grid_sampler(const FunctionSchema& schema, const Arguments& arguments) {
  for (const char* name : {"interpolation_mode", "padding_mode"})
    if (const IValue mode = value(schema, arguments, name); mode.isInt())
      if (mode.toInt() < 0 || mode.toInt() > 2)
        throw Error(std::string("the ") + name + " of a grid sampler is 0, 1 or 2");
}

// torch compares a product of these sizes, which can wrap, with the input's elements.
void group_norm(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor input = tensor(schema, arguments, "input");
  if (!input.defined()) return;
  const auto is = [&](const char* name, std::int64_t size) {
    const IValue given = value(schema, arguments, name);
    return given.isInt() && given.toInt() == size;
  };
  if (input.dim() < 2 || input.numel() == 0 || !is("N", input.size(0)) || !is("C", input.size(1)) ||
      !is("HxW", input.numel() / input.size(0) / input.size(1)))
    throw Error("the sizes of a group norm are not those of its input");
  const IValue groups = value(schema, arguments, "group");
  if (!groups.isInt() || groups.toInt() < 1 || input.size(1) % groups.toInt() != 0)
    throw Error("the channels of a group norm cannot be divided into its groups");
  for (const char* name : {"weight", "bias"}) {
    const at::Tensor one = tensor(schema, arguments, name);
    if (one.defined() && (one.dim() != 1 || one.size(0) != input.size(1) || !one.is_contiguous() ||
                          one.is_meta() != input.is_meta()))
      throw Error(std::string("the ") + name +
                  " of a group norm expects one element for each channel");
  }
}

void matrix_power(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr std::int64_t kMost = 1 << 20;
  const IValue power = value(schema, arguments, "n");
  if (power.isInt() && (power.toInt() > kMost || power.toInt() < -kMost))
    throw Error("the power of a matrix is out of bounds: at most " + std::to_string(kMost));
}

// Each result takes memory, however small it is.
void many_results(const FunctionSchema& schema, const Arguments& arguments) {
  constexpr std::int64_t kMost = 1 << 16;
  const at::Tensor self = tensor(schema, arguments, "self");
  const IValue dim = value(schema, arguments, "dim"), size = value(schema, arguments, "split_size");
  if (!self.defined() || !dim.isInt() || dim.toInt() < -self.dim() || dim.toInt() >= self.dim())
    return;
  std::int64_t results = self.size(dim.toInt());
  // unbind has no size: it returns a result for each element.
  if (size.isInt() && size.toInt() > 0) results /= size.toInt();
  if (results > kMost)
    throw Error("a tensor is split into " + std::to_string(results) + " parts, more than " +
                std::to_string(kMost));
}

void pairwise_distances(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor x = tensor(schema, arguments, "self");
  if (!x.defined() || x.dim() != 2 || !x.is_contiguous())
    throw Error("pairwise distances expect a contiguous matrix");
}

// Weights and biases of all layers and directions, for `gates` gates.
void recurrent(const FunctionSchema& schema, const Arguments& arguments, std::int64_t gates) {
  const at::Tensor input = tensor(schema, arguments, "input");
  const IValue hx = value(schema, arguments, "hx");
  std::vector<at::Tensor> states = hx.isTensor() ? std::vector{hx.toTensor()} : hx.toTensorVector();
  const auto params = value(schema, arguments, "params").toTensorVector();
  const std::int64_t layers = value(schema, arguments, "num_layers").toInt();
  const bool biases = value(schema, arguments, "has_biases").toBool();
  const std::int64_t directions = value(schema, arguments, "bidirectional").toBool() ? 2 : 1;
  const auto fail = [] {
    throw Error("the input, states and parameters of a recurrent network do not fit together");
  };
  // An LSTM (four gates) has a hidden state and a cell state, a GRU (three gates) one hidden state.
  const std::size_t wanted = gates == 4 ? 2 : 1;
  if (!input.defined() || input.dim() != 3 || input.numel() == 0 || states.size() != wanted) fail();
  const bool batch_first = value(schema, arguments, "batch_first").toBool();
  for (const at::Tensor& state : states)
    if (!state.defined() || state.dim() != 3 || state.numel() == 0 || layers < 1 ||
        layers > state.size(0) || state.size(0) != layers * directions ||
        state.size(1) != input.size(batch_first ? 0 : 1) ||
        state.scalar_type() != input.scalar_type())
      fail();
  const std::int64_t hidden = states.back().size(2), output = states[0].size(2);
  // An LSTM with proj_size: the hidden state is a projection of the cell state, and smaller.
  const bool projects = hidden != output;
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      shapes.push_back({gates * hidden, layer == 0 ? input.size(2) : output * directions});
      shapes.push_back({gates * hidden, output});
      if (biases) shapes.insert(shapes.end(), 2, {gates * hidden});
      if (projects) shapes.push_back({output, hidden});
    }
  if (shapes.size() != params.size()) fail();
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (!params[i].defined() || params[i].sizes() != at::IntArrayRef(shapes[i]) ||
        params[i].scalar_type() != input.scalar_type())
      fail();
}
void lstm(const FunctionSchema& schema, const Arguments& arguments) {
  recurrent(schema, arguments, 4);
}
void gru(const FunctionSchema& schema, const Arguments& arguments) {
  recurrent(schema, arguments, 3);
}

// torch transforms more than there is where a dimension is expanded.
void fft_of_expanded(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor x = tensor(schema, arguments, "self");
  for (std::int64_t dim = 0; x.defined() && dim < x.dim(); ++dim)
    if (x.size(dim) > 1 && x.stride(dim) == 0)
      throw Error("the input of an FFT is expanded; a copy of it (contiguous) can be transformed");
}

void fft(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor x = tensor(schema, arguments, "self");
  const auto at = schema.argumentIndexWithName("dim");
  if (!x.defined() || !at) return;
  fft_of_expanded(schema, arguments);
  for (const std::int64_t dim : arguments[static_cast<std::size_t>(*at)].toIntVector())
    if (dim < -x.dim() || dim >= x.dim())
      throw Error("the input of an FFT has no dimension " + std::to_string(dim));
  if (!schema.argumentIndexWithName("last_dim_size")) return;
  const auto dims = value(schema, arguments, "dim").toIntVector();
  const std::int64_t size = value(schema, arguments, "last_dim_size").toInt();
  if (dims.empty() || size < 1 || x.size(dims.back()) < size / 2 + 1)
    throw Error("the input of an FFT is too small for a result of " + std::to_string(size));
}

// torch divides by the number of heads of keys and values.
void grouped_attention(const FunctionSchema& schema, const Arguments& arguments) {
  const IValue grouped = value(schema, arguments, "enable_gqa");
  if (!grouped.isBool() || !grouped.toBool()) return;
  for (const char* name : {"key", "value"})
    if (const at::Tensor one = tensor(schema, arguments, name);
        one.defined() && one.dim() >= 3 && one.size(-3) == 0)
      throw Error("attention with repeated heads expects at least one head of keys and values");
}

// torch writes zeros through a pointer that tensors of oneDNN's layout do not have.
void onednn_layout(const FunctionSchema& schema, const Arguments& arguments) {
  const IValue layout = value(schema, arguments, "layout");
  if (layout.isInt() && layout.toLayout() == c10::kMkldnn)
    throw Error("a tensor of oneDNN's own layout cannot be created");
}

struct Row {
  std::string_view ops;  // names; with a dot, names and overloads
  Guard guard;
};
constexpr Row kRows[] = {
    {"aten::native_batch_norm", batch_norm},
    {"aten::_native_batch_norm_legit*", batch_norm},
    {"aten::_batch_norm_with_update*", batch_norm},
    // The first row that matches an operator decides, so that exceptions come before their pattern.
    // This one is composite: the operators that it calls are checked by themselves.
    {"aten::_scaled_dot_product_attention_math*", nullptr},
    {"aten::_scaled_dot_product_*", attention},
    {"aten::_weight_norm*", weight_norm},
    {"aten::_fft_*", fft},
    {"aten::fft_*", fft_of_expanded},
    {"aten::scaled_dot_product_attention", grouped_attention},
    {"aten::new_*", onednn_layout},
    {"aten::zeros*", onednn_layout},
    {"aten::embedding_bag", embedding_bag},
    {"aten::_embedding_bag*", embedding_bag},
    {"aten::repeat_interleave", repeat_interleave},
    {"aten::pad", pad},
    {"aten::*_pad*d", pad},
    {"aten::upsample_*", upsample},
    {"aten::_upsample_*", upsample},
    {"aten::conv*d*", convolution},
    {"aten::convolution*", convolution},
    {"aten::col2im*", convolution},
    {"aten::im2col*", convolution},
    {"aten::_int_mm*", int_product},
    {"aten::avg_pool*", average_pool},
    {"aten::grid_sampler*", grid_sampler},
    {"aten::native_group_norm", group_norm},
    {"aten::matrix_power", matrix_power},
    {"aten::split.Tensor", many_results},
    {"aten::unsafe_split.Tensor", many_results},
    {"aten::unbind*", many_results},
    {"aten::_pdist_forward", pairwise_distances},
    {"aten::lstm", lstm},
    {"aten::gru", gru},
    {"aten::floor_divide*", integer_division},
    {"aten::remainder*", integer_division},
    {"aten::fmod*", integer_division},
    {"aten::div*.*_mode*", integer_division},  // div, div_, divide, divide_
};

bool is_dense(const at::Tensor& tensor) {
  return !tensor.defined() || (tensor.layout() == c10::kStrided && !tensor.is_nested() &&
                               !c10::isQIntType(tensor.scalar_type()));
}

}  // namespace

void require_dense(const std::vector<IValue>& results) {
  for (const IValue& result : results) {
    bool dense = !result.isTensor() || is_dense(result.toTensor());
    if (result.isTensorList())
      for (const at::Tensor& item : result.toTensorVector()) dense = dense && is_dense(item);
    if (!dense)
      throw Error(
          "it returns a sparse, quantized or nested tensor, which is refused unless the operator "
          "is "
          "allowed by name");
  }
}

Guard guard_of(const c10::OperatorName& op) {
  const std::string full = op.name + "." + op.overload_name;
  for (const Row& row : kRows)
    if (glob_match(row.ops, row.ops.find('.') == row.ops.npos ? op.name : full)) return row.guard;
  return nullptr;
}

}  // namespace refx::exec
