// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transforms/site_names.h"

namespace refx {

// Sites inside the branches of torch.cond and the bodies of loops. Such a site is named
// "cond/true_graph_0/layer.{q,k}"; its one node is the higher-order call. A step at it replaces the
// subgraph as a whole.

Findings find_in_subgraphs(const Model& model, const Transformation& transformation,
                           SiteNames& names);
bool is_in_subgraph(const Model& model, const Site& site);
// Returns a reason if the site cannot be rewritten; then the edits must be rolled back.
std::optional<Reason> apply_in_subgraph(Editor& editor, const Transformation& transformation,
                                        const Site& site);

}  // namespace refx
