// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <set>
#include <string>
#include <vector>

#include "transforms/site_filter.h"

namespace refx {

// A part of a model that transformations compete for, with the nodes that use its results, as a
// model that runs by itself.
struct Place {
  std::string site;          // what to call it
  std::vector<NodeId> core;  // the nodes of its sites, in the whole
  Model part;
  std::vector<NodeId> inputs;  // nodes of the whole whose values the part takes
  std::set<NodeId> users;      // nodes of the part that only use its results
  std::string key;             // the same for places that are alike
};

// The places where these transformations apply and the filter accepts it. Sites that have a node in
// common are one place. `form` is the model where it is measured, with the same nodes; its parts
// are taken from there.
std::vector<Place> places_of(const Model& model, const Model& form,
                             const std::vector<TransformationPtr>& all, FilterUse& filter);

// What these nodes are in a run of the model.
std::vector<c10::IValue> values_of(const Model& model, const std::vector<NodeId>& nodes,
                                   const std::vector<c10::IValue>& inputs);

}  // namespace refx
