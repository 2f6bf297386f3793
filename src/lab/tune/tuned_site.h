// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <set>
#include <string>
#include <vector>

#include "transforms/site_filter.h"

namespace refx {

// A part of a model that several transformations may rewrite, with the nodes that use its results,
// as a model that runs by itself.
struct TunedSite {
  std::string name;          // of the largest site that it consists of
  std::vector<NodeId> core;  // the nodes of its sites, in the whole
  Model part;
  std::vector<NodeId> inputs;  // nodes of the whole whose values the part takes
  std::set<NodeId> users;      // nodes of the part that only use its results
  std::string key;             // the same for parts that are alike
};

// The parts that the transformations would rewrite and the filter accepts. Sites that have a node
// in common are one part. `form` is the model where it is measured, with the same nodes; the parts
// are taken from it.
std::vector<TunedSite> tuned_sites(const Model& model, const Model& form,
                                   const std::vector<TransformationPtr>& all, FilterUse& filter);

// The values of these nodes in a run of the model.
std::vector<c10::IValue> values_of(const Model& model, const std::vector<NodeId>& nodes,
                                   const std::vector<c10::IValue>& inputs);

}  // namespace refx
