// SPDX-License-Identifier: Apache-2.0

#include "refx/model.h"

namespace refx {

Model::Model() = default;
// Without what run() keeps: a copy runs with state of its own.
Model::Model(const Model& other)
    : graph_(other.graph_),
      state_(other.state_),
      modules_(other.modules_),
      history_(other.history_),
      mutations_(other.mutations_),
      revision_(other.revision_),
      source_(other.source_),
      kept_modules_(other.kept_modules_) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(const Model& other) { return *this = Model(other); }
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

}  // namespace refx
