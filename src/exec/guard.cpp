#include "exec/guard.h"

#include <ATen/core/Tensor.h>

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

// Each channel has an entry in all of them.
void batch_norm(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor input = tensor(schema, arguments, "input");
  if (!input.defined() || input.dim() < 2) throw Error("a batch norm wants an input of channels");
  const auto training = schema.argumentIndexWithName("training");
  const bool updates = schema.operator_name().name.find("with_update") != std::string::npos;
  const bool own = training && arguments[static_cast<std::size_t>(*training)].toBool();
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    const at::Tensor one = tensor(schema, arguments, name);
    const bool needed = std::string_view(name).starts_with("running") && !own && !updates;
    if (!one.defined() && !needed) continue;
    if (!one.defined() || one.numel() != input.size(1))
      throw Error("'" + std::string(name) + "' of a batch norm wants " +
                  std::to_string(input.size(1)) + " elements, one for each channel");
  }
}

// Queries, keys and values of one batch.
void attention(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor q = tensor(schema, arguments, "query"), k = tensor(schema, arguments, "key"),
                   v = tensor(schema, arguments, "value");
  for (const at::Tensor& one : {q, k, v})
    if (!one.defined() || one.dim() != 4)
      throw Error("attention wants queries, keys and values of four dimensions");
  const bool heads = k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  if (q.size(0) != k.size(0) || !heads || k.sizes().slice(0, 3) != v.sizes().slice(0, 3))
    throw Error("queries, keys and values of an attention do not fit together");
}

void weight_norm(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor v = tensor(schema, arguments, "v"), g = tensor(schema, arguments, "g");
  const auto at = schema.argumentIndexWithName("dim");
  const std::int64_t dim = at ? arguments[static_cast<std::size_t>(*at)].toInt() : 0;
  if (!v.defined() || !g.defined() || v.dim() == 0) throw Error("a weight norm wants two tensors");
  const bool fused = dim == 0 || dim == v.dim() - 1;
  if (fused && g.numel() != v.size(dim)) throw Error("a weight norm wants a length for each row");
}

void embedding_bag(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor offsets = tensor(schema, arguments, "offsets");
  if (offsets.defined() && offsets.numel() > 0 && offsets.lt(0).any().item().toBool())
    throw Error("an offset of an embedding bag is negative");
}

void fft(const FunctionSchema& schema, const Arguments& arguments) {
  const at::Tensor x = tensor(schema, arguments, "self");
  const auto at = schema.argumentIndexWithName("dim");
  if (!x.defined() || !at) return;
  for (const std::int64_t dim : arguments[static_cast<std::size_t>(*at)].toIntVector())
    if (dim < -x.dim() || dim >= x.dim())
      throw Error("the input of an FFT has no dimension " + std::to_string(dim));
}

struct Row {
  std::string_view ops;
  Guard guard;
};
constexpr Row kRows[] = {
    {"aten::native_batch_norm", batch_norm},
    {"aten::_native_batch_norm_legit*", batch_norm},
    {"aten::_batch_norm_with_update*", batch_norm},
    {"aten::_scaled_dot_product_attention_math*", nullptr},
    {"aten::_scaled_dot_product_*", attention},
    {"aten::_weight_norm*", weight_norm},
    {"aten::_fft_*", fft},
    {"aten::embedding_bag", embedding_bag},
    {"aten::_embedding_bag*", embedding_bag},
};

}  // namespace

Guard guard_of(const c10::OperatorName& op) {
  for (const Row& row : kRows)
    if (glob_match(row.ops, op.name)) return row.guard;
  return nullptr;
}

}  // namespace refx::exec
