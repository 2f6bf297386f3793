// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pt2/source.h"
#include "refx/model.h"

namespace refx {

// Writes the steps of a model, which name objects and number tensors, and where the objects that
// they added are. read_steps() reads both.
class StepWriter {
 public:
  // The number of a tensor in the history.
  using NumberOf = std::function<std::size_t(const at::TensorBase&)>;

  StepWriter(const Model& model, const Origin& origin, NumberOf number_of);

  void append_steps(std::string& out) const;
  std::string places() const;

 private:
  const Name& node_name(NodeId id) const;
  const Name& state_name(StateId id) const;
  void step(std::string& out, const Step& step) const;
  void node(std::string& out, const Node& node) const;
  void state(std::string& out, const StateEntry& entry) const;

  const Model& model_;
  const Origin& origin_;
  NumberOf number_of_;
  std::vector<const Name*> node_names_, state_names_;        // by id
  std::unordered_map<const Meta*, std::string_view> metas_;  // whose it is in the original
};

}  // namespace refx
