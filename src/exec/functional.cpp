#include "exec/lowering.h"
#include "exec/python_ops.h"
#include "exec/resize.h"
#include "refx/error.h"

namespace refx::exec {
namespace {

struct Row {
  const char* name;
  const char* signature;
  const char* call;
};

constexpr const char* kDropout = "input p=0.5 training=True inplace=False";
constexpr const char* kPool =
    "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False";

// torch.nn.functional, where the Python function takes other arguments than aten's operator.
constexpr Row kRows[] = {
    {"relu", "input inplace=False", "aten.relu.default(input)"},
    {"relu6", "input inplace=False", "aten.relu6.default(input)"},
    {"silu", "input inplace=False", "aten.silu.default(input)"},
    {"mish", "input inplace=False", "aten.mish.default(input)"},
    {"selu", "input inplace=False", "aten.selu.default(input)"},
    {"celu", "input alpha=1.0 inplace=False", "aten.celu.default(input, alpha)"},
    {"elu", "input alpha=1.0 inplace=False", "aten.elu.default(input, alpha)"},
    {"leaky_relu", "input negative_slope=0.01 inplace=False",
     "aten.leaky_relu.default(input, negative_slope)"},
    {"hardtanh", "input min_val=-1.0 max_val=1.0 inplace=False",
     "aten.hardtanh.default(input, min_val, max_val)"},
    {"hardswish", "input inplace=False", "aten.hardswish.default(input)"},
    {"hardsigmoid", "input inplace=False", "aten.hardsigmoid.default(input)"},
    {"threshold", "input threshold value inplace=False",
     "aten.threshold.default(input, threshold, value)"},
    {"logsigmoid", "input", "aten.log_sigmoid.default(input)"},
    {"dropout", kDropout, "aten.dropout.default(input, p, training)"},
    {"alpha_dropout", kDropout, "aten.alpha_dropout.default(input, p, training)"},
    {"dropout1d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"dropout2d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"dropout3d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"feature_alpha_dropout", kDropout, "aten.feature_alpha_dropout.default(input, p, training)"},
    {"softmax", "input dim _stacklevel=3 dtype=None", "aten.softmax.int(input, dim, dtype)"},
    {"log_softmax", "input dim _stacklevel=3 dtype=None",
     "aten.log_softmax.int(input, dim, dtype)"},
    {"batch_norm",
     "input running_mean running_var weight=None bias=None training=False momentum=0.1 eps=1e-5",
     "aten.batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, "
     "eps, True)"},
    {"instance_norm",
     "input running_mean=None running_var=None weight=None bias=None use_input_stats=True "
     "momentum=0.1 eps=1e-5",
     "aten.instance_norm.default(input, weight, bias, running_mean, running_var, use_input_stats, "
     "momentum, eps, True)"},
    {"max_pool1d", kPool,
     "aten.max_pool1d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"max_pool2d", kPool,
     "aten.max_pool2d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"max_pool3d", kPool,
     "aten.max_pool3d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
};

bool is_false(const Operand* o) { return o && o->kind == Kind::boolean && !o->constant.toBool(); }

// x / max(||x||, eps)
Operand normalize(Compiler& out, const NamedOperands& a) {
  Operand x = *find_named(a, "input");
  Operand dim = Operand::nest(Operand::Form::list, {*find_named(a, "dim")});
  Operand norm = out.call("aten.norm.ScalarOpt_dim", {x, *find_named(a, "p"), dim, true});
  Operand floor = out.call("aten.clamp_min.default", {norm, *find_named(a, "eps")});
  return out.call("aten.div.Tensor", {x, out.call("aten.expand_as.default", {floor, x})});
}

// The arguments of embedding that training or renormalisation need change nothing here, or cannot
// run.
NamedOperands plain_embedding(NamedOperands kwargs) {
  std::erase_if(kwargs, [](const auto& k) {
    bool training_only = k.first == "scale_grad_by_freq" || k.first == "sparse" ||
                         k.first == "norm_type" || k.first == "padding_idx";
    return training_only || (k.first == "max_norm" && k.second.is_none());
  });
  if (find_named(kwargs, "max_norm"))
    throw Error("embedding with max_norm changes its weight; it cannot run");
  return kwargs;
}

}  // namespace

std::optional<Operand> lower_functional(Compiler& out, std::string_view name,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs) {
  if (name == "normalize") {
    return normalize(out, bind_signature("input p=2.0 dim=1 eps=1e-12 out=None", args, kwargs));
  }
  if (name == "interpolate" || name == "upsample") {
    auto a = bind_signature(kInterpolate, args, kwargs);
    std::vector<Operand> values;
    for (const auto& [n, value] : a) values.push_back(value);
    return out.call_native(interpolate, std::move(values));
  }
  if (name == "embedding") {
    auto positional = args;
    if (positional.size() > 2) positional.resize(2);
    auto a = bind_signature("input weight padding_idx=-1", positional, plain_embedding(kwargs));
    return lower(out, "aten.embedding.default(weight, input, padding_idx)", a);
  }
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    auto a = bind_signature(row.signature, args, kwargs);
    const Operand* indices = find_named(a, "return_indices");
    if (indices && !is_false(indices)) {
      throw Error("return_indices is not supported; call aten." + std::string(name) +
                  "_with_indices");
    }
    return lower(out, row.call, a);
  }
  return std::nullopt;
}

}  // namespace refx::exec
