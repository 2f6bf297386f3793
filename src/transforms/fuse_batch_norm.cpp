// SPDX-License-Identifier: Apache-2.0

#include "transforms/fuse_batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mv.h>
#include <c10/core/InferenceMode.h>

#include "book/result_types.h"
#include "ops/fold.h"
#include "ops/writes.h"

namespace refx {

namespace {

// A layer and a batch norm, one directly after the other.
struct NormPair {
  Layer layer;
  BatchNormOp norm;
  bool norm_first = false;  // linear(batch_norm(x))
  bool is_linear = false;
  bool transposed = false;  // of a convolution, like the next two
  std::int64_t groups = 1;
  int dims = 0;

  NodeId inner() const { return norm_first ? norm.node : layer.node; }
  NodeId outer() const { return norm_first ? layer.node : norm.node; }
  NodeId input() const { return norm_first ? norm.input : layer.input; }
};

std::optional<NormPair> conv_before(const Model& model, const BatchNormOp& norm) {
  const auto conv = norm.input ? ConvOp::match(model, norm.input) : std::nullopt;
  if (!conv) return std::nullopt;
  return NormPair{.layer = static_cast<const Layer&>(*conv),
                  .norm = norm,
                  .transposed = conv->transposed,
                  .groups = conv->groups,
                  .dims = conv->dims};
}

std::optional<NormPair> linear_at(const Model& model, NodeId id, const BatchNormOp& norm) {
  auto linear = id ? LinearOp::match(model, id, Tensors::maybe_shared) : std::nullopt;
  if (!linear) return std::nullopt;
  return NormPair{
      .layer = *linear, .norm = norm, .norm_first = id != norm.input, .is_linear = true};
}

// The pairs that a batch norm is in. Only a linear may come after it: the padding of a convolution
// puts zeros, not the shift, around what the batch norm returns.
std::vector<NormPair> pairs_of(const Model& model, const BatchNormOp& norm,
                               const NormFolding& folding) {
  std::vector<NormPair> pairs;
  if (folding.layer == NormFolding::LayerKind::convolution) {
    if (auto pair = conv_before(model, norm)) pairs.push_back(std::move(*pair));
    return pairs;
  }
  if (auto pair = linear_at(model, norm.input, norm)) pairs.push_back(std::move(*pair));
  for (NodeId user : model.graph().users(norm.node))
    if (auto pair = linear_at(model, user, norm); pair && pair->layer.input == norm.node)
      pairs.push_back(std::move(*pair));
  return pairs;
}

// ---- the new tensors ---------------------------------------------------------------------------

// One factor for each output of the layer, in the shape in which it multiplies the weight.
at::Tensor output_factor(const at::Tensor& scale, const at::Tensor& weight, const NormPair& pair) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(weight.dim()), 1);
  if (!pair.transposed) {
    shape[0] = -1;
    return scale.reshape(shape);
  }
  // The weight of a transposed convolution is (inputs, outputs / groups, ...), with the inputs of
  // each group together.
  const std::int64_t inputs = weight.size(0);
  shape[0] = inputs;
  shape[1] = -1;
  return scale.reshape({pair.groups, 1, -1}).expand({-1, inputs / pair.groups, -1}).reshape(shape);
}

Fold fold(const Model& model, const NormPair& pair) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const Affine affine = affine_of(model, pair.norm);
  const at::Tensor weight = tensor_of(model, pair.layer.weight).detach();
  const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
  at::Tensor bias;
  if (pair.layer.bias) bias = wide(tensor_of(model, *pair.layer.bias).detach());
  if (pair.norm_first) {
    const at::Tensor shift = at::mv(wide(weight), affine.shift);
    return {affine.scale.unsqueeze(0), bias.defined() ? shift + bias : shift};
  }
  return {output_factor(affine.scale, weight, pair),
          bias.defined() ? bias * affine.scale + affine.shift : affine.shift};
}

// ---- legality ----------------------------------------------------------------------------------

bool is_of_kind(const NormFolding& folding, const NormPair& pair) {
  using Transposed = NormFolding::Transposed;
  return pair.is_linear || (pair.dims == folding.dims &&
                            (folding.transposed == Transposed::both ||
                             pair.transposed == (folding.transposed == Transposed::yes)));
}

// "torch.nn.BatchNorm2d": 2. 0 for a batch norm that is a call, which takes any number.
int dims_of_module(const Model& model, const BatchNormOp& norm) {
  if (!norm.module) return 0;
  const std::string& type = model.modules()[norm.module].type;
  return type.ends_with("1d") ? 1 : type.ends_with("2d") ? 2 : 3;
}

std::optional<Reason> why_wrong_rank_for_linear(const Model& model, const NormPair& pair) {
  const auto rank = book::known_rank(model, pair.norm.input);
  if (!rank) return because<ReasonId::activation_rank_unknown>();
  if (rank != 2) return because<ReasonId::activation_rank>(*rank);
  return std::nullopt;
}

// The result of a convolution without a batch dimension has its channels first, and a batch norm
// expects them second. BatchNorm2d raises an error for such a result, but BatchNorm1d and the
// function run if the sizes happen to fit. So the rank must be known, except for BatchNorm2d.
std::optional<Reason> why_wrong_rank_for_conv(const Model& model, const NormPair& pair) {
  static constexpr std::string_view kWords[] = {"", "one", "two", "three"};
  const int dims = dims_of_module(model, pair.norm);
  if (dims != 0 && dims != pair.dims) return because<ReasonId::norm_dimensions>(kWords[dims]);
  const auto rank = book::known_rank(model, pair.layer.node);
  if (!rank && dims != 2) return because<ReasonId::convolution_rank_unknown>();
  if (rank && *rank != static_cast<std::size_t>(pair.dims) + 2)
    return because<ReasonId::convolution_rank>(*rank);
  return std::nullopt;
}

std::optional<Reason> why_wrong_size(const Model& model, const NormPair& pair) {
  const at::Tensor weight = tensor_of(model, pair.layer.weight);
  const std::int64_t channels = tensor_of(model, pair.norm.mean).size(0);
  if (pair.is_linear) {
    if (channels != weight.size(pair.norm_first ? 1 : 0))
      return because<ReasonId::features_differ>();
    return std::nullopt;
  }
  if (pair.transposed && (pair.groups < 1 || weight.size(0) % pair.groups != 0))
    return because<ReasonId::channels_differ>();
  if (channels != (pair.transposed ? weight.size(1) * pair.groups : weight.size(0)))
    return because<ReasonId::channels_differ>();
  if (pair.layer.bias && tensor_of(model, *pair.layer.bias).sizes() != at::IntArrayRef(channels))
    return because<ReasonId::bias_does_not_fit>();
  return std::nullopt;
}

Reason result_is_used(const NormPair& pair) {
  if (!pair.is_linear) return because<ReasonId::convolution_result_used>();
  return pair.norm_first ? because<ReasonId::norm_result_used>()
                         : because<ReasonId::linear_result_used>();
}

std::optional<Reason> why_not(const Model& model, const NormPair& pair, LazyWrites& writes,
                              std::optional<Sharing>& sharing) {
  if (pair.norm.problem) return pair.norm.problem;
  if (pair.layer.problem) return pair.layer.problem;
  if (model.graph().num_users(pair.inner()) > 1) return result_is_used(pair);
  if (auto why = pair.is_linear ? why_wrong_rank_for_linear(model, pair)
                                : why_wrong_rank_for_conv(model, pair))
    return why;
  if (auto why = why_not_foldable(model, pair.layer, pair.norm, sharing)) return why;
  if (auto why = why_wrong_size(model, pair)) return why;
  if (writes.between(pair.input(), pair.inner(), pair.outer()))
    return pair.is_linear ? because<ReasonId::linear_input_written>()
                          : because<ReasonId::convolution_input_written>();
  // Last, because it reads the weight.
  return why_not_finite(model, pair.layer, fold(model, pair));
}

// Whether a batch norm that is in no pair is worth a refusal. Those of sequences and volumes are
// not: the same batch norm may be folded into a linear, which refuses it itself.
bool is_expected(const Model& model, const BatchNormOp& norm, const NormFolding& folding) {
  const bool linear = folding.layer == NormFolding::LayerKind::linear;
  if (!linear && folding.dims != 2) return false;
  if (norm.module) return dims_of_module(model, norm) == (linear ? 1 : 2);
  const auto rank = norm.input ? book::known_rank(model, norm.input) : std::nullopt;
  return linear ? rank == 2 || rank == 3 : rank == 4;
}

Reason not_in_a_pair(const Model& model, const BatchNormOp& norm, const NormFolding& folding) {
  if (norm.problem) return *norm.problem;
  if (folding.layer == NormFolding::LayerKind::linear) return because<ReasonId::no_linear_beside>();
  return because<ReasonId::input_not_convolution>(model.graph()[norm.input].name);
}

// The order of the nodes decides the name of the site, and saved histories contain such names: the
// batch norm comes first in those of sequences and volumes, which were written by rules.
std::vector<NodeId> site_nodes(const NormPair& pair) {
  const bool outer_first = !pair.is_linear && pair.dims != 2;
  if (outer_first) return {pair.outer(), pair.inner()};
  return {pair.inner(), pair.outer()};
}

class PairSearch {
 public:
  PairSearch(const Model& model, const NormFolding& folding)
      : model_(model), folding_(folding), writes_(model) {}

  Findings run() {
    for (NodeId id : model_.graph())
      if (const auto norm = BatchNormOp::match(model_, id)) add(*norm);
    return std::move(findings_);
  }

 private:
  // The first pair that can be folded, or a refusal for each of them.
  void add(const BatchNormOp& norm) {
    const std::vector<NormPair> pairs = pairs_of(model_, norm, folding_);
    Findings found;
    for (const NormPair& pair : pairs) {
      Site site{.nodes = site_nodes(pair)};
      if (!is_of_kind(folding_, pair)) {
        // Another transformation is for that convolution. It may not fit the norm.
        if (pair.dims != folding_.dims && is_expected(model_, norm, folding_))
          found.add(std::move(site), because<ReasonId::not_2d_convolution>());
      } else if (found.add(site, why_not(model_, pair, writes_, sharing_))) {
        findings_.sites.push_back(std::move(site));
        return;
      }
    }
    if (pairs.empty() && is_expected(model_, norm, folding_))
      found.add({.nodes = {norm.node}}, not_in_a_pair(model_, norm, folding_));
    for (Refusal& refusal : found.refusals) findings_.refusals.push_back(std::move(refusal));
  }

  const Model& model_;
  const NormFolding& folding_;
  LazyWrites writes_;
  std::optional<Sharing> sharing_;
  Findings findings_;
};

}  // namespace

Findings find_batch_norms(const Model& model, const NormFolding& folding) {
  return PairSearch(model, folding).run();
}

std::optional<Reason> fold_batch_norm(Editor& editor, const Site& site,
                                      const NormFolding& folding) {
  const Model& model = editor.model();
  const auto second = BatchNormOp::match(model, site.nodes[1]);
  const BatchNormOp norm = second ? *second : *BatchNormOp::match(model, site.nodes[0]);
  const NormPair pair = folding.layer == NormFolding::LayerKind::linear
                            ? *linear_at(model, second ? norm.input : site.nodes[1], norm)
                            : *conv_before(model, norm);
  const std::optional<Layer> folded =
      set_folded(editor, pair.layer, fold(model, pair), pair.outer());
  if (!folded) return because<ReasonId::folded_not_finite>();

  // The outer node yields the value that is kept: it is, or becomes, the layer.
  Node node = respelled(model, *folded, pair.input(), folded->bias);
  node.type = editor.graph()[pair.outer()].type;
  node.meta = editor.graph()[pair.outer()].meta;
  editor.set_node(pair.outer(), std::move(node));
  editor.erase_node(pair.inner());
  erase_unread(editor, pair.layer);
  pair.norm.erase_tensors(editor);
  return std::nullopt;
}

}  // namespace refx
