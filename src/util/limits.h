// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// How much of a file is taken at its word, in one place. What goes beyond is an Error.
namespace refx::limits {

// ---- inputs and outputs -------------------------------------------------------------------------

// Values in a pickle; one that is referred to several times counts as often.
inline constexpr std::uint64_t kPickledValues = 1'000'000;
// Containers in containers: all that walks them recurses.
inline constexpr int kValueDepth = 200;
// Slots for each key of a dict: torch's table grows until keys that collide fall apart.
inline constexpr std::size_t kDictSlots = 8;
// Inputs that refx makes up, with 16 bytes for each element.
inline constexpr std::uint64_t kGeneratedBytes = 1ull << 33;
// The text of all paths into a value, as in "output[0]['logits']".
inline constexpr std::size_t kPathText = 1ull << 26;

// ---- tensors ------------------------------------------------------------------------------------

// Dimensions of a tensor: torch's kernels take no more.
inline constexpr std::size_t kDims = 64;
// What a tensor that repeats its elements (an expanded one) may stand for beyond what is stored.
inline constexpr std::uint64_t kExpandedBytes = 1ull << 30;

// ---- JSON and the program -----------------------------------------------------------------------

// Python's reader gives up at about 1000; torch.export nests some 10 levels, 7 more per subgraph.
inline constexpr std::size_t kJsonDepth = 500;
// Dicts in dicts in an argument of a node.
inline constexpr int kArgumentDepth = 50;
// PyTorch's kernels take 64; the strides of symbolic sizes grow with the square.
inline constexpr std::size_t kTensorSizes = 64;
// Of a symbolic size; those of torch.export have some hundred characters.
inline constexpr std::size_t kExpressionLength = 10'000;
inline constexpr int kExpressionDepth = 200;
// All parts of symbolic sizes that are remembered for writing products of them, in bytes.
inline constexpr std::size_t kExpressionParts = 16 << 20;

// ---- running ------------------------------------------------------------------------------------

// Items of a list that a model repeats or adds up; one that stands in several places counts as
// often.
inline constexpr std::size_t kListItems = 1'000'000;
// Lists in lists that a model makes while it runs: all that walks them recurses.
inline constexpr int kListDepth = 100;
// Parts of an index of a tensor, which has no more dimensions in torch's kernels.
inline constexpr std::size_t kIndexParts = 64;

// ---- histories and arguments --------------------------------------------------------------------

// Lists in lists, in one argument of a node: all that walks them recurses. torch nests three or so.
inline constexpr int kNesting = 100;
// Ids of steps have 32 bits; the upper half is left for steps to come.
inline constexpr std::uint32_t kStepId = 1u << 31;
// Originals that a file is without, together: no file has as much.
inline constexpr std::uint64_t kDetachedBytes = 1ull << 50;
// The header of a .safetensors file, in bytes: as its own library has it.
inline constexpr std::uint64_t kTensorHeader = 100'000'000;
// Originals that are kept as slices are copied out when they are needed: so many times the file.
inline constexpr std::uint64_t kSlicesOfFile = 200;

// ---- rules --------------------------------------------------------------------------------------

inline constexpr std::size_t kRuleText = 1 << 20;  // bytes of a file of rules
// Of one rule: operators in each of its graphs, variables, and forms of what it looks for.
inline constexpr std::size_t kRuleNodes = 200;
inline constexpr std::size_t kRuleVariables = 64;
inline constexpr std::size_t kRuleForms = 64;
// Trials at one place of a model: what a rule leaves open multiplies.
inline constexpr int kRuleTrials = 20'000;

}  // namespace refx::limits
