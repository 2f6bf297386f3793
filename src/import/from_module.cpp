// SPDX-License-Identifier: Apache-2.0

// torch::nn layers as the leaf modules of a graph: one row per layer type, with torch.nn's name for
// it and for its hyper-parameters. A row stands for exactly its type: the forward of a derived
// class may do anything.
//
// The only file that includes torch's C++ frontend, which takes long to compile.

#include "refx/from_module.h"

#include <fmt/format.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <typeindex>
#include <unordered_map>

#include "refx/builder.h"
#include "refx/error.h"

namespace refx {

namespace {

namespace nn = torch::nn;

// ---- hyper-parameters as arguments, spelled as Python has them ---------------------------------

template <class T>
Arg as_arg(const T& value) {
  return value;
}

template <class Range>
Arg as_tuple(const Range& range);

template <std::size_t D, class T>
Arg as_arg(const torch::ExpandingArray<D, T>& values) {
  return as_tuple(*values);
}
template <std::size_t D>
Arg as_arg(const torch::ExpandingArrayWithOptionalElem<D>& values) {
  return as_tuple(*values);
}
template <class T>
Arg as_arg(const std::vector<T>& values) {
  return as_tuple(values);
}
template <class T>
Arg as_arg(const std::optional<T>& value) {
  return value ? as_arg(*value) : Arg(None{});
}
// A choice: torch::kReflect is 'reflect'.
template <class... T>
Arg as_arg(const std::variant<T...>& value) {
  return std::visit(
      []<class V>(const V& v) -> Arg {
        if constexpr (requires { torch::enumtype::_compute_enum_name{}(v); }) {
          std::string name = torch::enumtype::_compute_enum_name{}(v).substr(1);
          for (char& c : name) c = static_cast<char>(std::tolower(c));
          return name;
        } else {
          return as_arg(v);
        }
      },
      value);
}

template <class Range>
Arg as_tuple(const Range& range) {
  Tuple tuple;
  for (const auto& value : range) tuple.items.push_back(as_arg(value));
  return tuple;
}

// ---- the layers --------------------------------------------------------------------------------

struct NamedTensor {
  const char* name;
  StateKind kind;
  at::Tensor tensor;
};

// The tensors that forward uses, in the order of state_dict: the members, for what was registered
// under their names may be out of date (`decoder->weight = encoder->weight` ties only the members).
template <class Impl>
std::vector<NamedTensor> tensors_of(const nn::Module& module) {
  const auto& layer = dynamic_cast<const Impl&>(module);
  std::vector<NamedTensor> all;
  if constexpr (requires { layer.weight; })
    all.push_back({"weight", StateKind::parameter, layer.weight});
  if constexpr (requires { layer.bias; }) all.push_back({"bias", StateKind::parameter, layer.bias});
  if constexpr (requires { layer.running_mean; }) {
    all.push_back({"running_mean", StateKind::buffer, layer.running_mean});
    all.push_back({"running_var", StateKind::buffer, layer.running_var});
    all.push_back({"num_batches_tracked", StateKind::buffer, layer.num_batches_tracked});
  }
  std::erase_if(all, [](const NamedTensor& t) { return !t.tensor.defined(); });
  return all;
}

struct ImportedLayer {
  const char* type;
  Kwargs (*parameters)(const nn::Module&);
  std::vector<NamedTensor> (*tensors)(const nn::Module&);
};
using Row = std::pair<const std::type_index, ImportedLayer>;

template <class Impl>
Row row(const char* type) {
  return {typeid(Impl), {type, [](const nn::Module&) { return Kwargs{}; }, tensors_of<Impl>}};
}
template <class Impl, class F>
Row row(const char* type, F) {
  auto parameters = [](const nn::Module& module) {
    return F{}(dynamic_cast<const Impl&>(module).options);
  };
  return {typeid(Impl), {type, parameters, tensors_of<Impl>}};
}

// One hyper-parameter whose name C++ and Python share.
#define REFX_P(name) \
  { #name, as_arg(o.name()) }
// A row: torch::nn::LinearImpl is torch.nn.Linear.
#define REFX_LAYER(name, ...) row<nn::name##Impl>("torch.nn." #name __VA_OPT__(, ) __VA_ARGS__)
// The function that reads these from a layer's options.
#define REFX_PARAMETERS(...) [](const auto& o) -> Kwargs { return {__VA_ARGS__}; }

const ImportedLayer* find_imported_layer(const nn::Module& module) {
  constexpr auto conv = REFX_PARAMETERS(
      REFX_P(in_channels), REFX_P(out_channels), REFX_P(kernel_size), REFX_P(stride),
      REFX_P(padding), REFX_P(dilation), REFX_P(groups), REFX_P(bias), REFX_P(padding_mode));
  constexpr auto conv_transpose =
      REFX_PARAMETERS(REFX_P(in_channels), REFX_P(out_channels), REFX_P(kernel_size),
                      REFX_P(stride), REFX_P(padding), REFX_P(output_padding), REFX_P(groups),
                      REFX_P(bias), REFX_P(dilation), REFX_P(padding_mode));
  constexpr auto norm = REFX_PARAMETERS(REFX_P(num_features), REFX_P(eps), REFX_P(momentum),
                                        REFX_P(affine), REFX_P(track_running_stats));
  constexpr auto max_pool = REFX_PARAMETERS(REFX_P(kernel_size), REFX_P(stride), REFX_P(padding),
                                            REFX_P(dilation), REFX_P(ceil_mode));
  constexpr auto avg_pool_1d = REFX_PARAMETERS(REFX_P(kernel_size), REFX_P(stride), REFX_P(padding),
                                               REFX_P(ceil_mode), REFX_P(count_include_pad));
  constexpr auto avg_pool =
      REFX_PARAMETERS(REFX_P(kernel_size), REFX_P(stride), REFX_P(padding), REFX_P(ceil_mode),
                      REFX_P(count_include_pad), REFX_P(divisor_override));
  constexpr auto output_size = REFX_PARAMETERS(REFX_P(output_size));
  constexpr auto padding = REFX_PARAMETERS(REFX_P(padding));
  constexpr auto dropout = REFX_PARAMETERS(REFX_P(p), REFX_P(inplace));
  constexpr auto inplace = REFX_PARAMETERS(REFX_P(inplace));
  constexpr auto alpha = REFX_PARAMETERS(REFX_P(alpha), REFX_P(inplace));
  constexpr auto dim = REFX_PARAMETERS(REFX_P(dim));

  // clang-format off
  static const std::unordered_map<std::type_index, ImportedLayer> layers = {
      REFX_LAYER(Identity),
      REFX_LAYER(Linear, REFX_PARAMETERS(REFX_P(in_features), REFX_P(out_features), REFX_P(bias))),
      REFX_LAYER(Embedding, REFX_PARAMETERS(REFX_P(num_embeddings), REFX_P(embedding_dim), REFX_P(padding_idx), REFX_P(max_norm), REFX_P(norm_type), REFX_P(scale_grad_by_freq), REFX_P(sparse))),

      REFX_LAYER(Conv1d, conv),
      REFX_LAYER(Conv2d, conv),
      REFX_LAYER(Conv3d, conv),
      REFX_LAYER(ConvTranspose1d, conv_transpose),
      REFX_LAYER(ConvTranspose2d, conv_transpose),
      REFX_LAYER(ConvTranspose3d, conv_transpose),

      REFX_LAYER(BatchNorm1d, norm),
      REFX_LAYER(BatchNorm2d, norm),
      REFX_LAYER(BatchNorm3d, norm),
      REFX_LAYER(InstanceNorm1d, norm),
      REFX_LAYER(InstanceNorm2d, norm),
      REFX_LAYER(InstanceNorm3d, norm),
      REFX_LAYER(GroupNorm, REFX_PARAMETERS(REFX_P(num_groups), REFX_P(num_channels), REFX_P(eps), REFX_P(affine))),
      REFX_LAYER(LayerNorm, REFX_PARAMETERS(REFX_P(normalized_shape), REFX_P(eps), REFX_P(elementwise_affine))),

      REFX_LAYER(Dropout, dropout),
      REFX_LAYER(Dropout2d, dropout),
      REFX_LAYER(Dropout3d, dropout),
      REFX_LAYER(AlphaDropout, dropout),
      REFX_LAYER(FeatureAlphaDropout, dropout),

      REFX_LAYER(ReLU, inplace),
      REFX_LAYER(ReLU6, inplace),
      REFX_LAYER(SELU, inplace),
      REFX_LAYER(ELU, alpha),
      REFX_LAYER(CELU, alpha),
      REFX_LAYER(GELU, REFX_PARAMETERS(REFX_P(approximate))),
      REFX_LAYER(SiLU),
      REFX_LAYER(Mish),
      REFX_LAYER(Tanh),
      REFX_LAYER(Sigmoid),
      REFX_LAYER(LogSigmoid),
      REFX_LAYER(LeakyReLU, REFX_PARAMETERS(REFX_P(negative_slope), REFX_P(inplace))),
      REFX_LAYER(PReLU, REFX_PARAMETERS(REFX_P(num_parameters), REFX_P(init))),
      REFX_LAYER(Hardtanh, REFX_PARAMETERS(REFX_P(min_val), REFX_P(max_val), REFX_P(inplace))),
      REFX_LAYER(Threshold, REFX_PARAMETERS(REFX_P(threshold), REFX_P(value), REFX_P(inplace))),
      REFX_LAYER(Softplus, REFX_PARAMETERS(REFX_P(beta), REFX_P(threshold))),
      REFX_LAYER(GLU, dim),
      REFX_LAYER(Softmax, dim),
      REFX_LAYER(LogSoftmax, dim),

      REFX_LAYER(MaxPool1d, max_pool),
      REFX_LAYER(MaxPool2d, max_pool),
      REFX_LAYER(MaxPool3d, max_pool),
      REFX_LAYER(AvgPool1d, avg_pool_1d),
      REFX_LAYER(AvgPool2d, avg_pool),
      REFX_LAYER(AvgPool3d, avg_pool),
      REFX_LAYER(AdaptiveAvgPool1d, output_size),
      REFX_LAYER(AdaptiveAvgPool2d, output_size),
      REFX_LAYER(AdaptiveAvgPool3d, output_size),

      REFX_LAYER(Flatten, REFX_PARAMETERS(REFX_P(start_dim), REFX_P(end_dim))),
      REFX_LAYER(Unflatten, REFX_PARAMETERS(REFX_P(dim), {"unflattened_size", as_arg(o.sizes())})),
      REFX_LAYER(ZeroPad2d, padding),
      REFX_LAYER(ConstantPad2d, REFX_PARAMETERS(REFX_P(padding), REFX_P(value))),
      REFX_LAYER(ReflectionPad1d, padding),
      REFX_LAYER(ReflectionPad2d, padding),
      REFX_LAYER(ReplicationPad1d, padding),
      REFX_LAYER(ReplicationPad2d, padding),
      REFX_LAYER(Upsample, REFX_PARAMETERS(REFX_P(size), REFX_P(scale_factor), REFX_P(mode), REFX_P(align_corners))),
      REFX_LAYER(PixelShuffle, REFX_PARAMETERS(REFX_P(upscale_factor))),
      REFX_LAYER(PixelUnshuffle, REFX_PARAMETERS(REFX_P(downscale_factor))),
  };
  // clang-format on
  const auto found = layers.find(typeid(module));
  return found == layers.end() ? nullptr : &found->second;
}

#undef REFX_LAYER
#undef REFX_P
#undef REFX_PARAMETERS

// ---- the walk ----------------------------------------------------------------------------------

[[noreturn]] void refuse(const nn::Module& module, const std::string& path) {
  const std::string what = path.empty() ? fmt::format("a {}", module.name())
                                        : fmt::format("module '{}', a {}", path, module.name());
  const bool derived = dynamic_cast<const nn::SequentialImpl*>(&module) != nullptr;
  throw Error(fmt::format(
      "from_module cannot read {}: {}; {}, or write this part with refx::Builder", what,
      derived
          ? "it derives from Sequential, and its own forward may do more than run its layers"
          : "its forward is not known (only those of torch::nn::Sequential and plain layers are)",
      derived ? "name its type among the plain Sequentials if it does no more"
              : "use layers of torch::nn in its place"));
}

class Walk {
 public:
  explicit Walk(const std::vector<std::type_index>& plain) : plain_(plain) {}

  Model run(const nn::Module& module) {
    const NodeId input = builder_.input("input");
    // A single layer is read as the Sequential of it.
    return builder_.build(is_sequential(module) || !find_imported_layer(module)
                              ? visit(module, "", input)
                              : visit(module, "0", input));
  }

 private:
  bool is_sequential(const nn::Module& module) const {
    return typeid(module) == typeid(nn::SequentialImpl) ||
           (dynamic_cast<const nn::SequentialImpl*>(&module) &&
            std::find(plain_.begin(), plain_.end(), typeid(module)) != plain_.end());
  }

  NodeId visit(const nn::Module& module, const std::string& path, NodeId input) {
    if (is_sequential(module))
      return visit_children(dynamic_cast<const nn::SequentialImpl&>(module), path, input);
    const ImportedLayer* layer = find_imported_layer(module);
    if (!layer) refuse(module, path);
    // A layer that was seen before is the same module, called again.
    const auto [seen, is_new] = paths_.emplace(&module, path);
    if (is_new) add(module, *layer, path);
    return builder_.call_module(seen->second, {input});
  }

  NodeId visit_children(const nn::SequentialImpl& sequential, const std::string& path,
                        NodeId input) {
    // What forward runs, under the names by which it was registered.
    const auto children = sequential.named_children();
    auto child = children.begin();
    for (const nn::AnyModule& step : sequential) {
      child = std::find_if(child, children.end(),
                           [&](const auto& c) { return c.value() == step.ptr(); });
      if (child == children.end())
        throw Error(
            fmt::format("from_module cannot read {}: a layer was replaced after it was "
                        "pushed; build the Sequential again",
                        path.empty() ? "the Sequential" : fmt::format("Sequential '{}'", path)));
      input =
          visit(*child->value(), path.empty() ? child->key() : path + "." + child->key(), input);
      ++child;
    }
    return input;
  }

  void add(const nn::Module& module, const ImportedLayer& layer, const std::string& path) {
    builder_.module({.name = path,
                     .type = layer.type,
                     .parameters = layer.parameters(module),
                     .training = module.is_training(),
                     .custom = {}});
    for (const auto& [name, kind, tensor] : layer.tensors(module))
      builder_.state({path + "." + name, kind, true, tensor});
  }

  const std::vector<std::type_index>& plain_;
  Builder builder_;
  std::unordered_map<const nn::Module*, std::string> paths_;
};

}  // namespace

Model from_module(const torch::nn::Module& module,
                  const std::vector<std::type_index>& plain_sequentials) {
  return Walk(plain_sequentials).run(module);
}

Model from_module(const torch::nn::Module& module) { return from_module(module, {}); }

Model from_module(const torch::nn::AnyModule& module) {
  if (module.is_empty()) throw Error("from_module cannot read an empty AnyModule");
  return from_module(*module.ptr());
}

}  // namespace refx
