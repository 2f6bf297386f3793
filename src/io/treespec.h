// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// The structure of a nested Python value: torch.utils._pytree's TreeSpec.
struct TreeSpec {
  enum class NodeKind { leaf, tuple, list, dict, other };  // other: a class that only Python has

  // The key of a child in a dict, or the name of a field.
  struct Key {
    std::string text;
    bool is_number = false;
    std::int64_t number = 0;
    bool operator==(const Key&) const = default;
  };

  NodeKind kind = NodeKind::leaf;
  std::string type;  // as Python calls it: "builtins.tuple", "collections.namedtuple", …
  std::vector<Key>
      keys;  // one for each child of a dict; of another class, as far as known; or none
  std::vector<TreeSpec> children;

  std::size_t num_leaves = 1;  // in this node and below
};

// Throws Error if the text is not what torch.utils._pytree.treespec_dumps writes.
TreeSpec parse_treespec(std::string_view json);

}  // namespace refx
