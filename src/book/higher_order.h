// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "refx/node.h"

namespace refx::book {

// The settings of a torch.autocast region.
struct Autocast {
  c10::DeviceType device = c10::DeviceType::CPU;
  c10::ScalarType dtype = c10::ScalarType::Undefined;  // the device's default
  bool enabled = true;
  bool operator==(const Autocast&) const = default;
};

// A call of a higher-order operator: which of its arguments are subgraphs, and with which inputs
// each subgraph is called, in this order: `carried`, one slice of each of `sliced`, `fixed`.
struct HigherOrder {
  enum class Construct : std::uint8_t {
    wrap,        // one subgraph, called once: regions without gradients, under autocast, …
    cond,        // `carried` is empty, the first argument chooses one of two
    while_loop,  // a condition and a body
    scan,
    map,
  };
  Construct kind = Construct::wrap;
  std::vector<std::size_t> subgraphs = {};  // positions among the node's arguments
  Args carried = {}, sliced = {}, fixed = {};
  std::optional<Autocast> autocast = {};  // of a wrap
};

bool is_higher_order(const Node& node);
// Returns nothing for an unknown operator, or if the arguments are not as expected.
std::optional<HigherOrder> higher_order(const Node& node);

}  // namespace refx::book
