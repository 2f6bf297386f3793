// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Limits on what a file may ask for. A file beyond a limit is an Error.
namespace refx::limits {

// ---- inputs and outputs -------------------------------------------------------------------------

// Values in a pickle. A value that is referenced several times counts each time.
inline constexpr std::uint64_t kPickledValues = 1'000'000;
// Depth of nested containers, because the code that walks them is recursive.
inline constexpr int kValueDepth = 200;
// Slots of a dict for each key. torch's hash table grows until no keys collide, which hostile keys
// can exploit.
inline constexpr std::size_t kDictSlots = 8;
// Generated inputs, at 16 bytes for each element.
inline constexpr std::uint64_t kGeneratedBytes = 1ull << 33;
// The text of all paths into a value, as in "output[0]['logits']".
inline constexpr std::size_t kPathText = 1ull << 26;

// ---- tensors ------------------------------------------------------------------------------------

// Dimensions of a tensor: torch's kernels take no more.
inline constexpr std::size_t kDims = 64;
// The size of expanded tensors (which repeat their elements) beyond what is stored.
inline constexpr std::uint64_t kExpandedBytes = 1ull << 30;

// ---- JSON and the program -----------------------------------------------------------------------

// Python's reader fails at about 1000 levels. torch.export nests about 10 levels, and 7 more for
// each subgraph.
inline constexpr std::size_t kJsonDepth = 500;
// Depth of nested dicts in an argument of a node.
inline constexpr int kArgumentDepth = 50;
// PyTorch's kernels take 64 dimensions; the text of symbolic strides grows with the square.
inline constexpr std::size_t kTensorSizes = 64;
// Characters of a symbolic size; those of torch.export have a few hundred.
inline constexpr std::size_t kExpressionLength = 10'000;
inline constexpr int kExpressionDepth = 200;
// All parts of symbolic sizes that are remembered for writing products of them, in bytes.
inline constexpr std::size_t kExpressionParts = 16 << 20;

// ---- running ------------------------------------------------------------------------------------

// Items of a list that a model repeats or concatenates. An item that occurs several times counts
// each time.
inline constexpr std::size_t kListItems = 1'000'000;
// Depth of nested lists that a model creates while it runs: the code that walks them is recursive.
inline constexpr int kListDepth = 100;
// Parts of an index of a tensor: torch's kernels support as many dimensions.
inline constexpr std::size_t kIndexParts = 64;

// ---- histories and arguments --------------------------------------------------------------------

// Depth of nested lists in an argument of a node, because the code that walks them is recursive.
// torch nests about three.
inline constexpr int kNesting = 100;
// Step ids have 32 bits; a file may use the lower half, so that new steps still get ids.
inline constexpr std::uint32_t kStepId = 1u << 31;
// Total size of detached originals: more than any file has.
inline constexpr std::uint64_t kDetachedBytes = 1ull << 50;
// Bytes of the header of a .safetensors file: the limit of the safetensors library.
inline constexpr std::uint64_t kTensorHeader = 100'000'000;
// Originals that are stored as slices are copied when they are needed: in total at most this many
// times the size of the file.
inline constexpr std::uint64_t kSlicesOfFile = 200;

// ---- rules --------------------------------------------------------------------------------------

inline constexpr std::size_t kRuleText = 1 << 20;  // bytes of a file of rules
// For one rule: operators in each of its graphs, variables, and alternative patterns.
inline constexpr std::size_t kRuleNodes = 200;
inline constexpr std::size_t kRuleVariables = 64;
inline constexpr std::size_t kRuleForms = 64;
// Attempts to match at one node: the choices that a rule leaves open multiply.
inline constexpr int kRuleTrials = 20'000;

}  // namespace refx::limits
