#include "book/policy.h"

#include <algorithm>

#include "util/glob.h"

namespace refx::book {

namespace {

constexpr std::string_view kFile = "it reads any file, and can write it";
constexpr std::string_view kMemory = "it puts other memory under a tensor, or takes its own away";
constexpr std::string_view kStrides = "it trusts strides that lead out of the tensor's memory";
constexpr std::string_view kIndices = "it trusts indices and lengths in its arguments";
constexpr std::string_view kGradient =
    "it trusts indices and shapes from the forward call whose gradient it is";
constexpr std::string_view kBackend =
    "it is one backend's own, and trusts shapes that the operator above it has checked";
constexpr std::string_view kPacked = "it trusts a packed weight, which holds whatever is in it";
constexpr std::string_view kNested = "it trusts sizes and offsets of a nested tensor";
constexpr std::string_view kOutside = "it acts on more than its results";
constexpr std::string_view kInternal = "it is internal: its callers check arguments, it does not";

// The first row that fits holds.
constexpr RefusedOps kRefused[] = {
    {"from_file", kFile},
    {"_print", kOutside},
    {"_cufft_*", kOutside},
    {"record_stream", kOutside},
    {"pin_memory", kOutside},
    {"_pin_memory", kOutside},
    {"set", kMemory},
    {"set_", kMemory},
    {"set_data", kMemory},
    {"resize*", kMemory},
    {"_resize_*", kMemory},
    {"_copy_from_and_resize", kMemory},
    {"sparse_resize*", kMemory},
    {"as_strided_", kStrides},
    {"_reshape_alias*", kStrides},
    {"*_tensor_unsafe", kIndices},
    {"sparse_*_tensor", kIndices},
    {"_sparse_*_tensor_with_dims*", kIndices},
    {"_coalesced*", kIndices},
    {"_index_put_impl*", kIndices},
    {"segment_reduce", kIndices},
    {"ctc_loss", kIndices},
    {"_ctc_loss", kIndices},
    {"_pad_packed_sequence", kIndices},
    {"_foreach_copy", kIndices},
    {"*nested*", kNested},
    {"*jagged*", kNested},
    {"*_backward*", kGradient},
    {"fbgemm_*", kPacked},
    {"quantized_*", kPacked},
    {"*_prepack*", kPacked},
    {"*pack_mm*", kPacked},
    {"cudnn_*", kBackend},
    {"_cudnn_*", kBackend},
    {"miopen_*", kBackend},
    {"mkldnn_*", kBackend},
    {"_mkldnn_*", kBackend},
    {"_*", kInternal},
};

constexpr std::string_view kInternalOps[] = {
    "__*",  // Python's own spellings: __and__, __lshift__
    "_adaptive_avg_pool*",
    "_addmm_activation",
    "_assert_*",
    "_batch_norm_with_update*",
    "_cast_*",
    "_cdist_forward",
    "_conj*",
    "_convolution",
    "_convolution_mode",
    "_dim_arange",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_euclidean_dist",
    "_fake_quantize_*",
    "_fft_*",
    "_foreach_*",
    "_functional_assert_*",
    "_functional_sym_constrain_range*",
    "_fused_moving_avg_obs_fq_helper*",
    "_fused_rms_norm",
    "_fused_sdp_choice",
    "_grouped_mm",
    "_histogramdd_*",
    "_int_mm",
    "_is_all_true",
    "_is_any_true",
    "_linalg_*",
    "_local_scalar_dense",
    "_log_softmax",
    "_lu_with_info",
    "_masked_softmax",
    "_native_batch_norm_legit*",
    "_native_multi_head_attention",
    "_neg_view*",
    "_pack_padded_sequence",
    "_pad_circular",
    "_pad_enum",
    "_pdist_forward",
    "_prelu_kernel",
    "_safe_softmax",
    "_sample_dirichlet",
    "_scaled_dot_product_*",
    "_scaled_grouped_mm",
    "_scaled_mm",
    "_shape_as_tensor",
    "_softmax",
    "_standard_gamma",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "_to_copy",
    "_to_cpu",
    "_to_sparse*",
    "_transformer_encoder_layer_fwd",
    "_trilinear",
    "_unique*",
    "_unsafe_index",  // the name is about gradients: the four check their indices
    "_unsafe_index_put",
    "_unsafe_masked_index*",
    "_unsafe_view",
    "_upsample_*",
    "_weight_norm",
    "_weight_norm_interface",
};

}  // namespace

std::span<const RefusedOps> refused_ops() { return kRefused; }
std::span<const std::string_view> internal_ops() { return kInternalOps; }

bool is_common(std::string_view space) { return space == "aten" || space == "prims"; }

std::string_view why_refused(std::string_view name) {
  for (const RefusedOps& row : kRefused) {
    if (!glob_match(row.names, name)) continue;
    const bool runs = row.reason == kInternal &&
                      std::any_of(std::begin(kInternalOps), std::end(kInternalOps),
                                  [&](std::string_view ops) { return glob_match(ops, name); });
    return runs ? std::string_view() : row.reason;
  }
  return {};
}

}  // namespace refx::book
